//! The sampler and the scheduler that flags and settings name, in anybody's words.

use crate::args::SamplingArgs;
use crate::failure::UsageWithHint;
use crate::settings::Settings;
use anyhow::Result;
use nino_engine::{GenerateRequest, Labelled, SAMPLERS, SamplerInfo, Scheduler};

/// A scheduler that is named beside the sampler wins over one in the sampler's name, and that over
/// a setting.
pub(super) fn choose(
    args: &SamplingArgs,
    settings: &Settings,
    request: &mut GenerateRequest,
) -> Result<()> {
    let mut named = None;
    match &args.sampler {
        Some(label) => {
            let found = sampler(label)?;
            (request.sampler, named) = (found.sampler, found.scheduler);
        }
        None => {
            if let Some(found) = settings.pick("sampler", None, SamplerInfo::parse)? {
                (request.sampler, named) = (found.sampler, found.scheduler);
            }
        }
    }
    let set = || settings.pick("scheduler", None, Scheduler::parse);
    let scheduler_named = match (&args.scheduler, named) {
        (Some(label), _) => Some(scheduler(label)?),
        (None, Some(named)) => Some(named),
        (None, None) => set()?,
    };
    request.scheduler = scheduler_named.unwrap_or(request.scheduler);
    Ok(())
}

/// The sampler that a flag names.
pub(crate) fn sampler(label: &str) -> Result<Labelled, UsageWithHint> {
    SamplerInfo::parse(label).map_err(|e| {
        let names: Vec<&str> = SAMPLERS.iter().map(|s| s.name).collect();
        UsageWithHint {
            sentence: e.to_string(),
            hint: format!("`nino samplers` describes them: {}", names.join(", ")),
        }
    })
}

/// The scheduler that a flag names.
pub(crate) fn scheduler(label: &str) -> Result<Scheduler, UsageWithHint> {
    Scheduler::parse(label).map_err(|e| UsageWithHint {
        sentence: e.to_string(),
        hint: format!(
            "`nino samplers` describes them: {}",
            Scheduler::ALL.map(Scheduler::name).join(", ")
        ),
    })
}
