//! What to run for a picture or a clip. A clip is decoded chunk by chunk: its first chunk, the ones
//! like each other after it, and what is left at the end are a graph each. A picture is a clip of
//! one chunk.

use super::carry::share;
use super::part::{self, Part};
use super::{DecodeOptions, DecodePlan, Favor, LatentSize, Strategy, Tile, output};
use crate::fit::{Room, fit_turns};
use crate::{EngineError, VaeFile};
use nino_dtype::DType;
use nino_graph::{Device, PlanError};
use nino_models::{Chunk, Frames, Recording};

/// Latent frames decoded at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chunking {
    /// As many as fit the budget and the device's buffers, 8 at most, 2 where frames are computed
    /// one by one; one without a budget.
    #[default]
    Auto,
    Frames(usize),
}

/// How much longer plans that favor memory may take than the quickest ones.
const LONGER: f64 = 1.25;

/// What they may keep outside the device's memory: about as much as a system holds in its cache.
/// More would be written to a disk, which takes longer than any nominal rate says.
const MOST_OUTSIDE: usize = 1 << 30;

/// They are looked for down to this share of the quickest plans' memory, in steps of a smaller one.
const LEAST_SHARE: usize = 8;
const STEP_SHARE: usize = 32;

/// A latent of which some frames are done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub(super) size: LatentSize,
    /// Latent frames that are done.
    pub(super) behind: usize,
}

pub(super) fn plan(
    device: &dyn Device,
    vae: &VaeFile,
    rest: Rest,
    options: &DecodeOptions,
) -> Result<DecodePlan, EngineError> {
    let Rest { size, behind } = rest;
    let dtype = options.precision.dtype(device);
    let scale = vae.kind.scale();
    let (height, width) = (size.height, size.width);
    let tiling = match options.tile {
        Tile::Fast(t) if t.needed(height, width, scale) => Some(t),
        _ => None,
    };
    let tile = tiling.map_or((height, width), |t| t.latent_size(height, width, scale));
    let n_frames = vae.kind.n_frames(size.frames);
    let pixels = width * height * scale * scale;
    let beside = output::picture_bytes(pixels, tiling.map(|_| n_frames)) + options.beside;
    let recorder = Recorder {
        device,
        vae,
        size: LatentSize {
            frames: size.frames - behind,
            height: tile.0,
            width: tile.1,
        },
        begins: behind == 0,
        dtype,
        room: Room {
            cap: options.budget,
            beside,
            allow_host: true,
        },
    };
    let parts = match options.favor {
        Favor::Time => recorder.parts(options.chunking)?,
        Favor::Memory => recorder.smallest(options.chunking)?,
    };
    Ok(DecodePlan {
        strategy: match tiling {
            Some(_) => Strategy::FastTiles,
            None => part::strategy(parts.iter().map(|p| &*p.plan)),
        },
        dtype,
        width: width * scale,
        height: height * scale,
        n_frames,
        tiling,
        n_tiles: tiling.map_or(1, |t| t.count(height, width, scale)),
        chunk: vae.kind.time_scale().map(|_| parts[0].frames),
        beside,
        scale,
        behind,
        parts,
    })
}

/// What every part of one clip has in common.
struct Recorder<'a> {
    device: &'a dyn Device,
    vae: &'a VaeFile,
    size: LatentSize,
    /// These are a clip's first frames.
    begins: bool,
    /// Storage of activations.
    dtype: DType,
    room: Room,
}

