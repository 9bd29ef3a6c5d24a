//! What a sampling run is told, and whether it can be meant.

use super::denoise::{Prompt, Rect};
use super::{LatentShape, Preview, Third};
use crate::conditioning::common_multiple;
use crate::decode::Precision;
use crate::{Conditioning, DiffusionModel, EngineError, Latent, Mask};
use nino_sample::{Options, Sampler, Seed, needs_negative};

/// Everything a sampling run is told.
#[derive(Clone, Copy)]
pub struct SampleRequest<'a> {
    /// One prompt, or several that share the picture by their regions.
    pub positive: &'a [Conditioning],
    /// Needed where `cfg` is not 1, or the sampler always looks at them.
    pub negative: &'a [Conditioning],
    /// A third side of prompts, and how it takes part.
    pub third: Option<Third<'a>>,
    /// What sampling starts from, in the VAE's units; zeros for text to image.
    pub latent: &'a Latent,
    pub noise: Noise<'a>,
    /// 1 where to paint, of any size; everywhere when `None`.
    pub mask: Option<&'a Mask>,
    /// Of a clip, how much each latent frame is to be made: 0 for frames that are given. All are to
    /// be made when it is empty.
    pub frame_mask: &'a [f32],
    /// Noise levels, none higher than the one before; [`super::sigmas`] gives a schedule's. The
    /// latent stays as it is when there are none.
    pub sigmas: &'a [f32],
    pub sampler: &'static Sampler,
    pub options: &'a Options,
    /// The seed of the noise that is drawn, at the start and in the steps.
    pub seed: Seed,
    pub cfg: f32,
    /// How activations are stored.
    pub precision: Precision,
    pub preview: Option<&'a Preview>,
    /// Bytes of host memory that the caller holds meanwhile, such as the picture that the latent
    /// was made of and its mask.
    pub beside: usize,
    /// Where the network's outputs are kept, and come from in place of its work.
    pub memory: Option<&'a dyn Remember>,
}

/// The network's outputs of a run that are kept, so that it can be repeated up to where it stopped.
pub trait Remember {
    /// The outputs of the next call, where there is one more; it was made at noise level `sigma`.
    fn recall(&self, sigma: f32, out: &mut [f32]) -> Result<bool, EngineError>;

    /// Keeps the outputs of a call.
    fn keep(&self, sigma: f32, values: &[f32]) -> Result<(), EngineError>;
}

