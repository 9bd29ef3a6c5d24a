//! What a download shows while it runs.

use crate::bytes::Bytes;
use crate::{interrupt, printer};
use nino_hub::{Event, Watcher};

/// Notes on standard error, and the bytes that are there for a bar.
pub(super) struct Screen<'a> {
    position: &'a (dyn Fn(u64) + Sync),
}

impl<'a> Screen<'a> {
    pub(super) fn new(position: &'a (dyn Fn(u64) + Sync)) -> Screen<'a> {
        Screen { position }
    }

    /// For requests that have no bar.
    pub(super) fn silent() -> Screen<'static> {
        Screen { position: &|_| {} }
    }
}

impl Watcher for Screen<'_> {
    fn stopped(&self) -> bool {
        interrupt::check().is_err()
    }

    fn event(&self, event: Event<'_>) {
        match event {
            Event::Progress { have, .. } => (self.position)(have),
            Event::Resumed { have, .. } => {
                (self.position)(have);
                printer::note(&format!("resuming at {}", Bytes(have)));
            }
            Event::Checking { file, size } => {
                printer::note(&format!("checking {file} ({}), once", Bytes(size)));
            }
            Event::Damaged { file } => {
                printer::note(&format!(
                    "{file} is damaged in the cache: downloading it again"
                ));
            }
            Event::Retrying { why, pause, .. } => {
                let seconds = pause.as_secs_f64();
                printer::note(&format!("{why}; trying again in {seconds:.1} s"));
            }
        }
    }
}
