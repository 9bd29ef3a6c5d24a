//! What a caller hears of a running request, and how it stops one.

use crate::{EngineError, Picture};
use std::sync::atomic::{AtomicBool, Ordering};

/// A part of the work of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Prompts are encoded.
    Text,
    /// Weights are brought to the device.
    Load,
    /// A picture or clip becomes a latent.
    Encode,
    /// A latent is sampled.
    Sample,
    /// The unfinished latent is shown.
    Preview,
    /// A latent becomes pictures.
    Decode,
    /// A picture becomes a larger one.
    Upscale,
}

impl Stage {
    pub fn name(self) -> &'static str {
        match self {
            Stage::Text => "text",
            Stage::Load => "load",
            Stage::Encode => "encode",
            Stage::Sample => "sample",
            Stage::Preview => "preview",
            Stage::Decode => "decode",
            Stage::Upscale => "upscale",
        }
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Progress of a request, as values.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A part of the work begins.
    Stage(Stage),
    /// A pass over the latent begins, of several: the first is 0.
    Pass { index: usize, total: usize },
    /// `done` of `total` tiles, frames or steps of the present stage.
    Progress { done: usize, total: usize },
    /// The share of the next tile or chunk of frames that is done; a picture that is decoded whole
    /// is one.
    Within(f64),
    /// What the unfinished picture looks like.
    Preview(Picture),
    /// What the frames of the unfinished clip look like, or some of them, in their order.
    PreviewClip(Vec<Picture>),
    /// Something the user should know, in a sentence.
    Note(String),
}

/// Hears events and can be told to stop from another thread.
pub struct Control<'a> {
    pub cancel: &'a AtomicBool,
    pub on_event: &'a mut dyn FnMut(Event),
}

impl Control<'_> {
    pub(crate) fn stage(&mut self, stage: Stage) -> Result<(), EngineError> {
        (self.on_event)(Event::Stage(stage));
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
