//! From an error to one sentence, `hint:` lines and an exit code.

use nino_graph::{ExecError, PlanError};
use std::error::Error;
use std::io;
use std::process::ExitCode;

/// The command line asked for something that cannot be meant; exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Work ended because the user pressed Ctrl-C.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// The answer was printed and it is no; there is nothing more to say than exit code 1.
#[derive(Debug, thiserror::Error)]
#[error("failed")]
pub(crate) struct Told;

pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    let interrupted = error
        .chain()
        .any(|e| e.is::<Interrupted>() || matches!(e.downcast_ref(), Some(ExecError::Cancelled)));
    if interrupted {
        return ExitCode::from(130);
    }
    let usage = error.chain().any(<dyn Error>::is::<Usage>);
    ExitCode::from(if usage { 2 } else { 1 })
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

/// What a person can try, for the errors we know a way out of.
pub(crate) fn hints(error: &anyhow::Error) -> Vec<String> {
    error.chain().filter_map(hint).collect()
}

fn hint(error: &(dyn Error + 'static)) -> Option<String> {
    let exec = error.downcast_ref::<ExecError>().and_then(exec_hint);
    let hint = exec.or_else(|| error.downcast_ref::<PlanError>().map(plan_hint));
    hint.map(str::to_owned)
}

fn exec_hint(error: &ExecError) -> Option<&'static str> {
    match error {
        ExecError::OutOfMemory { .. } => Some(
            "close programs that use the device, or lower --budget so that the plan is smaller",
        ),
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
    }
}
