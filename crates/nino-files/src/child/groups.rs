//! The process groups of the children that run now, for a process that ends at once: they would
//! outlive it otherwise.

use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::SeqCst;

/// More children at a time are not expected. One that finds no place may outlive a forced end.
const PLACES: usize = 64;

/// Group numbers, 0 where a place is free. Without a lock, since the thread that ends the process
/// may be one that was stopped anywhere.
pub(super) struct Groups([AtomicI32; PLACES]);

pub(super) static RUNNING: Groups = Groups::new();

impl Groups {
    const fn new() -> Groups {
        Groups([const { AtomicI32::new(0) }; PLACES])
    }

    pub(super) fn add(&self, group: i32) {
        let free = |place: &AtomicI32| place.compare_exchange(0, group, SeqCst, SeqCst).is_ok();
        let _ = self.0.iter().any(free);
    }

    /// Must come before the system forgets the group's number, which may then be another's.
    pub(super) fn remove(&self, group: i32) {
        for place in &self.0 {
            let _ = place.compare_exchange(group, 0, SeqCst, SeqCst);
        }
    }

    pub(super) fn end(&self) {
        for place in &self.0 {
            let group = place.swap(0, SeqCst);
            if group > 0 {
                // SAFETY: a system call with plain numbers. The group is that of a child that was
                // not waited for, so its number is no other's.
                unsafe { libc::kill(-group, libc::SIGKILL) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Groups;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    #[test]
    fn groups_that_run_are_ended() {
        let groups = Groups::new();
        let start = || {
            let mut command = Command::new("sleep");
            command.arg("600").process_group(0).spawn().unwrap()
        };
        let (mut running, mut done) = (start(), start());
        groups.add(running.id() as i32);
        groups.add(done.id() as i32);
        groups.remove(done.id() as i32);
        groups.end();
        assert_eq!(running.wait().unwrap().signal(), Some(libc::SIGKILL));
        assert!(done.try_wait().unwrap().is_none());
        done.kill().unwrap();
        done.wait().unwrap();
    }
}
