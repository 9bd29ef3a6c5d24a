//! Memory this process holds, as Linux counts it; nothing elsewhere.

use std::fs;

/// Forgets the highest resident size so far, so that the next piece of work is measured alone.
pub(crate) fn reset_peak() {
    // Refused in some sandboxes; then the peak is that of the whole process so far.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Bytes that were resident at most since the start or the last reset.
pub(crate) fn peak() -> Option<usize> {
    status("VmHWM:")
}

fn status(key: &str) -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(key))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
