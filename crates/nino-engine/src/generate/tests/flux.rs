//! Small Flux.1 and Chroma checkpoints against ComfyUI: conditioning, then whole paths.

use super::comfy::{Case, NEGATIVE, PROMPT, control, planes};
use crate::generate::GenerateRequest;
use crate::tests::made;
use crate::{
    Conditioning, Family, Latent, LatentSize, Mask, ModelSampling, Noise, SampleRequest, Seen,
    sample, sigmas,
};
use nino_sample::{Sampler, Scheduler};
use std::sync::Arc;

/// The list of the guided model without its guidance: schnell.
fn unguided() -> String {
    let list = made::list("tiny_flux");
    let kept = list.lines().filter(|line| !line.contains("guidance_in"));
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// Every path of a golden file, which says in its name how it came about.
fn check_paths(case: &Case, cfg: f32) {
    let (prompts, _) = case.text(&case.request(PROMPT));
    let keys = case.keys("latent/");
    assert!(keys.len() >= 6, "{keys:?}");
    for key in keys {
        let parts: Vec<&str> = key.split('/').collect();
        let [_, width, guidance, mu, sampler, scheduler] = parts[..] else {
            panic!("{key}")
        };
        let number = |text: &str| (text != "usual").then(|| text.parse::<f64>().unwrap());
        let request = GenerateRequest {
            sampler: Sampler::find(sampler).unwrap(),
            scheduler: Scheduler::find(scheduler).unwrap(),
            width: width.parse().unwrap(),
            cfg,
            ..case.request(PROMPT)
        };
        let mut prompts = prompts.clone();
        let told = number(guidance).map(|n| n as f32);
        prompts.positive = prompts.positive.with_guidance(told);
        prompts.negative = prompts.negative.with_guidance(told);
        let mut model = case.model.clone();
        if let Some(mu) = number(mu) {
            model.diffusion = model.diffusion.with_sampling(ModelSampling::flux(mu));
        }
        case.close(&key, &case.sampled(&model, &request, &prompts));
    }
}

fn check_texts(case: &Case) {
    let long = "a red fox, ".repeat(60);
    case.check_text([("prompt", PROMPT), ("negative", NEGATIVE)], None);
    case.check_text([("long", &long), ("empty", "")], None);
    for skip in 1..=3 {
        let name = format!("skip-{skip}");
        case.check_text([(&name, NEGATIVE), (&name, NEGATIVE)], Some(skip));
    }
}

#[test]
fn flux_makes_what_comfyui_makes() {
    let case = Case::new("tiny_flux", Family::Flux);
    let defaults = case.model.defaults();
    assert_eq!(
        (defaults.steps, defaults.cfg, defaults.size),
        (20, 1.0, 1024)
    );
    check_texts(&case);
    check_paths(&case, 1.0);
}

#[test]
fn schnell_makes_what_comfyui_makes() {
    let case = Case::of("tiny_schnell", Family::Flux, &unguided());
    assert_eq!(case.model.defaults().steps, 4);
    check_paths(&case, 1.0);
}

/// Its prompts have as many tokens as they have, and are not repeated to one length.
#[test]
fn chroma_makes_what_comfyui_makes() {
    let case = Case::new("tiny_chroma", Family::Chroma);
    assert_eq!(case.model.defaults().scheduler, "beta");
    check_texts(&case);
    check_paths(&case, 3.5);
}

/// Canny and Depth see a picture beside the noise, Fill one with a mask of its pixels.
#[test]
fn flux_that_sees_a_picture_makes_what_comfyui_makes() {
    let first = "model.diffusion_model.img_in.weight 256x";
    for (name, columns) in [("tiny_control", 128), ("tiny_fill", 384)] {
        let list = made::list("tiny_flux");
        let list = list.replace(&format!("{first}64"), &format!("{first}{columns}"));
        let case = Case::of(name, Family::Flux, &list);
        let paints = name == "tiny_fill";
        assert_eq!(case.model.diffusion.paints_over(), paints);
        assert_eq!(case.model.diffusion.edits(), !paints);
        assert_eq!(case.model.defaults().guidance, Some(30.0));
        let request = GenerateRequest {
            cfg: 1.0,
            guidance: None,
            sampler: Sampler::find("euler").unwrap(),
            scheduler: Scheduler::find("normal").unwrap(),
            ..case.request(PROMPT)
        };
        let (mut prompts, _) = case.text(&request);
        case.close("blind", &sampled(&case, &request, &prompts.positive));
        let mask = paints.then(|| Mask {
            width: 64,
            height: 48,
            values: case.golden("mask"),
        });
        let latent = latent(&case.golden("seen"), 6, 8);
        let seen = Arc::new(Seen { latent, mask });
        prompts.positive = prompts.positive.with_seen(Some(seen));
        case.close("latent", &sampled(&case, &request, &prompts.positive));
    }
}

/// Kontext, which has dev's tensors, looks at one picture or two.
#[test]
fn kontext_makes_what_comfyui_makes() {
    let case = Case::new("tiny_flux", Family::Flux);
    let request = GenerateRequest {
        sampler: Sampler::find("euler").unwrap(),
        scheduler: Scheduler::find("simple").unwrap(),
        ..case.request(PROMPT)
    };
    let (mut prompts, _) = case.text(&request);
    for (i, (height, width)) in [(6, 4), (5, 8)].into_iter().enumerate() {
        let planes = case.golden(&format!("reference/{i}"));
        let reference = Arc::new(latent(&planes, height, width));
        prompts.positive = prompts.positive.with_reference(reference);
        let key = format!("references/{}", i + 1);
        case.close(&key, &sampled(&case, &request, &prompts.positive));
    }
}

/// The latent that one prompt gives, which may have a picture to see.
fn sampled(case: &Case, request: &GenerateRequest, prompt: &Conditioning) -> Vec<f32> {
    let model = &case.model.diffusion;
    let levels = sigmas(
        model,
        request.sampler,
        request.scheduler,
        request.steps,
        1.0,
    );
    let run = SampleRequest {
        positive: std::slice::from_ref(prompt),
        negative: &[],
        latent: &Latent::empty(
            1,
            16,
            LatentSize::picture(request.height / 8, request.width / 8),
        ),
        noise: Noise::Seeded,
        mask: None,
        frame_mask: &[],
        sigmas: &levels.unwrap(),
        sampler: request.sampler,
        options: &request.options,
        seed: request.seed,
        cfg: 1.0,
        precision: request.precision,
        preview: None,
        memory: None,
    };
    let (sampled, _) = control(|c| Ok(sample(&case.store, model, &run, c)?));
    planes(&sampled.latent)
}

/// Planes of 16 channels as a latent in the VAE's units.
fn latent(planes: &[f32], height: usize, width: usize) -> Latent {
    let (channels, pixels) = (16, height * width);
    let at = |i: usize| planes[i % channels * pixels + i / channels];
    Latent {
        values: (0..planes.len()).map(at).collect(),
        ..Latent::empty(1, channels, LatentSize::picture(height, width))
    }
}
