//! When a failure is tried again, after which pause, and when it is given up.

use crate::body::pause;
use crate::{Event, HubError, Limits, Watcher};
use std::time::Duration;

/// Failures in a row without progress.
pub(crate) struct Attempts<'a> {
    limits: &'a Limits,
    watcher: &'a dyn Watcher,
    /// What is attempted, for messages.
    what: String,
    failures: u32,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(limits: &'a Limits, watcher: &'a dyn Watcher, what: &str) -> Attempts<'a> {
        Attempts {
            limits,
            watcher,
            what: what.to_owned(),
            failures: 0,
        }
    }

    pub(crate) fn progressed(&mut self) {
        self.failures = 0;
    }

    /// Waits before the next attempt. An error that will not pass, or one too many, is given back.
    pub(crate) fn failed(&mut self, error: HubError) -> Result<(), HubError> {
        self.failures += 1;
        if !error.is_passing() || self.failures >= self.limits.attempts {
            return Err(error);
        }
        let time = match asked_for(&error) {
            Some(asked) if asked > self.limits.longest_pause => return Err(error),
            Some(asked) => asked,
            None => {
                let doubled = self.limits.first_pause * (1 << (self.failures - 1).min(16));
                doubled.min(self.limits.longest_pause)
            }
        };
        self.watcher.event(Event::Retrying {
            what: &self.what,
            why: error.to_string(),
            pause: time,
        });
        pause(time, self.watcher)
    }

    /// Does something until it works or is given up.
    pub(crate) fn until<T>(
        mut self,
        mut attempt: impl FnMut() -> Result<T, HubError>,
    ) -> Result<T, HubError> {
        loop {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(error) => self.failed(error)?,
            }
        }
    }
}

/// The pause that the server asks for.
fn asked_for(error: &HubError) -> Option<Duration> {
    match error {
        HubError::Status { retry_after, .. } => retry_after.map(Duration::from_secs),
        _ => None,
    }
}
