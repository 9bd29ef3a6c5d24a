//! Clips without a video model: pictures in between two prompts and two noises of a model for
//! pictures. Nothing in them moves as in a clip; one picture becomes another.

use crate::decode::{DecodeOptions, OnPicture, decode};
use crate::sample::{Noise, SampleRequest, sample, sigmas};
use crate::text::encode_beside;
use crate::{
    Checkpoint, Conditioning, Control, EngineError, Event, GeneratePlan, Latent, LatentSize,
    Precision, Store, plan_work,
};
use nino_sample::{Options, Sampler, Scheduler, Seed, noise};
use std::sync::atomic::AtomicBool;

/// Pictures to be made in between.
#[derive(Clone, Debug)]
pub struct Between {
    /// What the first picture shows, and the last.
    pub prompts: [String; 2],
    pub negative: String,
    /// The first picture's; the last has the next one.
    pub seed: Seed,
    pub n_pictures: usize,
    pub steps: usize,
    pub cfg: f32,
    pub sampler: &'static Sampler,
    pub scheduler: Scheduler,
    pub width: usize,
    pub height: usize,
    pub precision: Precision,
    /// Bytes of host memory that the caller holds meanwhile, such as pictures that are done.
    pub beside: usize,
}

/// Plans the pictures for a store. An error that a budget is too small names the least budget that
/// all stages fit into.
pub fn plan_between(
    store: &Store,
    model: &Checkpoint,
    request: &Between,
) -> Result<GeneratePlan, EngineError> {
    // All pictures are planned alike, and all steps.
    let one = Between {
        n_pictures: 1,
        ..request.clone()
    };
    plan_work(store, |store| {
        let never = AtomicBool::new(false);
        let mut control = Control {
            cancel: &never,
            on_event: &mut |_| {},
        };
        make_between(store, model, &one, &mut control, &mut |_, _, _| Ok(()))
    })
}

/// Makes the pictures, one after the other, and gives each as it is done.
pub fn make_between(
    store: &Store,
    model: &Checkpoint,
    request: &Between,
    control: &mut Control<'_>,
    on_picture: &mut OnPicture<'_>,
) -> Result<(), EngineError> {
    let [first, last] = &request.prompts;
    let texts = [&first[..], last, &request.negative];
    let held = request.beside;
    let text = model.text.with_precision(request.precision);
    let encoded = encode_beside(store, &text, &texts, &[], held, control)?;
    let mut encoded = encoded.into_iter();
    let mut next = || encoded.next().unwrap_or_default();
    let (first, last, negative): (Conditioning, Conditioning, Conditioning) =
        (next(), next(), next());
    let scale = model.vae.kind.scale();
    let size = LatentSize::picture(request.height / scale, request.width / scale);
    let channels = model.diffusion.net().wants().channels;
    let latent = Latent::empty(1, channels, size);
    let len = latent.values.len();
    let other = Seed {
        value: request.seed.value.wrapping_add(1),
        ..request.seed
    };
    let noises = [request.seed, other].map(|seed| noise::initial(seed, len));
    let model_sampling = &model.diffusion;
    let levels = sigmas(
        model_sampling,
        request.sampler,
        request.scheduler,
        request.steps,
        1.0,
    )?;
    let options = DecodeOptions {
        format: model.latent_format(),
        precision: request.precision,
        beside: request.beside,
        ..DecodeOptions::default()
    };
    for i in 0..request.n_pictures {
        let total = request.n_pictures;
        (control.on_event)(Event::Pass { index: i, total });
        let share = i as f32 / total.saturating_sub(1).max(1) as f32;
        let prompt = first.averaged(&last, 1.0 - share);
        let drawn = slerp(&noises[0], &noises[1], share);
        let run = SampleRequest {
            positive: std::slice::from_ref(&prompt),
            negative: std::slice::from_ref(&negative),
            third: None,
            latent: &latent,
            noise: Noise::Given(&drawn),
            mask: None,
            frame_mask: &[],
            sigmas: &levels,
            sampler: request.sampler,
            options: &Options::default(),
            seed: request.seed,
            cfg: request.cfg,
            precision: request.precision,
            preview: None,
            beside: request.beside,
            memory: None,
        };
        let made = sample(store, &model.diffusion, &run, control)?;
        let mut one = |_, _, picture| on_picture(0, i, picture);
        decode(store, &model.vae, &made.latent, &options, control, &mut one)?;
    }
    Ok(())
}

/// In between two noises, of the same length as they are.
fn slerp(a: &[f32], b: &[f32], share: f32) -> Vec<f32> {
    let length = |v: &[f32]| v.iter().map(|x| x * x).sum::<f32>().sqrt();
    let dot: f32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    let angle = (dot / (length(a) * length(b)).max(f32::MIN_POSITIVE))
        .clamp(-1.0, 1.0)
        .acos();
    let (of_a, of_b) = if angle < 1e-4 {
        (1.0 - share, share)
    } else {
        let part = |share: f32| (share * angle).sin() / angle.sin();
        (part(1.0 - share), part(share))
    };
    a.iter().zip(b).map(|(a, b)| a * of_a + b * of_b).collect()
}
