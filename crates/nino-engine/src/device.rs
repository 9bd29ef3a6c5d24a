//! Devices as a host sees them: which ones there are, how much memory each may use, how fast it is,
//! and opening one.
//!
//! A host lists devices with [`list`] and opens one with [`open`]; [`open_card`] stands for one of
//! [`CARDS`] that is not in this machine, for which plans can be made. The device it gets plans
//! within its [`Budget`] and can be opened again after its driver gave it up. Nothing here reads
//! environment variables: what they say comes in by [`DeviceChoice`].

mod budget;
mod cards;
mod ceiling;
mod cgroup;
mod list;
mod measure;
mod memory;
mod name;
mod open;
mod ops_log;
mod predicted;
mod profiles;
mod reopen;
#[cfg(test)]
mod tests;
mod tune;

pub use budget::{Budget, BudgetTerm, Limit};
pub use cards::{CARDS, Card, CardError, Figure, Source};
pub use ceiling::Ceiling;
pub use list::{DeviceInfo, Target, adapters, cpu_model, list, targets, try_matrices_with};
pub use memory::{GroupLimit, HostMemory, resident_bytes};
pub use name::{DeviceName, DeviceNameError};
pub use nino_cpu::{CpuError, bf16_products};
pub use nino_gpu::{
    AdapterInfo, AdapterKind, Adapters, GpuError, MemoryReading, MemorySource, Problem, Tier,
    Trial, Tuned,
};
pub use nino_models::workload::{WORKLOADS, Workload};
pub use open::{Opened, open, open_card, open_target};
pub use profiles::{DEVICE_PROFILES, DeviceProfile};
pub use reopen::{Open, Reopening};
pub use tune::Tuning;

use nino_graph::{ExecError, GraphError, PlanError};
use std::path::PathBuf;

/// Which device to open, and what it may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceChoice {
    /// The device to open. Without a name it is [`DeviceName::Auto`]; [`targets`] then gives all.
    pub device: Option<DeviceName>,
    /// The level of GPU kernels; the best one the adapter has when not given.
    pub tier: Option<Tier>,
    /// The most bytes that plans may use; when not given, the device's own [`Budget`].
    pub budget: Option<u64>,
    /// CPU threads; all cores when not given.
    pub threads: Option<usize>,
    /// The folder that keeps compiled kernels between runs; without one they are compiled each
    /// time.
    pub cache_dir: Option<PathBuf>,
    /// The folder for values of the CPU that do not fit into memory.
    pub temp_dir: Option<PathBuf>,
    /// Leaves out the kernels in PTX, which only NVIDIA's drivers take.
    pub no_ptx: bool,
    /// Whether GPUs multiply `Q8_0` weights as bytes; as each is quick at it when not given.
    pub gpu_int8: Option<bool>,
}

impl DeviceChoice {
    /// The folder for compiled kernels, and for what was measured of them.
    pub(crate) fn kernels_dir(&self) -> Option<PathBuf> {
        self.cache_dir.as_ref().map(|dir| dir.join("kernels"))
    }
}

/// Why a device cannot be opened or measured.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error(transparent)]
    Cpu(#[from] CpuError),
    #[error("there is no gpu:{wanted}; this machine has {}", found.join(", "))]
    NoSuchGpu { wanted: usize, found: Vec<String> },
    #[error("no device supports the tier {tier}; found {}", or_none(looked_at))]
    NoSuchTier { tier: Tier, looked_at: Vec<String> },
    #[error("{model} is not in this machine: it can be planned for, not measured")]
    NotHere { model: String },
    #[error("{device} has no kernel tiles to tune: only GPUs have")]
    NoTiles { device: String },
    #[error("not enough memory to measure: {} needed", nino_graph::Mib::up(*bytes))]
    NoMemory { bytes: usize },
    #[error(transparent)]
    Codec(#[from] nino_dtype::CodecError),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Exec(#[from] ExecError),
    #[error(transparent)]
    Model(#[from] nino_models::VaeError),
}

fn or_none(names: &[String]) -> String {
    if names.is_empty() {
        "none, there is no GPU".to_owned()
    } else {
        names.join(", ")
    }
}
