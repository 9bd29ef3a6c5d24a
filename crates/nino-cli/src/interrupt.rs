//! Ctrl-C: the first asks the work to stop at the next safe point, the second stops at once.

use crate::failure::Interrupted;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Called once at start. Without a handler Ctrl-C still ends the process, so failure is ignored.
pub(crate) fn install() {
    let installed = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        crate::printer::note("stopping at the next safe point; Ctrl-C again stops at once");
    });
    if let Err(e) = installed {
        tracing::debug!("no Ctrl-C handler: {e}");
    }
}

/// For [`nino_graph::RunOptions::cancel`].
#[allow(dead_code)] // used by the verbs that run models
pub(crate) fn flag() -> &'static AtomicBool {
    &ASKED
}

/// Ends a loop between two units of work.
pub(crate) fn check() -> Result<(), Interrupted> {
    if ASKED.load(Ordering::SeqCst) {
        return Err(Interrupted);
    }
    Ok(())
}
