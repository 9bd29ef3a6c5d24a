//! Pictures and clips to latents.

use crate::decode::{Carried, Part, Precision};
use crate::fit::fit;
use crate::media::FrameSource;
use crate::units::from_encoder;
use crate::values::{read, write};
use crate::{Control, EngineError, Latent, Picture, VaeFile};
use nino_graph::{Device, RunOptions, Session, Weights};
use nino_models::latent::LatentFormat;
use nino_models::{Chunk, Vae};

/// What the user asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct EncodeOptions {
    pub precision: Precision,
    /// The latent space to write, where the VAE gives the model's units.
    pub format: Option<&'static LatentFormat>,
}

/// Encodes one picture; its sides must be multiples of the VAE's scale. The latent is in the VAE's
/// units, as files hold it.
pub fn encode(
    device: &dyn Device,
    vae: &VaeFile,
    picture: &Picture,
    options: &EncodeOptions,
    control: &mut Control<'_>,
) -> Result<Latent, EngineError> {
    let values = unit(picture);
    let size = (picture.width, picture.height);
    encode_unit(device, vae, size, &values, options, control)
}

/// Encodes RGB values in 0..1, `[h, w, 3]`.
pub(crate) fn encode_unit(
    device: &dyn Device,
    vae: &VaeFile,
    (width, height): (usize, usize),
    values: &[f32],
    options: &EncodeOptions,
    control: &mut Control<'_>,
) -> Result<Latent, EngineError> {
    let vae = vae.encoder();
    let shape = Chunks::of(vae);
    let mut encoder = Encoder::load(device, vae, (width, height), options, control)?;
    control.stage("encode")?;
    let frames = values.repeat(shape.first);
    encoder.step(&frames, control)?;
    control.progress(1, 1)?;
    encoder.finish(options.format, control)
}

/// Encodes a clip frame by frame: memory does not grow with it. Wan's encoders take 1 + 4k frames,
/// what is over is left out as ComfyUI does, and said; TAEHV's take 4k, and the last frame stands in
/// for what is missing.
pub fn encode_video(
    device: &dyn Device,
    vae: &VaeFile,
    source: &mut dyn FrameSource,
    options: &EncodeOptions,
    control: &mut Control<'_>,
) -> Result<Latent, EngineError> {
    if vae.vae.time_scale().is_none() {
        return Err(EngineError::VideoFrames {
            vae: vae.name.clone(),
        });
    }
    let chunks = Chunks::of(vae);
    let first = source.next_frame()?.ok_or(EngineError::NoFrames)?;
    let size = (first.width, first.height);
    let mut encoder = Encoder::load(device, vae, size, options, control)?;
    control.stage("encode")?;
    let mut values = unit(&first);
    let mut n_frames = 1;
    let mut taken = 0;
    loop {
        let wanted = if taken == 0 {
            chunks.first
        } else {
            chunks.rest
        };
        let each = size.0 * size.1 * 3;
        while values.len() < wanted * each {
            let Some(frame) = source.next_frame()? else {
                break;
            };
            if (frame.width, frame.height) != size {
                return Err(EngineError::FrameSize {
                    frame: n_frames,
                    expected: size,
                    found: (frame.width, frame.height),
                });
            }
            values.extend(unit(&frame));
            n_frames += 1;
        }
        let have = values.len() / each;
        if have == 0 {
            break;
        }
        if have < wanted {
            if !chunks.pads {
                control.note(format!(
                    "{n_frames} frames: the last {have} are left out, {} takes 1 and a multiple of {wanted}",
                    vae.name
                ));
                break;
            }
            let last = values[(have - 1) * each..].to_vec();
            (have..wanted).for_each(|_| values.extend_from_slice(&last));
        }
        encoder.step(&values, control)?;
        values.clear();
        taken += wanted;
        let total = source.n_frames().unwrap_or(0).max(n_frames);
        control.progress(n_frames.min(taken), total)?;
    }
    encoder.finish(options.format, control)
}

/// Frames a run of the encoder takes.
#[derive(Clone, Copy)]
struct Chunks {
    first: usize,
    rest: usize,
    /// The last frame is repeated to fill a chunk.
    pads: bool,
}

impl Chunks {
    fn of(vae: &VaeFile) -> Chunks {
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
struct Encoder<'a> {
    device: &'a dyn Device,
    vae: &'a VaeFile,
    /// The first chunk's graph, and that of all others; one for pictures.
    parts: Vec<Part>,
    weights: Weights,
    session: Option<Box<dyn Session>>,
    carried: Carried,
    n_runs: usize,
    /// `[t, h, w, c]`
    values: Vec<f32>,
}

impl<'a> Encoder<'a> {
    fn load(
        device: &'a dyn Device,
        vae: &'a VaeFile,
        (width, height): (usize, usize),
        options: &EncodeOptions,
        control: &mut Control<'_>,
    ) -> Result<Encoder<'a>, EngineError> {
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
            };
            let recording = vae.record_encoder(chunk, dtype)?;
            Ok(Part {
                plan: fit(device, &recording.graph)?,
                input: recording.input,
                output: recording.output,
                caches: recording.caches,
                frames,
                runs: 1,
            })
        };
        let mut parts = vec![part(chunks.first, true)?];
        if vae.vae.time_scale().is_some() {
            parts.push(part(chunks.rest, false)?);
        }
        control.stage("load")?;
        let plans: Vec<_> = parts.iter().map(|p| &*p.plan).collect();
        let weights = device.load(&plans, vae.params()?)?;
        Ok(Encoder {
            device,
            vae,
            parts,
            weights,
            session: None,
            carried: Carried::default(),
            n_runs: 0,
            values: Vec::new(),
        })
    }

    /// One chunk of frames.
    fn step(&mut self, frames: &[f32], control: &mut Control<'_>) -> Result<(), EngineError> {
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
        let graph = part.plan.graph();
        write(&mut **session, graph, part.input, frames)?;
        session.run(RunOptions {
            cancel: Some(control.cancel),
            profile: false,
        })?;
        self.values
            .extend(read(&mut **session, graph, part.output)?);
        self.n_runs += 1;
        Ok(())
    }

    fn finish(
        self,
        format: Option<&'static LatentFormat>,
        control: &mut Control<'_>,
    ) -> Result<Latent, EngineError> {
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
        from_encoder(self.vae, latent, format, control)
    }
}

fn unit(picture: &Picture) -> Vec<f32> {
    picture.rgb.iter().map(|&v| f32::from(v) / 255.0).collect()
}
