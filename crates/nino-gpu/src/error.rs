//! What can go wrong on a GPU, with the numbers a person needs to act on it.

use nino_graph::Mib;

/// Operations that fail for ordinary reasons: no device, no memory, a device that went away.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    #[error("no GPU adapter: {reason}")]
    NoAdapter { reason: String },
    #[error("no GPU matches {wanted:?}: found {}", found.join(", "))]
    NoSuchAdapter { wanted: String, found: Vec<String> },
    #[error("unknown GPU tier {name:?}: known are f32, f16, subgroup, coop")]
    UnknownTier { name: String },
    #[error("{adapter} has no {wanted} tier: it has {}", available.join(", "))]
    NoSuchTier {
        adapter: String,
        wanted: &'static str,
        available: Vec<&'static str>,
    },
    #[error("{adapter}: device could not be created: {reason}")]
    DeviceCreation { adapter: String, reason: String },
    #[error("out of GPU memory: wanted {} for {what}, free {}", up(*wanted), opt_bytes(*free))]
    OutOfMemory {
        what: String,
        wanted: u64,
        free: Option<u64>,
    },
    #[error("{} would have to be moved to host memory, of which {} are free", up(*wanted), down(*free))]
    HostMemory { wanted: u64, free: u64 },
    #[error("GPU device lost: {reason}")]
    DeviceLost { reason: String },
    #[error("{what}: one binding of {} exceeds the device's limit of {}", up(*bytes), down(*limit))]
    BindingTooLarge {
        what: String,
        bytes: u64,
        limit: u64,
    },
    #[error("{op} is not supported on the GPU: {why}")]
    Unsupported { op: String, why: String },
    #[error("kernel {kernel} was refused: {reason}")]
    Kernel { kernel: String, reason: String },
    #[error("reading {name}: {source}")]
    Source {
        name: String,
        source: std::io::Error,
    },
    #[error("GPU validation error in {what}: {reason}")]
    Validation { what: String, reason: String },
}

fn opt_bytes(free: Option<u64>) -> String {
    free.map_or_else(|| "unknown".to_owned(), |b| down(b).to_string())
}

fn up(bytes: u64) -> Mib {
    Mib::up(bytes as usize)
}

fn down(bytes: u64) -> Mib {
    Mib::down(bytes as usize)
}
