//! What a video model is shown beside the prompt: frames that are given, pictures as CLIP sees
//! them, clips to follow, a camera's path. ComfyUI's `WanImageToVideo`,
//! `WanFirstLastFrameToVideo`, `WanFunControlToVideo`, `WanVaceToVideo` and
//! `WanCameraImageToVideo` put these into the conditioning.

use super::{CameraPath, SoundHints};
use crate::sample::{LatentShape, SampleRequest};
use crate::{DiffusionModel, EngineError, Latent, LatentSize, Upscale};
use nino_models::Denoiser;
use nino_models::latent::LatentFormat;
use std::sync::Arc;

/// All that a prompt shows a video model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClipHints {
    /// Pictures as CLIP sees them (Wan 2.1 image to video).
    pub image: Option<Arc<ImageStates>>,
    /// Frames that stand beside the latent's channels.
    pub frames: Option<Arc<SeenFrames>>,
    /// Clips that VACE follows.
    pub controls: Vec<Arc<Followed>>,
    /// How the camera moves (Fun camera).
    pub camera: Option<Arc<CameraPath>>,
    /// What sound-to-video models are given.
    pub sound: SoundHints,
}

/// CLIP's hidden states of one or more pictures, one picture after the other. ComfyUI's
/// `CLIP_VISION_OUTPUT`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImageStates {
    /// `[tokens, width]`
    pub values: Vec<f32>,
    pub width: usize,
    /// Of SigLIP: the states of layers before the last, the deepest first, as USO looks at them.
    pub deeper: Vec<Vec<f32>>,
    /// Of CLIP: the vector of each whole picture.
    pub whole: Vec<Vec<f32>>,
}

/// Encoded frames that a model sees beside the noise.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenFrames {
    /// The frames in the VAE's units; more channels than a latent has are several latents beside
    /// each other.
    pub latent: Latent,
    /// 1 in every frame that is to be made and 0 in those that are given, with one channel or with
    /// one for each of the four frames under a latent frame.
    pub mask: Option<Latent>,
    /// The channel of the frames that the mask stands before.
    pub mask_at: usize,
}

/// A clip that VACE follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Followed {
    /// Frames to keep and frames to change, beside each other, in the VAE's units.
    pub frames: Latent,
    /// 1 where to change, with a channel for each of the 8×8 pixels under a latent pixel.
    pub mask: Latent,
    pub strength: f32,
}

/// Channels of a mask: frames under one latent frame.
const MASK: usize = 4;

impl ImageStates {
    pub fn tokens(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    /// These pictures, then others.
    #[must_use]
    pub fn followed_by(&self, other: &ImageStates) -> ImageStates {
        let mut all = self.clone();
        all.values.extend_from_slice(&other.values);
        for (layer, more) in all.deeper.iter_mut().zip(&other.deeper) {
            layer.extend_from_slice(more);
        }
        all.whole.extend_from_slice(&other.whole);
        all
    }
}

impl ClipHints {
    /// Tokens of the pictures that a model looks at.
    pub(crate) fn image_tokens(&self, model: &DiffusionModel) -> usize {
        let image = self.image.as_ref();
        let looks = image.filter(|_| model.net().wants().image.is_some());
        looks.map_or(0, |image| image.tokens())
    }

    /// Clips that a model follows: VACE needs one, which is empty where none is given.
    pub(crate) fn n_controls(&self, model: &DiffusionModel) -> usize {
        let control = model.net().wants().control;
        control.map_or(0, |_| self.controls.len().max(1))
    }

    /// An error where what is shown is not of the latent's size or of the model's width.
    pub(crate) fn check(&self, model: &DiffusionModel, latent: &Latent) -> Result<(), EngineError> {
        let wants = model.net().wants();
        self.sound.check(model, latent)?;
        if let (Some(image), Some(width)) = (&self.image, wants.image)
            && image.width != width
        {
            return Err(EngineError::ImageWidth {
                model: model.name.clone(),
                expected: width,
                found: image.width,
            });
        }
        let of_size = |what, found: LatentSize| {
            let fits = |s: LatentSize| (s.frames, s.height, s.width);
            if fits(found) == fits(latent.size()) {
                return Ok(());
            }
            Err(EngineError::SeenSize {
                what,
                expected: latent.size(),
                found,
            })
        };
        if let Some(camera) = self.camera.as_ref().filter(|_| wants.camera.is_some()) {
            of_size("the camera path", camera.latent())?;
        }
        if let (Some(seen), Denoiser::Wan(_)) = (&self.frames, model.net())
            && wants.extra > 0
        {
            let resized = Latent {
                height: latent.height,
                width: latent.width,
                ..seen.latent.without_values()
            };
            of_size("the conditioning", resized.size())?;
            if kept_channels(model, seen.latent.channels).is_none() {
                return Err(EngineError::SeenChannels {
                    model: model.name.clone(),
                    extra: wants.extra,
                    found: seen.latent.channels,
                });
            }
        }
        for control in self.controls.iter().filter(|_| wants.control.is_some()) {
            of_size("the control video", control.frames.size())?;
            of_size("the mask of the control video", control.mask.size())?;
            let found = control.frames.channels + control.mask.channels;
            if Some(found) != wants.control {
                return Err(EngineError::SeenChannels {
                    model: model.name.clone(),
                    extra: wants.control.unwrap_or(0),
                    found,
                });
            }
        }
        Ok(())
    }

