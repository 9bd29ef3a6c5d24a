//! Names of devices: `auto`, `cpu`, `gpu`, `gpu:0`.

use std::fmt;
use std::str::FromStr;

/// A device by name. Prints as it is written: `auto`, `cpu`, `gpu`, `gpu:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// The best real GPU, else the CPU.
    Auto,
    Cpu,
    /// The best real GPU, or an error.
    Gpu,
    /// The adapter of this number in [`super::adapters`], which may be a software one.
    GpuAt(usize),
    /// A card of [`super::CARDS`], which is not in this machine. No text stands for it.
    Card(&'static str),
}

/// The text is no name of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a device is auto, cpu, gpu or gpu:N, such as gpu:0")]
pub struct DeviceNameError;

impl FromStr for DeviceName {
    type Err = DeviceNameError;

    fn from_str(text: &str) -> Result<DeviceName, DeviceNameError> {
        match text {
            "auto" => Ok(DeviceName::Auto),
            "cpu" => Ok(DeviceName::Cpu),
            "gpu" => Ok(DeviceName::Gpu),
            _ => {
                let index = text.strip_prefix("gpu:").and_then(|n| n.parse().ok());
                index.map(DeviceName::GpuAt).ok_or(DeviceNameError)
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
            DeviceName::Card(name) => f.pad(name),
        }
    }
}
