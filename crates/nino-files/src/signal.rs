//! Signals that would end the process although an error can be told.

/// A write beyond the limit on a file's size (`ulimit -f`) sends a signal that ends the process
/// with its files half written. Ignored, the write fails with an ordinary error instead.
pub fn ignore_file_size_signal() {
    #[cfg(unix)]
    // SAFETY: ignoring a signal installs no code that could run at a wrong moment.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Whether a signal is ignored, as the parent process may have arranged.
#[cfg(unix)]
pub fn is_ignored(signal: i32) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only fills what it is given.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) };
    // SAFETY: a structure of numbers, zeroed or filled.
    asked == 0 && unsafe { now.assume_init() }.sa_sigaction == libc::SIG_IGN
}
