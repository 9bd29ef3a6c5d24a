//! Text to pictures in one call: a composition of the stages `encode_text`, `encode`, `sample` and
//! `decode`. The models come to the device one after the other, so that the largest of them is what
//! memory has to hold.

mod dry;
mod passes;
mod plan;
mod request;
mod start;
mod stopped;
#[cfg(test)]
pub(crate) mod tests;

use crate::ahead::ReadAhead;
use crate::decode::{self, DecodeOptions, Decoded, decode, plan_decode};
use crate::text::{encode_beside, encode_seen, pictures_before};
use crate::{
    Checkpoint, Conditioning, Control, EngineError, Family, Image, Latent, Mask, Picture,
    ReferenceMethod, Store, TextEncoders,
};
use nino_text::IMAGE;
use passes::Passes;
pub use plan::{GeneratePlan, Residency, StagePlan, largest_batch, plan_generate, plan_work};
pub use request::{Fill, GenerateRequest, Hires, Inpaint, Start};
use start::Canvas;
use std::time::{Duration, Instant};
pub use stopped::{GoOn, Stopped};

/// Pictures, and how they came about.
#[derive(Debug)]
pub struct Generated {
    pub pictures: Vec<Picture>,
    pub decoded: Decoded,
    /// The most weights and activations that were on the device at once.
    pub peak_bytes: usize,
    /// What the most at once is more with the latents and pictures in host memory.
    pub beside_bytes: usize,
    pub text_time: Duration,
    pub load_time: Duration,
    pub sample_time: Duration,
}

/// A latent that took long to make.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// The latent to be decoded: sampled, or the picture a stopped run had come to.
    pub latent: &'a Latent,
    pub stopped: Option<&'a Stopped>,
}

/// Hears the latent before it is decoded, or before an error in the midst of sampling is told, so
/// that no sampling is ever lost.
pub type OnLatent<'a> = dyn FnMut(Kept<'_>) -> Result<(), EngineError> + 'a;

/// Makes the pictures of a request.
pub fn generate(
    store: &Store,
    model: &Checkpoint,
    request: &GenerateRequest,
    control: &mut Control<'_>,
    on_latent: &mut OnLatent<'_>,
) -> Result<Generated, EngineError> {
    // Where text is encoded elsewhere, this device's weights are read from the file meanwhile.
    let mut ahead = store
        .other_for_text()
        .and_then(|_| ReadAhead::begin(&model.text.paths(), &model.diffusion.paths()));
    let run = |ready: &Ready<'_>, control: &mut Control<'_>| {
        drop(ahead.take());
        let pasted = pasted(request, ready.canvas.mask.as_ref());
        let sampled = ready.passes.run(&ready.canvas, control, on_latent)?;
        on_latent(Kept {
            latent: &sampled.latent,
            stopped: None,
        })?;

        let mut pictures = Vec::new();
        let decoded = decode(
            store,
            &model.vae,
            &sampled.latent,
            &ready.decode,
            control,
            &mut |_, _, picture| {
                pictures.push(match &pasted {
                    Some((original, mask)) => picture.painted_over(original, mask),
                    None => picture,
                });
                Ok(())
            },
        )?;
        let used = store.usage();
        Ok(Generated {
            pictures,
            peak_bytes: used.peak_bytes,
            beside_bytes: used.peak_bytes_with_host - used.peak_bytes,
            decoded,
            text_time: ready.text_time,
            load_time: sampled.load_time,
            sample_time: sampled.sample_time,
        })
    };
    with_plans(store, model, request, control, run)
}

/// Goes through a request on a device that computes nothing.
fn rehearse(
    store: &Store,
    model: &Checkpoint,
    request: &GenerateRequest,
    control: &mut Control<'_>,
) -> Result<(), EngineError> {
    let run = |ready: &Ready<'_>, control: &mut Control<'_>| {
        ready.passes.rehearse(control)?;
        let latents = (request.latent_size(model), request.batch);
        decode::rehearse(store, &model.vae, latents, &ready.decode, control)
    };
    with_plans(store, model, request, control, run)
}

/// A request of which every stage is known to fit.
struct Ready<'a> {
    passes: Passes<'a>,
    canvas: Canvas,
    decode: DecodeOptions,
    text_time: Duration,
}