    /// The channels beside a latent, `[b, t, h, w, extra]`: zeros where no frames are shown.
    pub(crate) fn extra_values(
        &self,
        model: &DiffusionModel,
        request: &SampleRequest<'_>,
    ) -> Vec<f32> {
        let shape = LatentShape::of(request.latent);
        let extra = model.net().wants().extra;
        let Some(seen) = &self.frames else {
            return vec![0.0; shape.batch * shape.pixels() * extra];
        };
        let fitted = seen
            .latent
            .resized(shape.height, shape.width, Upscale::Bilinear);
        let image = in_model_units(&fitted, model.latent_format());
        let kept = kept_channels(model, image.channels).unwrap_or(image.channels);
        let mask = (kept < extra).then(|| given(seen.mask.as_ref(), request));
        let at = seen.mask_at.min(kept);
        let mut one = Vec::with_capacity(shape.pixels() * extra);
        for (i, pixel) in image.values.chunks_exact(image.channels).enumerate() {
            let mask = mask.as_ref().map_or(&[][..], |m| &m[i * MASK..][..MASK]);
            one.extend_from_slice(&pixel[..at]);
            one.extend_from_slice(mask);
            one.extend_from_slice(&pixel[at..kept]);
        }
        one.repeat(shape.batch / image.batch.max(1))
    }

    /// Frames and mask of every clip that VACE follows, `[b, t, h, w, 96]`, and how much it counts.
    pub(crate) fn control_values(
        &self,
        model: &DiffusionModel,
        shape: LatentShape,
    ) -> Vec<(Vec<f32>, f32)> {
        let format = model.latent_format();
        if self.controls.is_empty() {
            let size = LatentSize {
                frames: shape.frames,
                height: shape.height,
                width: shape.width,
            };
            let frames = in_model_units(&Latent::empty(1, 2 * shape.channels, size), format);
            let all = model.net().wants().control.unwrap_or(0);
            let ones = vec![1.0; all.saturating_sub(frames.channels)];
            let pixels = frames.values.chunks_exact(frames.channels);
            let one: Vec<f32> = pixels.flat_map(|p| [p, &ones].concat()).collect();
            return vec![(one.repeat(shape.batch), 1.0)];
        }
        let values = |control: &Arc<Followed>| {
            let frames = in_model_units(&control.frames, format);
            let pixels = frames.values.chunks_exact(frames.channels);
            let masks = control.mask.values.chunks_exact(control.mask.channels);
            let one: Vec<f32> = pixels
                .zip(masks)
                .flat_map(|(p, m)| [p, m].concat())
                .collect();
            (
                one.repeat(shape.batch / frames.batch.max(1)),
                control.strength,
            )
        };
        self.controls.iter().map(values).collect()
    }
}

/// How many channels of the frames a model takes, the rest of its extra channels being the mask's;
/// `None` where they do not fit. Image-to-video models leave out what is too much.
fn kept_channels(model: &DiffusionModel, channels: usize) -> Option<usize> {
    let wants = model.net().wants();
    let room = wants.extra.saturating_sub(MASK);
    match channels {
        n if n == wants.extra || n == room => Some(n),
        n if n > room && wants.image.is_some() && room == wants.channels => Some(room),
        _ => None,
    }
}

/// The latents beside each other, each in the model's units.
fn in_model_units(latents: &Latent, format: Option<&LatentFormat>) -> Latent {
    let mut scaled = latents.clone();
    if let Some(format) = format {
        let each = format.unpacked_channels();
        scaled.for_channels(|c, v| {
            let (mul, add) = format.to_model(c % each);
            v * mul + add
        });
    }
    scaled
}

/// What a model is told of the mask, `[t, h, w, 4]`: 1 in frames that are given. A request's own
/// mask stands in for one that is not there; without any, nothing is given.
fn given(mask: Option<&Latent>, request: &SampleRequest<'_>) -> Vec<f32> {
    let shape = LatentShape::of(request.latent);
    let pixels = shape.pixels();
    let Some(mask) = mask else {
        return match request.mask_values() {
            Some(mask) => {
                let one = &mask[..pixels];
                one.iter().flat_map(|m| [1.0 - m; MASK]).collect()
            }
            None => vec![0.0; pixels * MASK],
        };
    };
    let mask = mask.resized(shape.height, shape.width, Upscale::Bilinear);
    let told = mask.values.chunks_exact(mask.channels).map(|m| match m {
        &[a, b, c, d] => [a, b, c, d].map(|m| 1.0 - m),
        several => [1.0 - several.iter().sum::<f32>() / several.len() as f32; MASK],
    });
    let mut told: Vec<f32> = told.flatten().collect();
    told.resize(pixels * MASK, 0.0);
    told
}
