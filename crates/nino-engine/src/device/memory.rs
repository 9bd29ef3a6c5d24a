//! Memory of the host, as the operating system tells it. Where a source is missing the figure is
//! missing, never guessed.

use super::cgroup;
use std::fs;
use std::path::Path;

/// Memory of the host in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostMemory {
    pub total: Option<u64>,
    /// What programs can have without swapping others out.
    pub available: Option<u64>,
    /// The least limit of the control groups this process is in, where it is less than the machine
    /// has.
    pub limit: Option<GroupLimit>,
}

/// The memory limit of a control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLimit {
    pub bytes: u64,
    /// The group that sets it, such as `/system.slice`.
    pub group: String,
}

impl HostMemory {
    /// Asks the operating system.
    pub fn read() -> HostMemory {
        let text = text("/proc/meminfo").unwrap_or_default();
        let total = meminfo_field(&text, "MemTotal").or_else(sysctl_total);
        let groups = self::text("/proc/self/cgroup").unwrap_or_default();
        let limit = cgroup::limit(Path::new("/sys/fs/cgroup"), &groups);
        HostMemory {
            total,
            available: meminfo_field(&text, "MemAvailable"),
            limit: limit.filter(|limit| total.is_none_or(|total| limit.bytes < total)),
        }
    }
}

/// Bytes of memory this process holds now; known on Linux.
pub fn resident_bytes() -> Option<usize> {
    let status = text("/proc/self/status")?;
    meminfo_field(&status, "VmRSS").map(|bytes| bytes as usize)
}

/// The text of a file of the system, without space around it.
pub(super) fn text(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// A line such as `MemTotal:       24684100 kB` in bytes.
pub(super) fn meminfo_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|l| l.split(':').next() == Some(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

fn sysctl_total() -> Option<u64> {
    sysctl("hw.memsize")?.parse().ok()
}

/// A fact that macOS keeps behind a command.
pub(super) fn sysctl(name: &str) -> Option<String> {
    if !cfg!(target_os = "macos") {
        return None;
    }
    let command = std::process::Command::new("sysctl")
        .args(["-n", name])
        .output();
    let text = String::from_utf8(command.ok()?.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|t| !t.is_empty())
}
