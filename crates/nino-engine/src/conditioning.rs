//! What a prompt becomes: the values that condition a diffusion model. ComfyUI's CONDITIONING.
//!
//! Sizes are never part of the encoded text. They are added when a latent of some size is sampled,
//! so one encoded prompt serves pictures of every size.

mod camera;
mod clip;
mod lotus;
mod region;
mod sound;
mod unclip;

pub use camera::{CameraMove, CameraPath, Lens};
pub use clip::{ClipHints, Followed, ImageStates, SeenFrames};
pub use region::{Area, Region};
pub use sound::{AudioStates, SoundHints};
pub use unclip::Unclip;

use crate::sample::{LatentShape, SampleRequest};
use crate::{DiffusionModel, EngineError, Hint, Latent, Mask, Upscale};
use nino_models::flux::ReferenceMethod;
use nino_models::{Denoiser, Family, VectorCond};
use nino_sample::Seed;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// An encoded prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditioning {
    /// `[tokens, width]`. Shared by clones, which every stage makes: Flux.2's is 16 MB.
    pub context: Arc<Vec<f32>>,
    /// Values of one token.
    pub width: usize,
    /// The same words in T5's vocabulary with their weights, by which Anima asks for the context;
    /// empty for other families.
    pub queries: Vec<(u32, f32)>,
    /// The prompt as one vector; empty for families that have none.
    pub pooled: Vec<f32>,
    /// Pictures whose vectors stand in the place of SDXL's pooled one.
    pub unclip: Vec<Unclip>,
    /// What SDXL is told of the picture's size.
    pub size: SizeHint,
    /// What Flux is told of the guidance; its own when `None`. ComfyUI's `FluxGuidance`.
    pub guidance: Option<f32>,
    /// Whether Flux is told nothing of the guidance. ComfyUI's `FluxDisableGuidance`.
    pub unguided: bool,
    /// What an inpaint or editing model sees beside the noise.
    pub seen: Option<Arc<Seen>>,
    /// Latents in the VAE's units that models which edit look at; others do not. ComfyUI's
    /// `ReferenceLatent`.
    pub references: Vec<Arc<Latent>>,
    /// Where Flux.1 has those latents; beside each other when `None`. ComfyUI's
    /// `FluxKontextMultiReferenceLatentMethod`.
    pub places: Option<ReferenceMethod>,
    /// Pictures that steer it through `ControlNet`s, in the order they were applied.
    pub hints: Vec<Arc<Hint>>,
    /// Stretches of its tokens that Flux heeds more or less, and what is added to their scores.
    pub biased: Vec<(Range<usize>, f32)>,
    /// What a video model is shown.
    pub clip: ClipHints,
    /// Where and when the prompt counts.
    pub region: Region,
}

/// A picture that a model sees beside the noise. ComfyUI's `InpaintModelConditioning` and
/// `InstructPixToPixConditioning` put it into the conditioning.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The encoded picture, in the VAE's units: masked where it is to be painted over, or whole to
    /// be edited.
    pub latent: Latent,
    /// 1 where to paint, in pixels or latent pixels; inpaint models only.
    pub mask: Option<Mask>,
}

/// The least number of tokens that Flux.2 sees.
const FLUX2_TOKENS: usize = 512;

/// The encoded values that ComfyUI gives an inpaint model where there is no picture.
pub(crate) const BLANK: [f32; 4] = [0.8223, -0.6876, 0.6364, 0.1380];

/// What SDXL is told of the picture beside the prompt, as ComfyUI's `CLIPTextEncodeSDXL`: pairs are
/// width and height, or left and top.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SizeHint {
    /// The size before it was cut; the picture's own when `None`.
    pub original: Option<(usize, usize)>,
    pub crop: (usize, usize),
    /// The size it is cut to; the original size when `None`.
    pub target: Option<(usize, usize)>,
    /// The refiner's aesthetic score; 6 for a prompt and 2.5 for a negative one when `None`.
    pub score: Option<f32>,
}

impl Conditioning {
    pub fn tokens(&self) -> usize {
        self.context.len() / self.width.max(1)
    }

    /// Zeros in the place of every value, as ComfyUI's `ConditioningZeroOut` makes them.
    #[must_use]
    pub fn zeroed(&self) -> Conditioning {
        Conditioning {
            context: Arc::new(vec![0.0; self.context.len()]),
            pooled: vec![0.0; self.pooled.len()],
            ..self.clone()
        }
    }

