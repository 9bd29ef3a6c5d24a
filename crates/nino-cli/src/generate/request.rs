//! From the command line to a request: names become values, the model fills what was not said.

use crate::args::{GenerateArgs, SamplingArgs};
use crate::failure::Usage;
use crate::printer;
use anyhow::Result;
use nino_engine::{Checkpoint, GenerateRequest, Rng, SampleError, SamplerInfo, Scheduler, Seed};
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) fn request(args: &GenerateArgs, model: &Checkpoint) -> Result<GenerateRequest> {
    let mut request = GenerateRequest::new(model, &args.prompt);
    request.negative.clone_from(&args.negative);
    if let Some(size) = args.size {
        request.width = rounded("width", size.width);
        request.height = rounded("height", size.height);
    }
    request.batch = usize::from(args.batch);
    sampling(&args.sampling, &mut request)?;
    Ok(request)
}

fn sampling(args: &SamplingArgs, request: &mut GenerateRequest) -> Result<(), Usage> {
    request.seed = Seed {
        value: args.seed.unwrap_or_else(new_seed),
        rng: rng(&args.rng)?,
    };
    if let Some(name) = &args.sampler {
        request.sampler = SamplerInfo::find(name).map_err(|e| usage(&e))?;
    }
    if let Some(name) = &args.scheduler {
        request.scheduler = Scheduler::find(name).map_err(|e| usage(&e))?;
    }
    request.steps = args.steps.map_or(request.steps, |n| n as usize);
    request.cfg = args.cfg.unwrap_or(request.cfg);
    Ok(())
}

fn rng(name: &str) -> Result<Rng, Usage> {
    Rng::parse(name).ok_or_else(|| {
        Usage(format!(
            "no stream of noise is called {name:?}; there are torch and philox"
        ))
    })
}

fn usage(error: &SampleError) -> Usage {
    Usage(error.to_string())
}

/// Latents are made of squares of 8 pixels.
pub(super) fn rounded(what: &str, pixels: usize) -> usize {
    let whole = (pixels / 8).max(1) * 8;
    if whole != pixels {
        printer::note(&format!(
            "note: a {what} of {pixels} becomes {whole}, a multiple of 8"
        ));
    }
    whole
}

fn new_seed() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    // Nine digits: enough to differ, short enough to type.
    (now.as_nanos() as u64 ^ u64::from(std::process::id())) % 1_000_000_000
}
