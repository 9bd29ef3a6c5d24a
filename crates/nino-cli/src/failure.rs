//! From an error to one sentence, `hint:` lines and an exit code.

use crate::generate::rescue::Rescued;
use crate::hints;
use crate::pull::HubError;
use nino_engine::device::GpuError;
use nino_engine::{DeviceError, EngineError, LibraryError};
use nino_graph::{ExecError, PlanError};
use nino_suite::RunError;
use std::error::Error;
use std::io;

/// The command line asked for something that cannot be meant; exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Work ended because the user pressed Ctrl-C.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// What went wrong was printed already; there is nothing more to say than this exit code.
#[derive(Debug, thiserror::Error)]
#[error("failed")]
pub(crate) struct Told(pub(crate) u8);

pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if is_broken_pipe(error) {
        return 0;
    }
    if let Some(Told(code)) = error.downcast_ref() {
        return *code;
    }
    let interrupted = error.chain().any(|e| {
        e.is::<Interrupted>()
            || matches!(e.downcast_ref(), Some(ExecError::Cancelled))
            || matches!(e.downcast_ref(), Some(EngineError::Cancelled))
    });
    if interrupted {
        return 130;
    }
    let usage = error.chain().any(<dyn Error>::is::<Usage>);
    if usage { 2 } else { 1 }
}

/// After this error the next piece of work would fail too.
pub(crate) fn ends_work(error: &anyhow::Error) -> bool {
    error.chain().any(|e| {
        let run = e.downcast_ref::<RunError>();
        e.is::<Interrupted>() || matches!(run, Some(RunError::Exec(ExecError::DeviceLost { .. })))
    })
}

/// Whoever read our output has seen enough (`nino doctor | head`).
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|e| {
        let io = e.downcast_ref::<io::Error>();
        io.is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
            || e.downcast_ref::<serde_json::Error>()
                .and_then(serde_json::Error::io_error_kind)
                .is_some_and(|k| k == io::ErrorKind::BrokenPipe)
    })
}

/// The error and its causes in one line; a cause that was already told is not told again.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// The first paragraph of what clap says, in one line; usage and tips follow it.
pub(crate) fn usage(said: &str) -> String {
    let first = said.trim_start_matches("error: ").split("\n\n").next();
    let words: Vec<&str> = first.unwrap_or(said).split_whitespace().collect();
    words.join(" ")
}

/// What a person can try, for the errors we know a way out of.
pub(crate) fn hints(error: &anyhow::Error) -> Vec<String> {
    let rescued = error.downcast_ref::<Rescued>();
    let rescued = rescued.map_or(&[][..], Rescued::hints).iter().cloned();
    rescued.chain(error.chain().filter_map(hint)).collect()
}

fn hint(error: &(dyn Error + 'static)) -> Option<String> {
    // Transparent errors hide their inner error from the chain.
    let (plan, exec) = match error.downcast_ref::<RunError>() {
        Some(RunError::Plan(e)) => (Some(e), None),
        Some(RunError::Exec(e)) => (None, Some(e)),
        _ => (error.downcast_ref(), error.downcast_ref()),
    };
    if let Some(engine) = error.downcast_ref::<EngineError>() {
        return hints::of(engine);
    }
    if let Some(DeviceError::Exec(e)) = error.downcast_ref() {
        return exec_hint(e).map(str::to_owned);
    }
    let gpu = match error.downcast_ref() {
        Some(DeviceError::Gpu(e)) => gpu_hint(e),
        Some(DeviceError::NoSuchGpu { .. }) => Some("`nino doctor` lists the devices as gpu:N"),
        Some(DeviceError::NoSuchTier { .. }) => Some("leave --gpu-tier out to get the best one"),
        _ => None,
    };
    let text = gpu
        .or_else(|| exec.and_then(exec_hint))
        .or_else(|| plan.map(plan_hint))
        .or_else(|| error.downcast_ref().and_then(HubError::hint))
        .or_else(|| error.downcast_ref().and_then(library_hint));
    text.map(str::to_owned)
}

fn gpu_hint(error: &GpuError) -> Option<&'static str> {
    match error {
        GpuError::NoAdapter { .. } => {
            Some("`nino doctor` says what is missing; --device cpu always works")
        }
        GpuError::NoSuchAdapter { .. } => Some("`nino doctor` lists the devices as gpu:N"),
        GpuError::NoSuchTier { .. } => Some("leave --gpu-tier out to get the best one"),
        GpuError::DeviceCreation { .. } | GpuError::Kernel { .. } | GpuError::DeviceLost { .. } => {
            Some("a newer driver or a lower --gpu-tier may help; --device cpu always works")
        }
        GpuError::OutOfMemory { .. } => {
            Some("close programs that use the card, or lower --budget so that the plan is smaller")
        }
        _ => None,
    }
}

fn library_hint(error: &LibraryError) -> Option<&'static str> {
    match error {
        LibraryError::Unknown { places, .. } if places.is_empty() => Some(
            "set NINO_MODELS to a folder of models or NINO_COMFYUI to ComfyUI's own, and names are found there",
        ),
        _ => None,
    }
}

fn exec_hint(error: &ExecError) -> Option<&'static str> {
    match error {
        ExecError::OutOfMemory { .. } => Some(
            "close programs that use the device, or lower --budget so that the plan is smaller",
        ),
        ExecError::HostMemory { .. } => {
            Some("close programs, or raise --budget if the device has more memory")
        }
        ExecError::Disk { .. } => Some("set TMPDIR to a folder with more room, or raise --budget"),
        ExecError::DeviceLost { .. } => Some(
            "`nino doctor` lists known driver trouble; a lower --gpu-tier or --device cpu may work",
        ),
        ExecError::Unsupported { .. } => Some("--device cpu runs every op"),
        _ => None,
    }
}

fn plan_hint(error: &PlanError) -> &'static str {
    match error {
        PlanError::OverBudget { .. } => "raise --budget; `nino doctor` shows what this device has",
        PlanError::BindingTooLarge { .. } | PlanError::ValueTooLarge { .. } => {
            "--device cpu has no such limit"
        }
        PlanError::TooManySteps { .. } => "ask for a smaller picture, or for fewer at once",
    }
}