    /// The same prompt for a picture of which SDXL is told something else.
    #[must_use]
    pub fn with_size(&self, size: SizeHint) -> Conditioning {
        Conditioning {
            size,
            ..self.clone()
        }
    }

    /// The same prompt for a Flux that is told another guidance.
    #[must_use]
    pub fn with_guidance(&self, guidance: Option<f32>) -> Conditioning {
        Conditioning {
            guidance,
            unguided: false,
            ..self.clone()
        }
    }

    /// The same prompt for a Flux that is told nothing of the guidance.
    #[must_use]
    pub fn without_guidance(&self) -> Conditioning {
        Conditioning {
            unguided: true,
            ..self.with_guidance(None)
        }
    }

    /// The same prompt with one more latent to look at.
    #[must_use]
    pub fn with_reference(&self, latent: Arc<Latent>) -> Conditioning {
        let mut prompt = self.clone();
        prompt.references.push(latent);
        prompt
    }

    /// The same prompt steered by one more picture.
    #[must_use]
    pub fn with_hint(&self, hint: Arc<Hint>) -> Conditioning {
        let mut prompt = self.clone();
        prompt.hints.push(hint);
        prompt
    }

    /// The latents that a model looks at: all of them, or of Wan the last, whose first frame
    /// counts. Krea 2 looks at none unless it is told where they are.
    pub(crate) fn looked_at(&self, model: &DiffusionModel) -> &[Arc<Latent>] {
        match model.net() {
            net if !net.takes_references() => &[],
            Denoiser::Krea2(_) if self.places.is_none() => &[],
            Denoiser::Wan(_) => {
                let last = self.references.len().saturating_sub(1);
                &self.references[last..]
            }
            Denoiser::Anima(_)
            | Denoiser::Unet(_)
            | Denoiser::Flux(_)
            | Denoiser::Flux2(_)
            | Denoiser::Krea2(_)
            | Denoiser::QwenImage(_)
            | Denoiser::ZImage(_) => &self.references,
        }
    }

    /// Rows and columns of the latents that a model looks at.
    pub(crate) fn reference_sizes(&self, model: &DiffusionModel) -> Vec<[usize; 2]> {
        let taken = self.looked_at(model).iter();
        taken.map(|r| [r.height, r.width]).collect()
    }

    /// The same prompt that shows a video model something else.
    #[must_use]
    pub fn with_clip(&self, clip: ClipHints) -> Conditioning {
        Conditioning {
            clip,
            ..self.clone()
        }
    }

    /// Both prompts one after the other, as ComfyUI's `ConditioningConcat`; the first one's vector
    /// counts.
    #[must_use]
    pub fn followed_by(&self, other: &Conditioning) -> Conditioning {
        Conditioning {
            context: Arc::new([&self.context[..], &other.context].concat()),
            ..self.clone()
        }
    }

    /// A mixture with `share` of this prompt, as ComfyUI's `ConditioningAverage`: the shorter
    /// prompt is filled up with zeros or cut to this one's length.
    #[must_use]
    pub fn averaged(&self, other: &Conditioning, share: f32) -> Conditioning {
        let mix = |a: &[f32], b: &[f32]| -> Vec<f32> {
            let b = b.iter().copied().chain(std::iter::repeat(0.0));
            a.iter()
                .zip(b)
                .map(|(a, b)| a * share + b * (1.0 - share))
                .collect()
        };
        let pooled = if self.pooled.is_empty() || other.pooled.is_empty() {
            [&self.pooled[..], &other.pooled].concat()
        } else {
            mix(&self.pooled, &other.pooled)
        };
        Conditioning {
            context: Arc::new(mix(&self.context, &other.context)),
            pooled,
            ..self.clone()
        }
    }

    /// Tokens of the context that a model is given: Flux.2 sees at least so many.
    pub(crate) fn tokens_for(&self, model: &DiffusionModel) -> usize {
        match model.net() {
            Denoiser::Flux2(_) => self.tokens().max(FLUX2_TOKENS),
            _ => self.tokens(),
        }
    }

    /// How many words a model is given to ask with.
    pub(crate) fn queries_for(&self, model: &DiffusionModel) -> usize {
        if model.net().takes_t5_tokens() {
            self.queries.len()
        } else {
            0
        }
    }

