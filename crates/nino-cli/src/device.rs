//! Which device to use: what the flags and variables say, and how it is opened.

mod ceiling;
mod open;
mod rates;
#[cfg(test)]
mod tests;

pub(crate) use ceiling::Ceiling;
pub(crate) use open::{Opened, Target, adapters, open, open_target, targets};
pub(crate) use rates::measured;

use crate::args::{DeviceArgs, GpuTier, ProfileArgs};
use crate::bytes::Bytes;
use crate::env::Env;
use crate::failure::Usage;
use crate::settings::Settings;
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

/// What the user wants: flags first, then variables, the config file, the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// `None`: not said.
    pub(crate) device: Option<DeviceName>,
    pub(crate) tier: Option<GpuTier>,
    pub(crate) budget: Option<Bytes>,
    pub(crate) threads: Option<usize>,
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) no_ptx: bool,
    /// For the flags of single verbs.
    pub(crate) settings: Settings,
}

impl Choice {
    pub(crate) fn new(args: &DeviceArgs, env: &Env) -> Result<Choice, Usage> {
        Choice::with_profile(args, ProfileArgs { profile: None }, env)
    }

    /// `profile` is the command line's; without one, a variable or the config file may name it.
    pub(crate) fn with_profile(
        args: &DeviceArgs,
        profile: ProfileArgs,
        env: &Env,
    ) -> Result<Choice, Usage> {
        let settings = env.settings.with_profile(profile.profile)?;
        let choice = Choice {
            device: settings.pick("device", args.device, str::parse)?,
            tier: settings.choose("gpu_tier", args.gpu_tier)?,
            budget: settings.pick("budget", args.budget, str::parse)?,
            threads: settings
                .pick("threads", args.threads, threads)?
                .map(usize::from),
            cache_dir: env.cache_dir.clone(),
            no_ptx: env.no_ptx,
            settings,
        };
        if choice.device == Some(DeviceName::Cpu) && args.gpu_tier.is_some() {
            let text = "--gpu-tier chooses GPU kernels, and the device is the CPU: leave one out";
            return Err(Usage(text.to_owned()));
        }
        Ok(choice)
    }
}

fn threads(text: &str) -> Result<u16, &'static str> {
    let n = text.parse().ok().filter(|n| (1..=1024).contains(n));
    n.ok_or("a number from 1 to 1024 is wanted")
}
