//! A child process and all that it started: ended together.

#[cfg(unix)]
use super::groups::RUNNING;
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How often to look whether it ended, at most.
const LOOK: Duration = Duration::from_millis(20);

pub(super) struct Process {
    child: Child,
    /// Set once the system has forgotten its number, which may then be another's.
    ended: Option<ExitStatus>,
}

impl Process {
    pub(super) fn new(child: Child) -> Process {
        #[cfg(unix)]
        RUNNING.add(child.id() as i32);
        Process { child, ended: None }
    }

    /// Waits for the end of a child that has ended or soon will.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        #[cfg(unix)]
        RUNNING.remove(self.child.id() as i32);
        let status = self.child.wait()?;
        self.ended = Some(status);
        Ok(status)
    }

    /// Ends it and its process group: a program that it started may hold the pipes as well.
    pub(super) fn kill(&mut self) {
        if self.ended.is_some() {
            return;
        }
        #[cfg(unix)]
        if let Ok(group) = libc::pid_t::try_from(self.child.id()) {
            // SAFETY: a system call with plain numbers. The group is this child's: its number is
            // not given to others before the child is waited for.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        // It may have ended by itself.
        let _ = self.child.kill();
    }

    pub(super) fn kill_and_reap(&mut self) {
        self.kill();
        if self.ended.is_none() {
            let _ = self.reap();
        }
    }

    /// Waits for its end. The lock is free meanwhile, so that others can end it. What it started
    /// and left behind is ended with it.
    pub(super) fn wait(process: &Mutex<Process>) -> io::Result<ExitStatus> {
        let mut pause = Duration::from_millis(1);
        loop {
            {
                let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(status) = process.ended {
                    return Ok(status);
                }
                if process.has_ended()? {
                    process.kill();
                    return process.reap();
                }
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LOOK);
        }
    }

    /// Whether it ended, without the system forgetting it: its group must still be known.
    #[cfg(unix)]
    fn has_ended(&mut self) -> io::Result<bool> {
        let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `info` is room for what the call fills in; zeroes are a value of it.
        let (done, info) = unsafe {
            let done = libc::waitid(libc::P_PID, self.child.id(), info.as_mut_ptr(), options);
            (done, info.assume_init())
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(info.si_signo != 0)
    }

    #[cfg(not(unix))]
    fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }
}

/// A child whose start failed half way is not left behind.
impl Drop for Process {
    fn drop(&mut self) {
        self.kill_and_reap();
    }
}
