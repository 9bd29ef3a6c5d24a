//! Pictures and clips to latents.

mod clip;
mod encoder;
mod fitting;

pub use clip::{FloatFrames, encode_clip};

use crate::decode::{MAX_RECOVERIES, Precision, Strategy};
use crate::media::{FrameSource, MediaError};
use crate::{Control, EngineError, Image, Latent, Picture, Stage, Store, VaeFile};
use encoder::{Chunks, Encoder, Input};
use fitting::Fitting;
use nino_dtype::DType;
use nino_graph::ExecError;
use nino_models::latent::LatentFormat;
use std::time::Duration;

/// What the user asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct EncodeOptions {
    pub precision: Precision,
    /// The latent space to write, where the VAE gives the model's units.
    pub format: Option<&'static LatentFormat>,
    /// Bytes of host memory that the caller holds meanwhile, beside what is encoded.
    pub beside: usize,
}

/// A latent in the VAE's units, as files hold it, and how it came about.
#[derive(Debug)]
pub struct Encoded {
    pub latent: Latent,
    pub strategy: Strategy,
    /// Storage of activations.
    pub dtype: DType,
    /// Bytes for weights and the largest session's activations, as planned and as allocated.
    pub predicted_peak: usize,
    pub measured_peak: usize,
    /// Times it was encoded again in f32 because values were not finite.
    pub retries: usize,
    /// Times the device was lost, and it was encoded again on a new one.
    pub recoveries: usize,
    pub load_time: Duration,
    pub encode_time: Duration,
}

/// Opens a clip, as [`crate::media::open_video`] does; called again when it is encoded again.
pub type OpenFrames<'a> = dyn FnMut() -> Result<Option<Box<dyn FrameSource>>, MediaError> + 'a;

/// Encodes one picture; of one whose sides are no multiples of the VAE's scale, the middle.
pub fn encode(
    store: &Store,
    vae: &VaeFile,
    picture: &Picture,
    options: &EncodeOptions,
    control: &mut Control<'_>,
) -> Result<Encoded, EngineError> {
    let fitting = Fitting::new(vae.encoder(), picture)?;
    fitting.tell("image", vae, control);
    let picture = fitting.of(picture);
    let size = (picture.width, picture.height);
    encode_with(store, vae, size, &|| unit(&picture), options, control)
}

/// Encodes one picture in floats, whose sides are multiples of the VAE's scale. ComfyUI's
/// `VAEEncode`.
pub fn encode_image(
    store: &Store,
    vae: &VaeFile,
    image: &Image,
    options: &EncodeOptions,
    control: &mut Control<'_>,
) -> Result<Encoded, EngineError> {
    let size = (image.width, image.height);
    let values = || image.values.clone();
    encode_with(store, vae, size, &values, options, control)
}

/// Encodes RGB values in 0..1, `[h, w, 3]`. They are made only after a plan was found, which counts
/// them: they take four times the memory of the picture.
pub(crate) fn encode_with(
    store: &Store,
    vae: &VaeFile,
    size: (usize, usize),
    values: &dyn Fn() -> Vec<f32>,
    options: &EncodeOptions,
    control: &mut Control<'_>,
) -> Result<Encoded, EngineError> {
    let vae = vae.encoder();
    until_done(store, "image", options, control, |options, control| {
        let input = Input {
            width: size.0,
            height: size.1,
            is_picture: true,
        };
        let mut encoder = Encoder::load(store, vae, input, options, control)?;
        let frames = match Chunks::of(vae).first {
            1 => values(),
            n => values().repeat(n),
        };
        control.stage(Stage::Encode)?;
        encoder.step(&frames, control)?;
        control.progress(1, 1)?;
        encoder.finish(options.format, control)
    })
}

/// Encodes a clip frame by frame: memory does not grow with it. Wan's encoders take 1 + 4k frames,
/// what is over is left out as ComfyUI does, and said; TAEHV's take 4k, and the last frame stands
/// in for what is missing.
pub fn encode_video(
    store: &Store,
    vae: &VaeFile,
    open: &mut OpenFrames<'_>,
    options: &EncodeOptions,
    control: &mut Control<'_>,
) -> Result<Encoded, EngineError> {
    if vae.kind.time_scale().is_none() {
        return Err(EngineError::VideoFrames {
            vae: vae.name.clone(),
        });
    }
    until_done(store, "video", options, control, |options, control| {
        let mut source = open()?.ok_or(EngineError::NoFrames)?;
        encode_frames(store, vae, &mut *source, options, control)
    })
}

/// Encodes; once more in f32 when values were not finite in less, and again on a new device where
/// one was lost.
fn until_done(
    store: &Store,
    what: &str,
    options: &EncodeOptions,
    control: &mut Control<'_>,
    mut encode: impl FnMut(&EncodeOptions, &mut Control<'_>) -> Result<Encoded, EngineError>,
) -> Result<Encoded, EngineError> {
    let mut options = *options;
    let (mut retries, mut recoveries) = (0, 0);
    loop {
        match encode(&options, control) {
            Ok(encoded) => {
                return Ok(Encoded {
                    retries,
                    recoveries,
                    ..encoded
                });
            }
            Err(EngineError::NotFinite { dtype }) if dtype != DType::F32 => {
                control.note(format!(
                    "values were not finite in {dtype}: this {what} is encoded again in f32"
                ));
                options.precision = Precision::F32;
                retries += 1;
            }
            Err(error @ EngineError::Exec(ExecError::DeviceLost { .. }))
                if recoveries < MAX_RECOVERIES =>
            {
                if let Err(why) = store.reopen() {
                    tracing::warn!("{why}");
                    return Err(error);
                }
                control.note(format!(
                    "{error}; the device was opened again: this {what} is encoded again"
                ));
                recoveries += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

fn encode_frames(
    store: &Store,
    vae: &VaeFile,
    source: &mut dyn FrameSource,
    options: &EncodeOptions,
    control: &mut Control<'_>,
) -> Result<Encoded, EngineError> {
    let chunks = Chunks::of(vae);
    let first = source.next_frame()?.ok_or(EngineError::NoFrames)?;
    let fitting = Fitting::new(vae, &first)?;
    fitting.tell("video", vae, control);
    let size = fitting.size;
    let input = Input {
        width: size.0,
        height: size.1,
        is_picture: false,
    };
    let mut encoder = Encoder::load(store, vae, input, options, control)?;
    control.stage(Stage::Encode)?;
    let mut values = unit(&fitting.of(&first));
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
            if (frame.width, frame.height) != fitting.from {
                return Err(EngineError::FrameSize {
                    frame: n_frames,
                    expected: fitting.from,
                    found: (frame.width, frame.height),
                });
            }
            values.extend(unit(&fitting.of(&frame)));
            n_frames += 1;
        }
        let have = values.len() / each;
        if have == 0 {
            break;
        }
        if have < wanted {
            if !chunks.pads {
                control.note(format!(
                    "{n_frames} frames: the last {have} are left out, because {} takes a multiple \
                     of {wanted} plus 1",
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

fn unit(picture: &Picture) -> Vec<f32> {
    picture.rgb.iter().map(|&v| f32::from(v) / 255.0).collect()
}