    /// The context as the model's input, `[tokens, width]`: repeated to `tokens`, a multiple of its
    /// own. A context that is too short for Flux.2 is padded with zeros in front.
    pub(crate) fn context_for(&self, model: &DiffusionModel, tokens: usize) -> Cow<'_, [f32]> {
        let padding = self.tokens_for(model) - self.tokens();
        let repeats = tokens / self.tokens_for(model).max(1);
        if padding == 0 && repeats == 1 {
            return Cow::Borrowed(&self.context);
        }
        let mut context = vec![0.0; padding * self.width];
        context.extend_from_slice(&self.context);
        Cow::Owned(context.repeat(repeats))
    }

    /// The label vector of a family for a picture of `pixels` (width and height) that is sampled
    /// with a seed; empty where it has none.
    pub(crate) fn label(
        &self,
        family: Family,
        pixels: (usize, usize),
        negative: bool,
        seed: Seed,
    ) -> Vec<f32> {
        let pictures = match family.vector_cond() {
            VectorCond::None => return Vec::new(),
            VectorCond::Pooled => &[],
            VectorCond::Sizes | VectorCond::Score => &self.unclip[..],
        };
        let pooled = unclip::vector(pictures, seed).unwrap_or_else(|| self.pooled.clone());
        let sizes = self.size.numbers(family, pixels, negative);
        let embedded = sizes.into_iter().flat_map(sinusoids);
        pooled.into_iter().chain(embedded).collect()
    }

    /// The same prompt with one more picture that says what to make.
    #[must_use]
    pub fn with_unclip(&self, picture: Unclip) -> Conditioning {
        let mut prompt = self.clone();
        prompt.unclip.push(picture);
        prompt
    }

    /// The same prompt for a model that sees a picture beside the noise.
    #[must_use]
    pub fn with_seen(&self, seen: Option<Arc<Seen>>) -> Conditioning {
        Conditioning {
            seen,
            ..self.clone()
        }
    }

    /// What a model takes beside the latents of a request: `[b, h, w, 5]`, mask and masked picture,
    /// for an inpaint model; `[b, h, w, c]`, the picture, for one that edits; `[b, h, w, 80]`,
    /// masked picture and mask of every pixel, for Flux Fill. An inpaint model that is shown no
    /// picture sees what sampling starts from, where that has a mask; Flux sees zeros.
    pub(crate) fn extra_values(
        &self,
        model: &DiffusionModel,
        request: &SampleRequest<'_>,
    ) -> Vec<f32> {
        if matches!(model.net(), Denoiser::Wan(_)) {
            return self.clip.extra_values(model, request);
        }
        let shape = LatentShape::of(request.latent);
        let pixels = shape.batch * shape.height * shape.width;
        let fitted = |latent: &Latent| {
            let (h, w) = (shape.height, shape.width);
            latent.resized(h, w, Upscale::Bilinear)
        };
        if model.family == Family::Flux {
            // Unlike an empty latent to start from, one that is seen is brought to the model's
            // units.
            let mut latent = match &self.seen {
                Some(seen) => fitted(&seen.latent),
                None => shape.empty(),
            };
            if let Some(format) = model.latent_format() {
                latent.scale_to_model(format);
            }
            let latent = latent.repeated(shape.batch);
            if model.edits() {
                return latent.values;
            }
            let mask = self.seen.as_ref().and_then(|seen| seen.mask.as_ref());
            return with_pixels(&latent, mask.or(request.mask));
        }
        if model.edits() {
            let Some(seen) = &self.seen else {
                return vec![0.0; pixels * shape.channels];
            };
            // Only CosXL was trained on the model's units.
            let scaled = model.family == Family::Sdxl && model.sampling.is_continuous();
            let format = model.latent_format().filter(|_| scaled);
            let seen = fitted(&seen.latent).in_model_units(format);
            return seen.repeated(shape.batch).values;
        }
        let found = match self.seen.as_deref() {
            Some(seen) => seen.mask.as_ref().map(|mask| (&seen.latent, mask)),
            None => request.mask.map(|mask| (request.latent, mask)),
        };
        let Some((latent, mask)) = found else {
            let pixel: Vec<f32> = std::iter::once(1.0).chain(BLANK).collect();
            return pixel.repeat(pixels);
        };
        let masked = fitted(latent).in_model_units(model.latent_format());
        let mask = mask.resized(shape.width, shape.height).rounded();
        interleaved(&mask, &masked.repeated(shape.batch))
    }

    /// An error unless a model that takes contexts of `context` values and labels of `label` can
    /// take this.
    pub(crate) fn check(
        &self,
        family: Family,
        context: usize,
        label: Option<usize>,
    ) -> Result<(), EngineError> {
        let expected = |what, expected, found| EngineError::ConditioningWidth {
            what,
            family: family.name(),
            expected,
            found,
        };
        if self.unguided && family == Family::Chroma {
            let family = family.name();
            return Err(EngineError::NeedsGuidance { family });
        }
        if self.width != context {
            return Err(expected("tokens", context, self.width));
        }
        if self.context.is_empty() || !self.context.len().is_multiple_of(self.width) {
            return Err(EngineError::ConditioningLength {
                width: self.width,
                found: self.context.len(),
            });
        }
        let numbers = self.size.numbers(family, (0, 0), false).len();
        if let Some(label) = label
            && self.pooled.len() + 256 * numbers != label
        {
            let pooled = label.saturating_sub(256 * numbers);
            return Err(expected("a pooled vector", pooled, self.pooled.len()));
        }
        let vectors = self.unclip.iter().flat_map(|picture| &picture.image.whole);
        if let (Some(vector), true) = (
            vectors.into_iter().find(|v| v.len() != self.pooled.len()),
            numbers > 0,
        ) {
            let found = vector.len();
            return Err(expected("an image's vector", self.pooled.len(), found));
        }
        let values = self.context.iter().chain(&self.pooled);
        let bad = values.filter(|v| !v.is_finite()).count();
        if bad > 0 {
            let all = self.context.len() + self.pooled.len();
            return Err(EngineError::InputNotFinite {
                what: "the conditioning",
                bad,
                all,
            });
        }
        Ok(())
    }
}

