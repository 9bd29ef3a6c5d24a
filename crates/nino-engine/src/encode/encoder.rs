//! One encoder on its way through a picture or a clip, chunk by chunk.

use super::{EncodeOptions, Encoded};
use crate::decode::{Carried, Part, part};
use crate::fit::{Room, fit_within};
use crate::units::{fits, from_encoder};
use crate::values::read;
use crate::{Control, EngineError, Latent, VaeFile};
use nino_dtype::DType;
use nino_graph::{Device, Session, Weights};
use nino_models::latent::LatentFormat;
use nino_models::{Chunk, Vae};
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
        match (&vae.vae, vae.vae.time_scale()) {
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

/// An encoder on its way through a clip.
pub(super) struct Encoder<'a> {
    device: &'a dyn Device,
    vae: &'a VaeFile,
    /// The first chunk's graph, and that of all others; only the first for pictures.
    parts: Vec<Part>,
    weights: Weights,
    session: Option<Box<dyn Session>>,
    carried: Carried,
    n_runs: usize,
    dtype: DType,
    arena: usize,
    load_time: Duration,
    started: Instant,
    /// `[t, h, w, c]`
    values: Vec<f32>,
}

impl<'a> Encoder<'a> {
    /// For frames of that size; a picture is the first of them and no more.
    pub(super) fn load(
        device: &'a dyn Device,
        vae: &'a VaeFile,
        ((width, height), is_picture): ((usize, usize), bool),
        options: &EncodeOptions,
        control: &mut Control<'_>,
    ) -> Result<Encoder<'a>, EngineError> {
        options.format.map_or(Ok(()), |f| fits(vae, f))?;
        let chunks = Chunks::of(vae);
        let dtype = options.precision.dtype(device);
        let part = |frames, first| -> Result<Part, EngineError> {
            let chunk = Chunk {
                batch: 1,
                frames,
                height,
                width,
                first,
                by_frame: true,
                by_tap: false,
            };
            // A chunk's frames as bytes, as f32, and once more on their way in.
            let room = Room {
                cap: None,
                beside: frames * width * height * 3 * (1 + 2 * size_of::<f32>()),
            };
            let (plan, recording) = part::planned(chunk, |chunk| {
                let recording = vae.record_encoder(chunk, dtype)?;
                let plan = fit_within(device, &recording.graph, room)?;
                Ok((plan, recording))
            })?;
            Ok(Part::new(plan, recording, frames, 1))
        };
        let mut parts = vec![part(chunks.first, true)?];
        if !is_picture {
            parts.push(part(chunks.rest, false)?);
        }
        control.stage("load")?;
        let started = Instant::now();
        let plans: Vec<_> = parts.iter().map(|p| &*p.plan).collect();
        let weights = device.load(&plans, vae.params(&plans)?)?;
        Ok(Encoder {
            device,
            vae,
            parts,
            weights,
            session: None,
            carried: Carried::default(),
            n_runs: 0,
            dtype,
            arena: 0,
            load_time: started.elapsed(),
            started: Instant::now(),
            values: Vec::new(),
        })
    }

    /// One chunk of frames.
    pub(super) fn step(
        &mut self,
        frames: &[f32],
        control: &mut Control<'_>,
    ) -> Result<(), EngineError> {
        let part = &self.parts[self.n_runs.min(1)];
        if self.n_runs == 1 {
            // The first chunk's session goes before the other's comes.
            if let Some(mut before) = self.session.take() {
                self.carried.leave(&mut *before, &self.parts[0])?;
            }
        }
        let session = match &mut self.session {
            Some(session) => {
                self.carried.stay(&mut **session, part)?;
                session
            }
            empty => {
                let mut session = self.device.session(part.plan.clone(), &self.weights)?;
                self.carried.enter(&mut *session, part)?;
                empty.insert(session)
            }
        };
        self.arena = self.arena.max(session.arena_bytes());
        part.run(&mut **session, frames, None, control)?;
        let graph = part.plan.graph();
        self.values
            .extend(read(&mut **session, graph, part.output)?);
        self.n_runs += 1;
        Ok(())
    }

    pub(super) fn finish(
        self,
        format: Option<&'static LatentFormat>,
        control: &mut Control<'_>,
    ) -> Result<Encoded, EngineError> {
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
            is_video: self.vae.vae.time_scale().is_some(),
            format: None,
        };
        Ok(Encoded {
            latent: from_encoder(self.vae, latent, format, control)?,
            strategy: part::strategy(&self.parts),
            dtype: self.dtype,
            predicted_peak: part::peak_bytes(&self.parts),
            measured_peak: part::weight_bytes(&self.parts) + self.arena,
            retries: 0,
            recoveries: 0,
            load_time: self.load_time,
            encode_time: self.started.elapsed(),
        })
    }
}
