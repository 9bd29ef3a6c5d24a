//! Ways around errors of devices and of their memory.

use nino_engine::DeviceError;
use nino_engine::device::GpuError;
use nino_graph::{ExecError, PlanError};

const GIB: f64 = (1u64 << 30) as f64;
const MIB: usize = 1 << 20;

pub(super) fn plan_ways(error: &PlanError) -> Vec<String> {
    match error {
        PlanError::OverBudget { need, .. } => {
            vec![format!("give --budget {}MiB or more", need.div_ceil(MIB))]
        }
        PlanError::BindingTooLarge { .. } | PlanError::ValueTooLarge { .. } => in_pieces(),
        PlanError::TooManySteps { .. } => owned(&["request a smaller image, or a smaller batch"]),
    }
}

pub(super) fn exec_ways(error: &ExecError) -> Vec<String> {
    let ways: &[&str] = match error {
        ExecError::OutOfMemory { free, .. } => return less(*free),
        ExecError::HostMemory { .. } => &[
            "close programs",
            "raise --budget if the device has more memory",
            "decode in tiles: --tile fast",
        ],
        ExecError::Disk { .. } => &[
            "set TMPDIR to a folder with more free space",
            "raise --budget",
            "decode in tiles: --tile fast",
        ],
        ExecError::DeviceLost { .. } => &[
            "see `nino doctor` for known driver problems",
            "try a lower --gpu-tier",
            "use --device cpu",
        ],
        ExecError::Unsupported { .. } => return in_pieces(),
        _ => &[],
    };
    owned(ways)
}

pub(super) fn device_ways(error: &DeviceError) -> Vec<String> {
    match error {
        DeviceError::Gpu(e) => gpu_ways(e),
        DeviceError::Exec(e) => exec_ways(e),
        DeviceError::Plan(e) => plan_ways(e),
        DeviceError::NoSuchGpu { .. } => {
            owned(&["see `nino doctor`, which lists devices as gpu:N"])
        }
        DeviceError::NoSuchTier { .. } => owned(&["leave --gpu-tier out to get the best one"]),
        _ => Vec::new(),
    }
}

fn gpu_ways(error: &GpuError) -> Vec<String> {
    let ways: &[&str] = match error {
        GpuError::NoAdapter { reason } if reason.contains("software") => &[
            "name a software adapter to use it, such as --device gpu:0",
            "use --device cpu, which is faster",
        ],
        GpuError::NoAdapter { .. } => &[
            "see `nino doctor` for what is missing",
            "use --device cpu, which always works",
        ],
        GpuError::NoSuchAdapter { .. } => &["see `nino doctor`, which lists devices as gpu:N"],
        GpuError::NoSuchTier { .. } => &["leave --gpu-tier out to get the best one"],
        GpuError::DeviceCreation { .. } | GpuError::Kernel { .. } | GpuError::DeviceLost { .. } => {
            &[
                "install a newer driver",
                "try a lower --gpu-tier",
                "use --device cpu, which always works",
            ]
        }
        GpuError::OutOfMemory { free, .. } => return less(*free),
        _ => &[],
    };
    owned(ways)
}

/// For a device that has less memory than it said.
fn less(free: Option<u64>) -> Vec<String> {
    let plan = match free {
        // Rounded down: more is not there.
        Some(free) if free as f64 >= GIB / 10.0 => format!(
            "plan for less: --budget {:.1}GiB",
            (free as f64 / GIB * 10.0).floor() / 10.0
        ),
        _ => "plan for less with a lower --budget".to_owned(),
    };
    vec!["close programs that use the device".to_owned(), plan]
}

/// For what one kernel of a GPU cannot do at once.
fn in_pieces() -> Vec<String> {
    owned(&[
        "decode in tiles: --tile fast",
        "use --device cpu, which has no such limit",
    ])
}

fn owned(ways: &[&str]) -> Vec<String> {
    ways.iter().map(|way| (*way).to_owned()).collect()
}