/// Checks a request, encodes its prompts, plans its stages, encodes its picture, and runs the rest.
fn with_plans<T>(
    store: &Store,
    model: &Checkpoint,
    request: &GenerateRequest,
    control: &mut Control<'_>,
    run: impl FnOnce(&Ready<'_>, &mut Control<'_>) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    store.reset_peak();
    request.check(model)?;
    let decode = DecodeOptions {
        format: model.latent_format(),
        beside: request.beside_decode(),
        ..request.decode
    };
    // A decode that does not fit is told before anything runs.
    plan_decode(store, &model.vae, request.latent_size(model), &decode)?;

    let started = Instant::now();
    let mut prompts = encode_prompts(store, model, request, control)?;
    for style in &request.styles {
        prompts.positive = style.behind(store, &prompts.positive, control)?;
    }
    let text_time = started.elapsed();
    let references = start::references(store, model, request, control)?;
    for prompt in [&mut prompts.positive, &mut prompts.negative] {
        prompt.references.clone_from(&references);
        if model.family() == Family::Krea2 {
            // It was not trained to look at pictures. LoRAs teach it to, at pictures without noise.
            prompt.places = Some(ReferenceMethod::IndexTimestepZero);
        }
    }

    let ready = Ready {
        passes: Passes::plan(store, model, request, &prompts)?,
        canvas: start::prepare(store, model, request, control)?,
        decode,
        text_time,
    };
    run(&ready, control)
}

/// The prompt and the negative prompt, encoded.
#[derive(Clone)]
struct Prompts {
    positive: Conditioning,
    negative: Conditioning,
}

/// The text encoders as the request wants them.
fn text_of(model: &Checkpoint, request: &GenerateRequest) -> TextEncoders {
    let text = model.text.with_clip_skip(request.clip_skip);
    text.with_precision(request.precision)
}

fn encode_prompts(
    store: &Store,
    model: &Checkpoint,
    request: &GenerateRequest,
    control: &mut Control<'_>,
) -> Result<Prompts, EngineError> {
    let text = text_of(model, request);
    let prompts = [&request.prompt[..], &request.negative];
    let (embeddings, held) = (&request.embeddings, request.held_bytes());
    let speaks = matches!(model.family(), Family::QwenImage | Family::Krea2);
    let encoded = if speaks && !request.references.is_empty() {
        seen_prompts(store, model, request, control)?
    } else {
        encode_beside(store, &text, &prompts, embeddings, held, control)?
    };
    let mut encoded = encoded.into_iter().map(|c| {
        let told = c.with_size(request.size_hint);
        Conditioning {
            hints: request.hints.clone(),
            ..told.with_guidance(request.guidance)
        }
    });
    let (positive, negative) = (encoded.next(), encoded.next());
    let negative = negative.unwrap_or_default();
    Ok(Prompts {
        positive: positive.unwrap_or_default(),
        negative: if request.zero_negative {
            negative.zeroed()
        } else {
            negative
        },
    })
}

/// Pixels of a picture that is spoken about by number, and of the only one.
const SEEN_PIXELS: usize = 384 * 384;
const ONLY_PIXELS: usize = 1024 * 1024;

/// The prompts of a model that edits, which speak about the pictures to look at. The first such
/// model was trained on one picture without a number.
fn seen_prompts(
    store: &Store,
    model: &Checkpoint,
    request: &GenerateRequest,
    control: &mut Control<'_>,
) -> Result<Vec<Conditioning>, EngineError> {
    let text = text_of(model, request);
    let numbered = model.diffusion.numbers_pictures() || request.references.len() > 1;
    let (pixels, before) = if numbered {
        (SEEN_PIXELS, pictures_before(request.references.len()))
    } else {
        (ONLY_PIXELS, IMAGE.to_owned())
    };
    let looked_at = request.references.iter();
    let images: Vec<Image> = looked_at
        .map(|picture| Image::from(picture).of_pixels(pixels, 1))
        .collect();
    let prompts = [&request.prompt, &request.negative].into_iter();
    prompts
        .map(|prompt| {
            let whole = format!("{before}{prompt}");
            encode_seen(store, &text, &whole, &images, &request.embeddings, control)
        })
        .collect()
}

/// The start picture at the final size and the mask outside of which it shows, where that was asked
/// for.
fn pasted(request: &GenerateRequest, mask: Option<&Mask>) -> Option<(Picture, Mask)> {
    let Start::Picture(picture) = &request.start else {
        return None;
    };
    request.inpaint.as_ref().filter(|i| i.paste)?;
    let (width, height) = request.final_size();
    Some((picture.fitted(width, height), mask?.resized(width, height)))
}
