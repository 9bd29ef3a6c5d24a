//! The memory limit of the control groups this process runs in (containers, systemd slices).
//!
//! A limit anywhere on the way up holds, so the least one counts.

use super::memory::{GroupLimit, text};
use std::path::Path;

/// The least limit. `groups` is the text of `/proc/self/cgroup`, `root` where control groups are
/// mounted.
pub(super) fn limit(root: &Path, groups: &str) -> Option<GroupLimit> {
    let mut least: Option<GroupLimit> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (id, kinds, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (base, file) = if id == "0" && kinds.is_empty() {
            (root.to_path_buf(), "memory.max")
        } else if kinds.split(',').any(|k| k == "memory") {
            (root.join("memory"), "memory.limit_in_bytes")
        } else {
            continue;
        };
        let mut group = Path::new(path.trim_start_matches('/'));
        loop {
            // "max" (version 2) is no number; version 1 writes a number no machine reaches.
            let text = text(base.join(group).join(file));
            let bytes = text.and_then(|t| t.parse::<u64>().ok());
            if let Some(bytes) = bytes.filter(|b| least.as_ref().is_none_or(|l| *b < l.bytes)) {
                let group = format!("/{}", group.display());
                least = Some(GroupLimit { bytes, group });
            }
            match group.parent() {
                Some(parent) => group = parent,
                None => break,
            }
        }
    }
    least
}
