//! Small Flux.2 dev checkpoints against ComfyUI: conditioning, then whole paths.

use super::comfy::{Case, NEGATIVE, PROMPT, control, planes};
use super::klein::latent;
use crate::tests::lists;
use crate::{Conditioning, Family, Latent, LatentSize, Noise, SampleRequest, sample, sigmas};
use nino_sample::{Sampler, Scheduler};
use std::sync::Arc;

const CHANNELS: usize = 128;
/// Rows and columns of the latent: 48 by 64 pixels.
const SIZE: [usize; 2] = [3, 4];

#[test]
fn flux2_dev_makes_what_comfyui_makes() {
    let case = Case::new("tiny_flux2", Family::Flux2);
    let defaults = case.model.defaults();
    assert_eq!((defaults.steps, defaults.guidance), (20, Some(4.0)));
    case.check_text([("prompt", PROMPT), ("negative", NEGATIVE)], None);
    case.check_text([("empty", ""), ("empty", "")], None);
    let (prompts, _) = case.text(&case.request(PROMPT));
    check_paths(&case, &prompts.positive);
}

/// Dev's widths with one block of each kind: see `goldens/generate/flux2.py`.
#[test]
#[ignore = "makes 5 GB of weights and takes minutes"]
fn wide_flux2_dev_makes_what_comfyui_makes() {
    let list = lists::wide_list("wide_flux2", "tiny_flux2", 5120);
    let case = Case::of("wide_flux2", Family::Flux2, &list);
    let context = case.golden("context");
    let prompt = Conditioning {
        width: context.len() / 8,
        context: context.into(),
        ..Conditioning::default()
    };
    check_paths(&case, &prompt);
}

/// Every path of the golden file for this prompt.
fn check_paths(case: &Case, prompt: &Conditioning) {
    let keys = case.keys("latent/");
    assert!(!keys.is_empty());
    for key in keys {
        let guidance = key.rsplit('/').next().unwrap().parse().unwrap();
        case.close(&key, &sampled(case, &prompt.with_guidance(Some(guidance))));
    }
    if case.keys("references/").is_empty() {
        return;
    }
    let reference = latent(&case.golden("reference/0"), 3, 2);
    let looking = prompt
        .with_guidance(Some(4.0))
        .with_reference(Arc::new(reference));
    case.close("references/1", &sampled(case, &looking));
}

fn sampled(case: &Case, prompt: &Conditioning) -> Vec<f32> {
    let (model, [height, width]) = (&case.model.diffusion, SIZE);
    let request = case.request(PROMPT);
    let sampler = Sampler::find("euler").unwrap();
    let scheduler = Scheduler::find("simple").unwrap();
    let levels = sigmas(model, sampler, scheduler, request.steps, 1.0).unwrap();
    let run = SampleRequest {
        positive: std::slice::from_ref(prompt),
        negative: std::slice::from_ref(prompt),
        third: None,
        latent: &Latent::empty(1, CHANNELS, LatentSize::picture(height, width)),
        noise: Noise::Seeded,
        mask: None,
        frame_mask: &[],
        sigmas: &levels,
        sampler,
        options: &request.options,
        seed: request.seed,
        cfg: 1.0,
        precision: request.precision,
        preview: None,
        beside: 0,
        memory: None,
    };
    let (sampled, _) = control(|c| Ok(sample(&case.store, model, &run, c)?));
    planes(&sampled.latent)
}
