//! The bytes of an answer, waited for in short slices and held to the limits on time and rate.

use crate::answer::Headers;
use crate::{HubError, Limits, Watcher};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long nobody asks whether to stop.
const SLICE: Duration = Duration::from_millis(50);

/// What the thread of a request hands over.
pub(crate) enum Message {
    Head { status: u16, headers: Headers },
    Bytes(Vec<u8>),
    End,
    Failed(String),
}

pub(crate) struct Body {
    receiver: Receiver<Message>,
    url: String,
    limits: Limits,
    window: Window,
}

/// The time and the bytes since the rate was last looked at.
struct Window {
    since: Instant,
    bytes: u64,
}

impl Body {
    pub(crate) fn new(receiver: Receiver<Message>, url: String, limits: &Limits) -> Body {
        let window = Window {
            since: Instant::now(),
            bytes: 0,
        };
        Body {
            receiver,
            url,
            limits: *limits,
            window,
        }
    }

    /// The next piece; `None` at the end.
    pub(crate) fn next(&mut self, watcher: &dyn Watcher) -> Result<Option<Vec<u8>>, HubError> {
        let stall = self.limits.stall;
        match wait(&self.receiver, Instant::now() + stall, watcher)? {
            Some(Message::Bytes(bytes)) => {
                self.count(bytes.len() as u64)?;
                Ok(Some(bytes))
            }
            Some(Message::End) => Ok(None),
            Some(Message::Failed(why)) => Err(HubError::Broken {
                url: self.url.clone(),
                why,
            }),
            Some(Message::Head { .. }) => Err(HubError::Broken {
                url: self.url.clone(),
                why: "a second answer".to_owned(),
            }),
            None => Err(HubError::Stalled {
                url: self.url.clone(),
                time: stall,
            }),
        }
    }

    /// All of it, if that is `most` bytes or less.
    pub(crate) fn read_all(
        &mut self,
        most: u64,
        watcher: &dyn Watcher,
    ) -> Result<Vec<u8>, HubError> {
        let mut all = Vec::new();
        while let Some(piece) = self.next(watcher)? {
            if (all.len() + piece.len()) as u64 > most {
                return Err(HubError::LongAnswer {
                    url: self.url.clone(),
                    most,
                });
            }
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }

    fn count(&mut self, bytes: u64) -> Result<(), HubError> {
        self.window.bytes += bytes;
        let time = self.window.since.elapsed();
        if time < self.limits.rate_window {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.window.bytes);
        self.window.since = Instant::now();
        if (bytes as f64) < self.limits.least_rate as f64 * time.as_secs_f64() {
            return Err(HubError::Slow {
                url: self.url.clone(),
                bytes,
                time,
            });
        }
        Ok(())
    }
}

/// The next message; `None` when it is too late for one.
pub(crate) fn wait(
    receiver: &Receiver<Message>,
    deadline: Instant,
    watcher: &dyn Watcher,
) -> Result<Option<Message>, HubError> {
    loop {
        if watcher.stopped() {
            return Err(HubError::Stopped);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left.min(SLICE)) {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) if left.is_zero() => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let why = "its thread ended".to_owned();
                return Ok(Some(Message::Failed(why)));
            }
        }
    }
}

/// Sleeps, but not after a stop.
pub(crate) fn pause(time: Duration, watcher: &dyn Watcher) -> Result<(), HubError> {
    let deadline = Instant::now() + time;
    loop {
        if watcher.stopped() {
            return Err(HubError::Stopped);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(SLICE));
    }
}