impl Recorder<'_> {
    /// The parts with the least memory that take little longer than the quickest.
    fn smallest(&self, chunking: Chunking) -> Result<Vec<Part>, EngineError> {
        let rates = self.device.rates();
        let seconds = |parts: &[Part]| rates.seconds(&part::load(parts));
        let outside = |parts: &[Part]| parts.iter().map(|p| p.plan.host_bytes()).max();
        let mut best = self.parts(chunking)?;
        let (longest, all) = (seconds(&best) * LONGER, part::peak_bytes(&best));
        // The most that is known to be too little.
        let mut under = all / LEAST_SHARE;
        while part::peak_bytes(&best).saturating_sub(under) > all / STEP_SHARE {
            let cap = under.midpoint(part::peak_bytes(&best));
            let room = Room {
                cap: Some(cap),
                ..self.room
            };
            match (Recorder { room, ..*self }).parts(chunking) {
                Ok(parts)
                    if seconds(&parts) <= longest && outside(&parts) <= Some(MOST_OUTSIDE) =>
                {
                    best = parts;
                }
                _ => under = cap,
            }
        }
        Ok(best)
    }

    fn parts(&self, chunking: Chunking) -> Result<Vec<Part>, EngineError> {
        if self.vae.kind.time_scale().is_none() {
            // A picture has no frames to take apart: that would only be the same plan again.
            return self.chunks_of(1, Frames::Together);
        }
        let together = self.device.favors_large_ops();
        match chunking {
            Chunking::Frames(n) => {
                let large = together.then(|| self.on_device(n, Frames::Together));
                large
                    .flatten()
                    .map_or_else(|| self.chunks_of(n, Frames::Apart), Ok)
            }
            Chunking::Auto if self.room.bytes(self.device).is_none() => {
                self.chunks_of(1, Frames::Apart)
            }
            Chunking::Auto => self
                .largest_on_device(together)
                .map_or_else(|| self.on_host(together), Ok),
        }
    }

    /// The largest chunks of which everything fits the device.
    fn largest_on_device(&self, together: bool) -> Option<Vec<Part>> {
        let large = [8, 4, 2, 1].map(|n| (n, Frames::Together));
        // Larger chunks of frames one by one gain nothing, and chunks of two need the same memory
        // however long the clip is.
        let small = (2, Frames::Apart);
        // Sums over frames are quicker than values on the host. On a CPU values on the host come
        // first: they change no bit.
        let least = [2, 1].map(|n| (n, Frames::Alone));
        let ways = if together {
            [&large[..], &[small], &least].concat()
        } else {
            vec![small]
        };
        // Values over several pages are copied for every op: plans without them are quicker.
        let mut over_pages = None;
        for (most, frames) in ways {
            // Chunks as equal as can be: less memory, and seldom a last graph for a rest.
            let n_chunks = self.size.frames.div_ceil(most).max(1);
            match self.on_device(self.size.frames.div_ceil(n_chunks), frames) {
                Some(parts) if parts.iter().any(|p| p.plan.pages_bytes() > 0) => {
                    over_pages.get_or_insert(parts);
                }
                Some(parts) => return Some(parts),
                None => {}
            }
        }
        over_pages
    }

    /// Graphs of which everything is on the device, where there are any.
    fn on_device(&self, chunk: usize, at_once: Frames) -> Option<Vec<Part>> {
        let room = Room {
            allow_host: false,
            ..self.room
        };
        let recorder = Recorder { room, ..*self };
        recorder.chunks_of(chunk, at_once).ok()
    }

    /// Graphs of which some values are kept on the host, in the least time. Where none fits, the
    /// error tells the least that one of them needs.
    fn on_host(&self, together: bool) -> Result<Vec<Part>, EngineError> {
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

    fn chunks_of(&self, chunk: usize, at_once: Frames) -> Result<Vec<Part>, EngineError> {
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
        let graphs = Graphs {
            runs: runs.into_iter().filter(|r| r.n > 0).collect(),
            at_once,
            height: self.size.height,
            width: self.size.width,
        };
        graphs.planned(self.device, self.room, |chunk| {
            self.vae.record_decoder(chunk, self.dtype)
        })
    }
}

/// How often a graph runs, and for what.
#[derive(Clone, Copy)]
pub(crate) struct Runs {
    pub(crate) frames: usize,
    /// Whether the runs are at the beginning of a clip.
    pub(crate) first: bool,
    pub(crate) n: usize,
}

/// Graphs of one autoencoder, for one arena.
pub(crate) struct Graphs {
    pub(crate) runs: Vec<Runs>,
    pub(crate) at_once: Frames,
    /// Height of the input, in pixels or latent pixels.
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl Graphs {
    /// Frames apart become frames alone where a window of them is too much at once.
    pub(crate) fn planned(
        &self,
        device: &dyn Device,
        room: Room,
        record: impl Fn(Chunk) -> Result<Recording, EngineError>,
    ) -> Result<Vec<Part>, EngineError> {
        let plan = |at_once| self.planned_as(at_once, device, room, &record);
        match plan(self.at_once) {
            Err(error) if self.at_once == Frames::Apart && may_be_cut(&error, room) => {
                plan(Frames::Alone).map_err(|alone| less(error, alone))
            }
            planned => planned,
        }
    }

    fn planned_as(
        &self,
        at_once: Frames,
        device: &dyn Device,
        room: Room,
        record: impl Fn(Chunk) -> Result<Recording, EngineError>,
    ) -> Result<Vec<Part>, EngineError> {
        let recorded = self.runs.iter().map(|run| {
            record(Chunk {
                batch: 1,
                frames: run.frames,
                height: self.height,
                width: self.width,
                first: run.first,
                at_once,
            })
        });
        let mut recorded = recorded.collect::<Result<Vec<_>, _>>()?;
        if recorded.len() > 1 {
            share(&mut recorded);
        }
        let graphs = recorded.iter().zip(&self.runs);
        let plans = fit_turns(device, graphs.map(|(r, run)| (&r.graph, run.n)), room)?;
        let parts = plans.into_iter().zip(recorded).zip(&self.runs);
        let part = |((plan, of), run): (_, &Runs)| Part::new(plan, of, *run);
        Ok(parts.map(part).collect())
    }
}

/// Whether convolutions frame by frame may help: to bind what is too large, and as the last resort
/// to keep to a budget.
fn may_be_cut(error: &EngineError, room: Room) -> bool {
    match error {
        EngineError::Plan(PlanError::BindingTooLarge { .. }) => true,
        EngineError::Plan(PlanError::OverBudget { .. }) => room.allow_host,
        _ => false,
    }
}

/// The refusal that asks for less.
fn less(a: EngineError, b: EngineError) -> EngineError {
    let need = |error: &EngineError| match error {
        EngineError::Plan(PlanError::OverBudget { need, .. }) => *need,
        _ => usize::MAX,
    };
    if need(&a) <= need(&b) { a } else { b }
}
