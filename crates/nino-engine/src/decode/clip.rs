//! The graphs a clip is decoded with: its first chunk, the ones like each other after it, and what
//! is left at the end. A picture is a clip of one chunk.

use super::part::{self, Frames, Runs, less, planned};
use super::{LatentSize, Part};
use crate::fit::Room;
use crate::{EngineError, VaeFile};
use nino_dtype::DType;
use nino_graph::Device;

/// Latent frames decoded at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chunking {
    /// As many as fit the budget and the device's buffers, 8 at most, 2 where frames are computed one by one;
    /// one without a budget.
    #[default]
    Auto,
    Frames(usize),
}

/// What every part of one clip has in common.
pub(super) struct Recorder<'a> {
    pub(super) device: &'a dyn Device,
    pub(super) vae: &'a VaeFile,
    pub(super) size: LatentSize,
    /// These are a clip's first frames.
    pub(super) begins: bool,
    /// Storage of activations.
    pub(super) dtype: DType,
    pub(super) room: Room,
}

impl Recorder<'_> {
    pub(super) fn parts(&self, chunking: Chunking) -> Result<Vec<Part>, EngineError> {
        if self.vae.vae.time_scale().is_none() {
            // A picture has no frames to take apart: that would only be the same plan again.
            return self.chunks_of(1, Frames::Together);
        }
        let together = self.device.favors_large_ops();
        match chunking {
            Chunking::Frames(n) => {
                let large = together.then(|| self.inside(n, Frames::Together));
                large
                    .flatten()
                    .map_or_else(|| self.chunks_of(n, Frames::Apart), Ok)
            }
            Chunking::Auto if self.room.bytes(self.device).is_none() => {
                self.chunks_of(1, Frames::Apart)
            }
            Chunking::Auto => {
                let large = [8, 4, 2, 1].map(|n| (n, Frames::Together));
                // More gain nothing one by one, and two need as much memory however long the clip is.
                let small = (2, Frames::Apart);
                // Quicker than what waits outside; not on a CPU, where that changes no bit.
                let least = [2, 1].map(|n| (n, Frames::Alone));
                let ways = if together {
                    [&large[..], &[small], &least].concat()
                } else {
                    vec![small]
                };
                // Values that lie across buffers are copied for every op: a plan without is quicker.
                let mut across = None;
                for (most, frames) in ways {
                    // As equal as can be: less memory, and seldom a last graph for a rest.
                    let n_chunks = self.size.frames.div_ceil(most).max(1);
                    match self.inside(self.size.frames.div_ceil(n_chunks), frames) {
                        Some(parts) if parts.iter().any(|p| p.plan.pages_bytes() > 0) => {
                            across.get_or_insert(parts);
                        }
                        Some(parts) => return Ok(parts),
                        None => {}
                    }
                }
                across.map_or_else(|| self.outside(together), Ok)
            }
        }
    }

    /// Graphs of which some values are kept on the host, in the least time. Where none fits, the error
    /// tells the least that one of them needs.
    fn outside(&self, together: bool) -> Result<Vec<Part>, EngineError> {
        let large = together.then_some([2, 1]).into_iter().flatten();
        let large = large.map(|n| self.chunks_of(n, Frames::Together));
        let rates = self.device.rates();
        let quicker = |a: Vec<Part>, b: Vec<Part>| {
            let [x, y] = [&a, &b].map(|parts| rates.time(&part::load(parts)));
            if y < x { b } else { a }
        };
        let small = self.chunks_of(1, Frames::Apart);
        large.fold(small, |best, found| match (best, found) {
            (Ok(best), Ok(found)) => Ok(quicker(best, found)),
            (Err(a), Err(b)) => Err(less(a, b)),
            (Ok(parts), Err(_)) | (Err(_), Ok(parts)) => Ok(parts),
        })
    }

    /// Graphs of which nothing waits outside the device, where they can be.
    fn inside(&self, chunk: usize, frames: Frames) -> Option<Vec<Part>> {
        let room = Room {
            allow_host: false,
            ..self.room
        };
        let recorder = Recorder { room, ..*self };
        recorder.chunks_of(chunk, frames).ok()
    }

    fn chunks_of(&self, chunk: usize, frames: Frames) -> Result<Vec<Part>, EngineError> {
        let chunk = chunk.clamp(1, self.size.frames.max(1));
        let first = usize::from(self.begins);
        let rest = self.size.frames.saturating_sub(first * chunk);
        let last = usize::from(!rest.is_multiple_of(chunk));
        let runs = [
            (chunk, true, first),
            (chunk, false, rest / chunk),
            (rest % chunk, false, last),
        ];
        let runs = runs.map(|(frames, first, n)| Runs { frames, first, n });
        let runs: Vec<Runs> = runs.into_iter().filter(|r| r.n > 0).collect();
        let (height, width) = (self.size.height, self.size.width);
        let runs = (&runs[..], frames);
        planned(self.device, self.room, runs, (height, width), |chunk| {
            self.vae.record_decoder(chunk, self.dtype)
        })
    }
}
