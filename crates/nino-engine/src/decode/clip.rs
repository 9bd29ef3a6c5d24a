//! The graphs a clip is decoded with: its first chunk, the ones like each other after it, and what
//! is left at the end. A picture is a clip of one chunk.

use super::part::{Runs, planned};
use super::{LatentSize, Part};
use crate::fit::Room;
use crate::{EngineError, VaeFile};
use nino_dtype::DType;
use nino_graph::Device;

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
            Chunking::Frames(n) => self.chunks_of(n),
            Chunking::Auto if still || self.room.bytes(self.device).is_none() => self.chunks_of(1),
            Chunking::Auto => {
                for most in [8, 4, 2] {
                    // As equal as can be: less memory, and seldom a last graph for a rest.
                    let chunk = self
                        .size
                        .frames
                        .div_ceil(self.size.frames.div_ceil(most).max(1));
                    match self.chunks_of(chunk) {
                        Ok(parts) if parts.iter().all(Part::is_inside) => return Ok(parts),
                        _ => {}
                    }
                }
                self.chunks_of(1)
            }
        }
    }

    fn chunks_of(&self, chunk: usize) -> Result<Vec<Part>, EngineError> {
        let chunk = chunk.clamp(1, self.size.frames.max(1));
        let rest = self.size.frames.saturating_sub(chunk);
        let last = usize::from(!rest.is_multiple_of(chunk));
        let runs = [
            (chunk, true, 1),
            (chunk, false, rest / chunk),
            (rest % chunk, false, last),
        ];
        let runs = runs.map(|(frames, first, n)| Runs { frames, first, n });
        let runs: Vec<Runs> = runs.into_iter().filter(|r| r.n > 0).collect();
        let (height, width) = (self.size.height, self.size.width);
        planned(self.device, self.room, &runs, (height, width), |chunk| {
            self.vae.record_decoder(chunk, self.dtype)
        })
    }
}
