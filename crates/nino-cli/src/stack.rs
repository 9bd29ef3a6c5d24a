//! A stack that is large enough, where a limit of the system leaves the first thread a small one,
//! which would end the process with a signal.

use std::process::ExitCode;

/// What every verb can do with; threads have as much by default.
const ENOUGH: usize = 2 << 20;

/// Runs `main` on this thread, or where its stack is too small on one of its own.
pub(crate) fn with_room(main: fn() -> ExitCode) -> ExitCode {
    if nino_files::stack_limit().is_none_or(|bytes| bytes >= ENOUGH) {
        return main();
    }
    let thread = std::thread::Builder::new().stack_size(ENOUGH).spawn(main);
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        // `main` tells of its own panics.
        Ok(Err(_)) => ExitCode::FAILURE,
        // No thread is to be had: this stack may do.
        Err(_) => main(),
    }
}