impl SizeHint {
    /// Original size, crop and target size; the refiner has an aesthetic score instead of the last.
    fn numbers(&self, family: Family, pixels: (usize, usize), negative: bool) -> Vec<f32> {
        let number = |n: usize| n as f32;
        let (w, h) = self.original.unwrap_or(pixels);
        let (target_w, target_h) = self.target.unwrap_or((w, h));
        let (left, top) = self.crop;
        let mut numbers = [h, w, top, left].map(number).to_vec();
        match family.vector_cond() {
            VectorCond::None | VectorCond::Pooled => return Vec::new(),
            VectorCond::Sizes => numbers.extend([target_h, target_w].map(number)),
            VectorCond::Score => {
                let usual = if negative { 2.5 } else { 6.0 };
                numbers.push(self.score.unwrap_or(usual));
            }
        }
        numbers
    }
}

/// 256 values: cosines, then sines, of 128 frequencies from 1 to 1/10000.
fn sinusoids(v: f32) -> impl Iterator<Item = f32> {
    let angle = move |i: usize| v * (-(10_000f32.ln()) * i as f32 / 128.0).exp();
    (0..128)
        .map(move |i| angle(i).cos())
        .chain((0..128).map(move |i| angle(i).sin()))
}

/// The mask before every pixel's channels.
pub(crate) fn interleaved(mask: &Mask, latent: &Latent) -> Vec<f32> {
    let pixels = latent.values.chunks_exact(latent.channels);
    let both = mask.values.iter().cycle().zip(pixels);
    both.flat_map(|(&m, pixel)| std::iter::once(m).chain(pixel.iter().copied()))
        .collect()
}

/// Every pixel's channels, then the mask of the picture's pixels under it.
fn with_pixels(latent: &Latent, mask: Option<&Mask>) -> Vec<f32> {
    let (h, w) = (latent.height, latent.width);
    let mask = mask.map(|mask| mask.resized(8 * w, 8 * h));
    let mut out = Vec::with_capacity(latent.batch * h * w * (latent.channels + 64));
    for (i, pixel) in latent.values.chunks_exact(latent.channels).enumerate() {
        let (y, x) = (i / w % h, i % w);
        out.extend_from_slice(pixel);
        out.extend((0..64).map(|at| {
            let (row, column) = (8 * y + at / 8, 8 * x + at % 8);
            mask.as_ref()
                .map_or(1.0, |m| m.values[row * m.width + column])
        }));
    }
    out
}

/// The length that prompts of `n` and `m` tokens are repeated to: their least common multiple, as
/// ComfyUI does.
pub(crate) fn common_multiple(n: usize, m: usize) -> usize {
    let (mut x, mut y) = (n, m);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    n / x.max(1) * m
}

#[cfg(test)]
mod tests;
