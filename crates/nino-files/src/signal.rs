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
