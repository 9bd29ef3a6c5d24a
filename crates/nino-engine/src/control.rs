//! What a caller hears of a running request, and how it stops one.

use crate::{EngineError, Picture};
use std::sync::atomic::{AtomicBool, Ordering};

/// Progress of a request, as values.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A part of the work begins: `load`, `decode`, …
    Stage(&'static str),
    /// `done` of `total` tiles, frames or steps of the present stage.
    Progress { done: usize, total: usize },
    /// The share of the next tile or chunk of frames that is done; a picture that is decoded whole is one.
    Within(f64),
    /// What the unfinished picture looks like.
    Preview(Picture),
    /// Something the user should know, in a sentence.
    Note(String),
}

/// Hears events and can be told to stop from another thread.
pub struct Control<'a> {
    pub cancel: &'a AtomicBool,
    pub on_event: &'a mut dyn FnMut(Event),
}

impl Control<'_> {
    pub(crate) fn stage(&mut self, name: &'static str) -> Result<(), EngineError> {
        (self.on_event)(Event::Stage(name));
        self.check()
    }

    pub(crate) fn progress(&mut self, done: usize, total: usize) -> Result<(), EngineError> {
        (self.on_event)(Event::Progress { done, total });
        self.check()
    }

    pub(crate) fn note(&mut self, text: String) {
        (self.on_event)(Event::Note(text));
    }

    /// An error once the caller asked to stop.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        if self.cancel.load(Ordering::Relaxed) {
            Err(EngineError::Cancelled)
        } else {
            Ok(())
        }
    }
}
