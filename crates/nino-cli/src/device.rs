//! Which device to use: what the flags and variables say, and how it is opened.

mod ceiling;
mod open;
#[cfg(test)]
mod tests;

pub(crate) use ceiling::Ceiling;
pub(crate) use open::{Opened, Target, adapters, open, open_target, targets};

use crate::args::{DeviceArgs, GpuTier};
use crate::bytes::Bytes;
use crate::env::Env;
use crate::failure::Usage;
use clap::ValueEnum;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceName {
    /// The best real GPU, else the CPU.
    Auto,
    Cpu,
    /// The best real GPU, or an error.
    Gpu,
    GpuAt(usize),
}

impl FromStr for DeviceName {
    type Err = Usage;

    fn from_str(text: &str) -> Result<DeviceName, Usage> {
        match text {
            "auto" => Ok(DeviceName::Auto),
            "cpu" => Ok(DeviceName::Cpu),
            "gpu" => Ok(DeviceName::Gpu),
            _ => {
                let index = text.strip_prefix("gpu:").and_then(|n| n.parse().ok());
                index.map(DeviceName::GpuAt).ok_or_else(|| {
                    Usage("a device is auto, cpu, gpu or gpu:N, such as gpu:0".to_owned())
                })
            }
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Auto => f.pad("auto"),
            DeviceName::Cpu => f.pad("cpu"),
            DeviceName::Gpu => f.pad("gpu"),
            DeviceName::GpuAt(n) => f.pad(&format!("gpu:{n}")),
        }
    }
}

/// What the user wants, from flags first and variables second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// `None`: not said.
    pub(crate) device: Option<DeviceName>,
    pub(crate) tier: Option<GpuTier>,
    pub(crate) budget: Option<Bytes>,
    pub(crate) threads: Option<usize>,
    pub(crate) cache_dir: Option<PathBuf>,
}

impl Choice {
    pub(crate) fn new(args: &DeviceArgs, env: &Env) -> Result<Choice, Usage> {
        let choice = Choice {
            device: either(
                args.device,
                "NINO_DEVICE",
                env.device.as_deref(),
                str::parse,
            )?,
            tier: either(
                args.gpu_tier,
                "NINO_GPU_TIER",
                env.gpu_tier.as_deref(),
                tier,
            )?,
            budget: either(
                args.budget,
                "NINO_BUDGET",
                env.budget.as_deref(),
                str::parse,
            )?,
            threads: either(
                args.threads,
                "NINO_THREADS",
                env.threads.as_deref(),
                threads,
            )?
            .map(usize::from),
            cache_dir: env.cache_dir.clone(),
        };
        if choice.device == Some(DeviceName::Cpu) && args.gpu_tier.is_some() {
            let text = "--gpu-tier chooses GPU kernels, and the device is the CPU: leave one out";
            return Err(Usage(text.to_owned()));
        }
        Ok(choice)
    }
}

fn either<T, E: fmt::Display>(
    flag: Option<T>,
    name: &str,
    variable: Option<&str>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Usage> {
    match (flag, variable) {
        (Some(value), _) => Ok(Some(value)),
        (None, Some(text)) => match parse(text) {
            Ok(value) => Ok(Some(value)),
            Err(e) => Err(Usage(format!("the variable {name} is {text:?}: {e}"))),
        },
        (None, None) => Ok(None),
    }
}

fn tier(text: &str) -> Result<GpuTier, String> {
    GpuTier::from_str(text, false).map_err(|_| "a tier is f32, f16, subgroup or coop".to_owned())
}

fn threads(text: &str) -> Result<u16, &'static str> {
    let n = text.parse().ok().filter(|n| (1..=1024).contains(n));
    n.ok_or("a number from 1 to 1024 is wanted")
}
