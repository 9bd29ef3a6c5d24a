//! One encoder on its way through a picture or a clip, chunk by chunk.

use super::{EncodeOptions, Encoded};
use crate::capture::{self, Pictures};
use crate::decode::carry::carry;
use crate::decode::part::{self, Part};
use crate::decode::plan::{Graphs, Runs};
use crate::fit::Room;
use crate::store::{Lease, Network};
use crate::units::{fits, from_encoder};
use crate::values::read;
use crate::{Control, EngineError, Latent, Stage, Store, VaeFile};
use nino_dtype::DType;
use nino_models::latent::LatentFormat;
use nino_models::{Frames, Vae};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Frames a run of the encoder takes.
#[derive(Clone, Copy)]
pub(super) struct Chunks {
    pub(super) first: usize,
    pub(super) rest: usize,
    /// The last frame is repeated to fill a chunk.
    pub(super) pads: bool,
}

impl Chunks {
    pub(super) fn of(vae: &VaeFile) -> Chunks {
        match (&vae.kind, vae.kind.time_scale()) {
            (_, None) => Chunks {
                first: 1,
                rest: 1,
                pads: false,
            },
            (Vae::Wan(_), Some(n)) => Chunks {
                first: 1,
                rest: n,
                pads: false,
            },
            (_, Some(n)) => Chunks {
                first: n,
                rest: n,
                pads: true,
            },
        }
    }
}

/// What is encoded: a picture, or frames of a clip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    pub(super) width: usize,
    pub(super) height: usize,
    /// A picture is the first chunk of frames and no more.
    pub(super) is_picture: bool,
}

/// An encoder on its way through a clip.
pub(super) struct Encoder<'a> {
    vae: &'a VaeFile,
    /// The first chunk's graph, and that of all others; only the first for pictures.
    parts: Arc<Vec<Part>>,
    /// A session for each part, in one arena.
    lease: Lease,
    n_runs: usize,
    dtype: DType,
    load_time: Duration,
    started: Instant,
    /// `[t, h, w, c]`
    values: Vec<f32>,
    /// All frames so far, where they are captured.
    frames: Option<Pictures>,
}

impl<'a> Encoder<'a> {
    /// Plans and loads an encoder for what is to be encoded.
    pub(super) fn load(
        store: &Store,
        vae: &'a VaeFile,
        input: Input,
        options: &EncodeOptions,
        control: &mut Control<'_>,
    ) -> Result<Encoder<'a>, EngineError> {
        options.format.map_or(Ok(()), |f| fits(vae, f))?;
        let Input {
            width,
            height,
            is_picture,
        } = input;
        let chunks = Chunks::of(vae);
        let dtype = options.precision.dtype(store.device());
        // A chunk's frames as bytes, as f32, and once more on their way in.
        let rest = if is_picture { 0 } else { chunks.rest };
        let most = chunks.first.max(rest);
        let room = Room {
            cap: None,
            beside: most * width * height * 3 * (1 + 2 * size_of::<f32>()) + options.beside,
            allow_host: true,
        };
        let run = |frames, first| Runs {
            frames,
            first,
            n: 1,
        };
        let mut runs = vec![run(chunks.first, true)];
        if !is_picture {
            runs.push(run(chunks.rest, false));
        }
        let graphs = Graphs {
            runs,
            at_once: Frames::Apart,
            height,
            width,
        };
        let what = format!(
            "encode {width}x{height} {is_picture} {dtype} {}",
            room.beside
        );
        let parts = store.plan(&vae.id(), what, || {
            graphs.planned(store.device(), room, |chunk| {
                vae.record_encoder(chunk, dtype)
            })
        })?;
        control.stage(Stage::Load)?;
        let plans: Vec<_> = parts.iter().map(|p| Arc::clone(&p.plan)).collect();
        let lease = store.open(&Network {
            stage: Stage::Encode,
            net: vae.id(),
            plans: &plans,
            beside: room.beside,
            source: &|| vae.params(),
        })?;
        Ok(Encoder {
            vae,
            parts,
            load_time: lease.load_time,
            lease,
            n_runs: 0,
            dtype,
            started: Instant::now(),
            values: Vec::new(),
            frames: capture::is_on(store).then(|| Pictures {
                width,
                height,
                values: Vec::new(),
            }),
        })
    }

    /// One chunk of frames.
    pub(super) fn step(
        &mut self,
        frames: &[f32],
        control: &mut Control<'_>,
    ) -> Result<(), EngineError> {
        let i = self.n_runs.min(1);
        let sessions = self.lease.sessions();
        if let Some(before) = self.n_runs.checked_sub(1) {
            carry(sessions, &self.parts, (before.min(1), i))?;
        }
        let (part, session) = (&self.parts[i], &mut *sessions[i]);
        part.run(session, frames, None, control)?;
        let graph = part.plan.graph();
        self.values.extend(read(session, graph, part.output)?);
        if let Some(kept) = &mut self.frames {
            kept.values.extend_from_slice(frames);
        }
        self.n_runs += 1;
        Ok(())
    }

    pub(super) fn finish(
        self,
        format: Option<&'static LatentFormat>,
        control: &mut Control<'_>,
    ) -> Result<Encoded, EngineError> {
        let arena = self.lease.arena_bytes();
        self.lease.finish();
        let shape = self.parts[0].plan.graph().shape(self.parts[0].output);
        let (height, width) = (shape[shape.rank() - 3], shape[shape.rank() - 2]);
        let channels = shape.last_dim();
        let latent = Latent {
            batch: 1,
            frames: self.values.len() / (height * width * channels),
            height,
            width,
            channels,
            values: self.values,
            is_video: self.vae.kind.time_scale().is_some(),
            format: None,
        };
        let latent = from_encoder(self.vae, latent, format, control)?;
        if let Some(frames) = self.frames {
            capture::encode(self.vae, frames, &latent);
        }
        Ok(Encoded {
            latent,
            strategy: part::strategy(self.parts.iter().map(|p| &*p.plan)),
            dtype: self.dtype,
            predicted_peak: part::peak_bytes(&self.parts),
            measured_peak: part::weight_bytes(&self.parts) + arena,
            retries: 0,
            recoveries: 0,
            load_time: self.load_time,
            encode_time: self.started.elapsed(),
        })
    }
}