/// The noise laid over the latent at the start.
#[derive(Clone, Copy, Debug, Default)]
pub enum Noise<'a> {
    /// Drawn from the seed.
    #[default]
    Seeded,
    /// Drawn from the seed, picture by picture: each gets the noise that is drawn at its place in
    /// this list, so that one picture of a batch can be made again alone.
    SeededAt(&'a [usize]),
    /// None: the latent has its noise already.
    None,
    /// These values, `[b, c, t, h, w]`, of deviation 1.
    Given(&'a [f32]),
}

impl<'a> SampleRequest<'a> {
    /// Whether the negative prompt is looked at.
    pub(super) fn is_guided(&self, model: &DiffusionModel) -> bool {
        let needs_negative = match self.third {
            Some(third) => third.way.needs_negative(self.cfg),
            None => needs_negative(self.cfg) && !model.takes_guidance(),
        };
        needs_negative || self.sampler.cfg_pp || model.is_watched()
    }

    /// The negative prompts, where they are looked at.
    pub(super) fn negative(&self, model: &DiffusionModel) -> &'a [Conditioning] {
        if self.is_guided(model) {
            self.negative
        } else {
            &[]
        }
    }

    /// Whether there are two sides and one prompt for each, both are for the whole picture and all
    /// the time, both can be brought to one length, and the network is the same for both and in all
    /// steps. A negative prompt that is not looked at must have no area, since areas count for both
    /// sides.
    pub(super) fn is_plain(&self, model: &DiffusionModel) -> bool {
        let sides = [self.positive, self.negative(model)];
        let whole = |c: &Conditioning| c.region.is_everything();
        sides.iter().all(|s| s.len() <= 1 && s.iter().all(whole))
            && self.negative.iter().all(|c| !c.region.has_area())
            && (!model.net().counts_tokens() || self.has_one_length(model))
            && model.skipped_layers().is_none()
            && model.shrinks().is_empty()
            && !model.is_watched()
            && self.third.is_none()
    }

    /// Whether all prompts have as many tokens, of text and of latents to look at.
    pub(super) fn has_one_length(&self, model: &DiffusionModel) -> bool {
        let length = |p: &Conditioning| {
            let clip = (
                p.clip.image_tokens(model),
                p.clip.n_controls(model),
                p.clip.sees_camera(model),
                p.clip.sound.shape(model, LatentShape::of(self.latent)),
            );
            (
                (p.tokens_for(model), p.queries_for(model)),
                p.reference_sizes(model),
                clip,
                p.stretches(model),
                (p.unguided, p.places),
            )
        };
        let mut all = self.positive.iter().chain(self.negative(model));
        let first = all.next().map(length);
        all.all(|prompt| Some(length(prompt)) == first)
    }

    /// The prompts of both sides, for the whole picture.
    pub(super) fn prompts(&self, model: &DiffusionModel) -> Vec<Prompt<'a>> {
        let rect = Rect::whole(LatentShape::of(self.latent));
        let sides = [(self.positive, false), (self.negative(model), true)];
        let prompts = sides.into_iter().flat_map(|(side, negative)| {
            side.iter().map(move |conditioning| Prompt {
                conditioning,
                negative,
                rect,
            })
        });
        prompts.collect()
    }

    /// Host memory of a run: vectors as long as the latent, about. The sampler has up to eight of
    /// its own; the others are the start in both units, its noise, the predictions of both sides,
    /// the last step, and what goes to the device and comes back. A camera's path and audio are
    /// larger.
    pub(super) fn host_bytes(&self, model: &DiffusionModel) -> usize {
        const VECTORS: usize = 20;
        // The third prediction and copies of the others.
        const MORE_VECTORS: usize = 4;
        let shape = LatentShape::of(self.latent);
        let latent = shape.len() * size_of::<f32>();
        let prompts = self.positive.iter().chain(self.negative);
        let prompts = prompts.chain(self.third_prompts());
        let shown = |p: &Conditioning| p.clip.camera_bytes(shape) + p.clip.sound.bytes(shape.batch);
        let shown: usize = prompts.map(shown).sum();
        let vectors = VECTORS + self.third.map_or(0, |_| MORE_VECTORS);
        let vectors = vectors + Self::step_cache_vectors(model);
        // The blurred prediction, that with its noise, and what is made of it.
        let vectors = vectors + if model.is_watched() { 3 } else { 0 };
        vectors * latent + self.sampler.noise_bytes(latent) + shown + self.beside
    }

    /// The mask for every value of the latent, `[b, c, t, h, w]`; `None` where all is to be made.
    pub(crate) fn mask_values(&self) -> Option<Vec<f32>> {
        if self.mask.is_none() && self.frame_mask.is_empty() {
            return None;
        }
        let shape = LatentShape::of(self.latent);
        let mask = self
            .mask
            .map(|mask| mask.resized(shape.width, shape.height));
        let plane = mask.map_or_else(|| vec![1.0; shape.height * shape.width], |m| m.values);
        let clip: Vec<f32> = if self.frame_mask.is_empty() {
            plane.repeat(shape.frames)
        } else {
            let frames = self.frame_mask.iter();
            frames
                .flat_map(|&weight| plane.iter().map(move |m| m * weight))
                .collect()
        };
        Some(clip.repeat(shape.batch * shape.channels))
    }

    /// The share of each latent frame that is to be made.
    pub(super) fn frame_shares(&self) -> Vec<f32> {
        let shape = LatentShape::of(self.latent);
        let Some(mask) = self.mask_values() else {
            return vec![1.0; shape.frames];
        };
        let frames = mask
            .chunks_exact(shape.height * shape.width)
            .take(shape.frames);
        frames
            .map(|frame| frame.iter().sum::<f32>() / frame.len() as f32)
            .collect()
    }

    /// Tokens that the prompts of both sides are repeated to.
    pub(super) fn tokens(&self, model: &DiffusionModel) -> usize {
        let all = self.positive.iter().chain(self.negative(model));
        all.map(|p| p.tokens_for(model)).fold(1, common_multiple)
    }

    /// What cannot be meant of self-attention guidance.
    fn check_self_attention(&self, model: &DiffusionModel) -> Result<(), EngineError> {
        let whole = |c: &Conditioning| c.region.is_everything();
        let all = || self.positive.iter().chain(self.negative);
        let other = if !model.is_watched() {
            return Ok(());
        } else if self.third.is_some() || model.perpendicular().is_some() {
            "guidance by three prompts"
        } else if model.skipped_layers().is_some() {
            "perturbed-attention guidance"
        } else if model.hypertile().is_some() {
            "HyperTile"
        } else if model.takes_guidance() {
            "a model that takes the guidance scale as an input"
        } else if self.negative.len() > 1 || !all().all(whole) {
            "prompts for a part of the image or of the sampling"
        } else {
            return Ok(());
        };
        Err(EngineError::SelfAttention { other })
    }

    /// What cannot be meant, before anything is planned or loaded.
    pub(super) fn check(&self, model: &DiffusionModel) -> Result<(), EngineError> {
        model.check_inputs()?;
        let wants = model.net().wants();
        if self.latent.channels != wants.channels {
            return Err(EngineError::Channels {
                expected: wants.channels,
                found: self.latent.channels,
            });
        }
        if self.latent.frames != 1 && !wants.frames {
            return Err(EngineError::FramesForPictures {
                frames: self.latent.frames,
                model: model.family.name(),
            });
        }
        if self.positive.is_empty() {
            return Err(EngineError::NoPrompt);
        }
        if self.is_guided(model) && self.negative.is_empty() {
            return Err(EngineError::NoNegative { cfg: self.cfg });
        }
        let frames = self.latent.frames;
        if !self.frame_mask.is_empty() && self.frame_mask.len() != frames {
            return Err(EngineError::FrameMask {
                expected: frames,
                found: self.frame_mask.len(),
            });
        }
        self.check_third(model)?;
        self.check_step_cache(model)?;
        self.check_self_attention(model)?;
        let prompts = self.positive.iter().chain(self.negative(model));
        let third = self.with_third_of(model).third_prompts();
        for prompt in prompts.chain(third) {
            if let Some(places) = prompt.places
                && !prompt.looked_at(model).is_empty()
                && !model.net().supports_reference_method(places)
            {
                return Err(EngineError::ReferencePlaces {
                    model: model.family.name(),
                    method: places.name(),
                });
            }
            prompt.check(model.family, wants.context, wants.y)?;
            prompt.clip.check(model, self.latent)?;
            if model.style_tokens() > 0 && !prompt.biased.is_empty() {
                return Err(EngineError::StyleBias {
                    model: model.name.clone(),
                });
            }
            // Where Wan's other models look at the first frame alone, so does ComfyUI.
            if let ([.., last], true) = (prompt.looked_at(model), wants.audio.is_some())
                && last.frames > 1
            {
                return Err(EngineError::ReferenceFrames {
                    model: model.name.clone(),
                    frames: last.frames,
                });
            }
            let other = prompt
                .references
                .iter()
                .find(|r| r.channels != wants.channels);
            if let Some(other) = other.filter(|_| model.net().takes_references()) {
                return Err(EngineError::Channels {
                    expected: wants.channels,
                    found: other.channels,
                });
            }
        }
        let values = &self.latent.values;
        let bad = values.iter().filter(|v| !v.is_finite()).count();
        if bad > 0 {
            return Err(EngineError::InputNotFinite {
                what: "the latent",
                bad,
                all: values.len(),
            });
        }
        let given = match self.noise {
            Noise::Given(noise) => noise.len(),
            Noise::SeededAt(places) => places.len() * LatentShape::of(self.latent).item_len(),
            Noise::Seeded | Noise::None => values.len(),
        };
        if given != values.len() {
            return Err(EngineError::NoiseLength {
                expected: values.len(),
                found: given,
            });
        }
        let rises = |w: &&[f32]| w[0].is_nan() || w[1].is_nan() || w[1] > w[0];
        let rising = self.sigmas.windows(2).find(rises);
        match (rising, self.sigmas) {
            (Some(&[a, b]), _) => Err(EngineError::Sigmas { first: a, then: b }),
            (None, [one]) if !one.is_finite() => Err(EngineError::Sigmas {
                first: *one,
                then: *one,
            }),
            _ => Ok(()),
        }
    }
}
