//! The graphs a clip is decoded with: its first chunk, the ones like each other after it, and what
//! is left at the end. A picture is a clip of one chunk.

use super::part::planned;
use super::{LatentSize, Part};
use crate::fit::{Room, fit_shared, fit_within};
use crate::{EngineError, VaeFile};
use nino_dtype::DType;
use nino_graph::{Device, PlanError};
use nino_models::Chunk;

/// Latent frames decoded at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chunking {
    /// As many as fit the budget, 8 at most; one without a budget.
    #[default]
    Auto,
    Frames(usize),
}

/// What every part of one clip has in common.
pub(super) struct Recorder<'a> {
    pub(super) device: &'a dyn Device,
    pub(super) vae: &'a VaeFile,
    pub(super) size: LatentSize,
    /// Storage of activations.
    pub(super) dtype: DType,
    pub(super) room: Room,
}

impl Recorder<'_> {
    pub(super) fn parts(&self, chunking: Chunking) -> Result<Vec<Part>, EngineError> {
        let still = self.vae.vae.time_scale().is_none();
        match chunking {
            Chunking::Frames(n) => self.chunks_or_need(n),
            Chunking::Auto if still || self.room.bytes(self.device).is_none() => {
                self.chunks_or_need(1)
            }
            Chunking::Auto => {
                for most in [8, 4, 2] {
                    // As equal as can be: less memory, and seldom a last graph for a rest.
                    let chunk = self
                        .size
                        .frames
                        .div_ceil(self.size.frames.div_ceil(most).max(1));
                    match self.chunks_of(chunk) {
                        Ok(parts) if parts.iter().all(|p| p.plan.host_bytes() == 0) => {
                            return Ok(parts);
                        }
                        _ => {}
                    }
                }
                self.chunks_or_need(1)
            }
        }
    }

    fn chunks_of(&self, chunk: usize) -> Result<Vec<Part>, EngineError> {
        let spans = self.spans(chunk);
        spans.map(|span| self.part(span)).collect()
    }

    /// The same, with the error of the graph that needs most.
    fn chunks_or_need(&self, chunk: usize) -> Result<Vec<Part>, EngineError> {
        let need = |error: &EngineError| match error {
            EngineError::Plan(PlanError::OverBudget { need, .. }) => *need,
            _ => usize::MAX,
        };
        let (mut parts, mut worst) = (Vec::new(), None);
        for span in self.spans(chunk) {
            match self.part(span) {
                Ok(part) => parts.push(part),
                Err(e) if worst.as_ref().is_some_and(|w| need(w) >= need(&e)) => {}
                Err(e) => worst = Some(e),
            }
        }
        worst.map_or(Ok(parts), Err)
    }

    /// Frames, whether they are the first, and how often there are as many.
    fn spans(&self, chunk: usize) -> impl Iterator<Item = (usize, bool, usize)> {
        let chunk = chunk.clamp(1, self.size.frames.max(1));
        let rest = self.size.frames.saturating_sub(chunk);
        let last = usize::from(!rest.is_multiple_of(chunk));
        let spans = [
            (chunk, true, 1),
            (chunk, false, rest / chunk),
            (rest % chunk, false, last),
        ];
        spans.into_iter().filter(|(_, _, runs)| *runs > 0)
    }

    fn part(&self, (frames, first, runs): (usize, bool, usize)) -> Result<Part, EngineError> {
        let (height, width) = (self.size.height, self.size.width);
        let chunk = Chunk {
            batch: 1,
            frames,
            height,
            width,
            first,
            by_frame: true,
            by_tap: false,
        };
        let (plan, recording) = planned(chunk, |chunk| {
            let recording = self.vae.record_decoder(chunk, self.dtype)?;
            let plan = match self.vae.vae.time_scale() {
                None => fit_within(self.device, &recording.graph, self.room)?,
                // A clip's graphs share their weights.
                Some(_) => fit_shared(self.device, &recording.graph, self.room)?,
            };
            Ok((plan, recording))
        })?;
        Ok(Part::new(plan, recording, frames, runs))
    }
}
