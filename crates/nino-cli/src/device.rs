//! Which device the flags, variables, the config file and the profile choose. The engine lists and
//! opens devices; this file only says which.

#[cfg(test)]
mod tests;

use crate::args::{DeviceArgs, ProfileArgs, TextDeviceArgs};
use crate::bytes::Bytes;
use crate::env::Env;
use crate::failure::Usage;
use crate::settings::Settings;
use anyhow::Result;
use nino_engine::Store;
use nino_engine::device::{self, DeviceChoice, DeviceError, Tier, Trial};
pub(crate) use nino_engine::device::{Ceiling, DeviceName, Opened};
use nino_graph::{Load, Rates};

/// What the user wants: flags first, then variables, the config file, the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) device: DeviceChoice,
    /// For the flags of single verbs.
    pub(crate) settings: Settings,
}

impl Choice {
    pub(crate) fn new(args: &DeviceArgs, env: &Env) -> Result<Choice, Usage> {
        Choice::with_profile(args, &ProfileArgs::default(), env)
    }

    /// `profile` is the command line's; without one, a variable or the config file may name it.
    pub(crate) fn with_profile(
        args: &DeviceArgs,
        profile: &ProfileArgs,
        env: &Env,
    ) -> Result<Choice, Usage> {
        let settings = env.settings.with_profile(profile.profile.clone())?;
        let budget = settings.pick("budget", args.budget, str::parse)?;
        let threads = settings.pick("threads", args.threads, threads)?;
        let device = DeviceChoice {
            device: settings.pick("device", args.device, str::parse)?,
            tier: settings.pick("gpu_tier", args.gpu_tier, tier)?,
            budget: budget.map(|Bytes(bytes)| bytes),
            threads: threads.map(usize::from),
            cache_dir: env.cache_dir.clone(),
            temp_dir: env.temp_dir.clone(),
            no_ptx: env.no_ptx,
            gpu_int8: env.gpu_int8,
        };
        if device.device == Some(DeviceName::Cpu) && args.gpu_tier.is_some() {
            let text = "--gpu-tier is for GPUs, and the device is the CPU: leave one out";
            return Err(Usage(text.to_owned()));
        }
        Ok(Choice { device, settings })
    }
}

/// Matrix units that drivers have died of are tried by a process of their own first.
pub(crate) fn try_matrices(env: &Env) {
    match std::env::current_exe() {
        Ok(program) if env.tries_gpus => device::try_matrices_with(Trial {
            program,
            args: vec!["try-gpu".into()],
            folder: env.cache_dir.as_ref().map(|dir| dir.join("kernels")),
        }),
        Ok(_) => {}
        Err(e) => tracing::debug!("matrix units are used without a trial: {e}"),
    }
}

/// Opens the one device that was chosen.
pub(crate) fn open(choice: &Choice) -> Result<Opened, DeviceError> {
    device::open(&choice.device)
}

/// Opens the device for text encoders, where that is another than the one that was chosen.
pub(crate) fn open_for_text(
    choice: &Choice,
    args: &TextDeviceArgs,
    opened: &Opened,
) -> Result<Option<Opened>> {
    let wanted = choice
        .settings
        .pick("text_device", args.text_device, str::parse)?;
    let Some(device) = wanted else {
        return Ok(None);
    };
    let is_cpu = device == DeviceName::Cpu;
    if is_cpu && opened.tier.is_none() {
        return Ok(None);
    }
    // The budget and the tier are the other device's.
    let text = device::open(&DeviceChoice {
        device: Some(device),
        tier: None,
        budget: None,
        ..choice.device.clone()
    })?;
    let is_same = text.name == opened.name && !opened.is_predicted();
    Ok(Some(text).filter(|_| !is_same))
}

/// A store for so many pictures.
pub(crate) fn store(opened: &Opened, text: Option<&Opened>, pictures: usize) -> Store {
    let store = Store::for_pictures(opened.device.clone(), pictures);
    if let Some(text) = text {
        store.encode_text_on(text.device.clone());
    }
    store
}

/// How fast the device does `loads`. A plan does not fail because its time could not be estimated:
/// why is told, and there is no estimate.
pub(crate) fn rates(opened: &Opened, loads: &[&Load]) -> Option<Rates> {
    match opened.rates(loads) {
        Ok(rates) => Some(rates),
        Err(e) => {
            let name = opened.name;
            tracing::warn!("no time is estimated, because {name} could not be measured: {e}");
            None
        }
    }
}

fn threads(text: &str) -> Result<u16, &'static str> {
    let n = text.parse().ok().filter(|n| (1..=1024).contains(n));
    n.ok_or("a number from 1 to 1024 is wanted")
}

fn tier(text: &str) -> Result<Tier, String> {
    let lower = text.to_lowercase();
    lower.parse().map_err(|_| {
        let names = Tier::ALL.map(Tier::name);
        format!("one of {} is wanted", names.join(", "))
    })
}
