//! Ctrl-C, and being told to end: the first asks the work to stop at the next safe point, the
//! second stops at once.

use crate::failure::Interrupted;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Called once at start. Without a handler Ctrl-C still ends the process, so failure is ignored.
pub(crate) fn install() {
    if let Err(e) = ctrlc::set_handler(ask) {
        tracing::debug!("no Ctrl-C handler: {e}");
    }
    #[cfg(unix)]
    on_termination();
    nino_files::ignore_file_size_signal();
}

fn ask() {
    if ASKED.swap(true, Ordering::SeqCst) {
        nino_files::remove_all_unfinished();
        std::process::exit(130);
    }
    crate::printer::note("stopping at the next safe point; Ctrl-C again stops at once");
}

/// `kill`, `timeout` and service managers send SIGTERM. Not SIGHUP, which `nohup` wants ignored.
#[cfg(unix)]
fn on_termination() {
    use signal_hook::{consts::SIGTERM, iterator::Signals};
    match Signals::new([SIGTERM]) {
        Ok(mut signals) => {
            std::thread::spawn(move || signals.forever().for_each(|_| ask()));
        }
        Err(e) => tracing::debug!("no handler for SIGTERM: {e}"),
    }
}

/// For [`nino_graph::RunOptions::cancel`].
pub(crate) fn flag() -> &'static AtomicBool {
    &ASKED
}

/// For what waits for another program.
pub(crate) fn stop() -> nino_files::Stop {
    nino_files::Stop::when(|| ASKED.load(Ordering::SeqCst))
}

/// Ends a loop between two units of work.
pub(crate) fn check() -> Result<(), Interrupted> {
    if ASKED.load(Ordering::SeqCst) {
        return Err(Interrupted);
    }
    Ok(())
}
