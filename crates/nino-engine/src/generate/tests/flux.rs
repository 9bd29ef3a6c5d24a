//! Small Flux.1 and Chroma checkpoints against ComfyUI: conditioning, then whole paths.

use super::comfy::{Case, NEGATIVE, PROMPT, control, planes};
use crate::generate::{GenerateRequest, encode_prompts};
use crate::tests::made;
use crate::{
    Conditioning, DiffusionModel, Family, Latent, LatentSize, Mask, ModelSampling, Noise,
    SampleRequest, Seen, Store, sample, sigmas,
};
use nino_dtype::DType;
use nino_gpu::{Adapters, Gpu, GpuDevice};
use nino_graph::Device;
use nino_sample::{Sampler, Scheduler};
use std::sync::Arc;

/// The tensors of a model. Wide ones have the small VAE, which goldens do not need.
fn list(model: &str) -> String {
    let small = made::list("tiny_flux");
    let vae = small.lines().filter(|line| line.starts_with("vae."));
    let vae = vae.filter(|_| model.starts_with("wide_"));
    vae.fold(made::list(model), |all, line| all + line + "\n")
}

/// The list of a guided model without its guidance: schnell.
fn unguided(model: &str) -> String {
    let list = list(model);
    let kept = list.lines().filter(|line| !line.contains("guidance_in"));
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// Every path of a golden file, which says in its name how it came about.
fn check_paths(case: &Case, cfg: f32) {
    let (prompts, _) = case.text(&case.request(PROMPT));
    let keys = case.keys("latent/");
    assert!(keys.len() >= 4, "{keys:?}");
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
}

fn check_layers(case: &Case) {
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
    check_layers(&case);
    check_paths(&case, 1.0);
}

#[test]
fn schnell_makes_what_comfyui_makes() {
    let case = Case::of("tiny_schnell", Family::Flux, &unguided("tiny_flux"));
    assert_eq!(case.model.defaults().steps, 4);
    check_paths(&case, 1.0);
}

/// Its prompts have as many tokens as they have, and are not repeated to one length.
#[test]
fn chroma_makes_what_comfyui_makes() {
    let case = Case::new("tiny_chroma", Family::Chroma);
    assert_eq!(case.model.defaults().scheduler, "beta");
    check_texts(&case);
    check_layers(&case);
    check_paths(&case, 3.5);
}

/// Canny and Depth see a picture beside the noise, Fill one with a mask of its pixels.
#[test]
fn flux_that_sees_a_picture_makes_what_comfyui_makes() {
    let wider = |columns| widened("tiny_flux", 256, columns);
    check_seen(&Case::of("tiny_control", Family::Flux, &wider(128)), false);
    check_seen(&Case::of("tiny_fill", Family::Flux, &wider(384)), true);
}

/// The list of a model whose first layer takes so many columns.
fn widened(model: &str, width: usize, columns: usize) -> String {
    let first = format!("model.diffusion_model.img_in.weight {width}x");
    list(model).replace(&format!("{first}64"), &format!("{first}{columns}"))
}

fn check_seen(case: &Case, paints: bool) {
    assert_eq!(case.model.diffusion.paints_over(), paints);
    assert_eq!(case.model.diffusion.edits(), !paints);
    assert_eq!(case.model.defaults().guidance, Some(30.0));
    // ComfyUI's number where a prompt has none, in place of the model's own.
    let (prompts, _) = case.text(&GenerateRequest {
        guidance: None,
        ..case.request(PROMPT)
    });
    let mask = paints.then(|| Mask {
        width: 64,
        height: 48,
        values: case.golden("mask"),
    });
    let latent = latent(&case.golden("seen"), 6, 8);
    let seen = Arc::new(Seen { latent, mask });
    let shown = prompts.positive.clone().with_seen(Some(seen));
    let keys = case.keys("latent/").into_iter().chain(case.keys("blind/"));
    let mut checked = 0;
    for key in keys {
        let parts: Vec<&str> = key.split('/').collect();
        let [what, sampler, scheduler] = parts[..] else {
            panic!("{key}")
        };
        let request = GenerateRequest {
            sampler: Sampler::find(sampler).unwrap(),
            scheduler: Scheduler::find(scheduler).unwrap(),
            ..case.request(PROMPT)
        };
        let prompt = if what == "blind" {
            &prompts.positive
        } else {
            &shown
        };
        case.close(
            &key,
            &sampled(case, &case.model.diffusion, &request, prompt),
        );
        checked += 1;
    }
    assert_eq!(checked, 5);
}

/// Kontext, which has dev's tensors, looks at one picture or two.
#[test]
fn kontext_makes_what_comfyui_makes() {
    check_references(&Case::new("tiny_flux", Family::Flux));
}

fn check_references(case: &Case) {
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
        case.close(
            &key,
            &sampled(case, &case.model.diffusion, &request, &prompts.positive),
        );
    }
}

/// Models of the published widths with two blocks of each kind: see `goldens/generate/flux.py`.
#[test]
#[ignore = "makes 3 GB of weights and takes minutes"]
fn wide_flux_makes_what_comfyui_makes() {
    let case = Case::of("wide_flux", Family::Flux, &list("wide_flux"));
    check_texts(&case);
    check_paths(&case, 1.0);
    check_references(&case);
}

#[test]
#[ignore = "makes 3 GB of weights and takes minutes"]
fn wide_schnell_makes_what_comfyui_makes() {
    let case = Case::of("wide_schnell", Family::Flux, &unguided("wide_flux"));
    check_paths(&case, 1.0);
}

#[test]
#[ignore = "makes 3 GB of weights and takes minutes"]
fn wide_flux_that_sees_a_picture_makes_what_comfyui_makes() {
    let wider = |columns| widened("wide_flux", 3072, columns);
    check_seen(&Case::of("wide_control", Family::Flux, &wider(128)), false);
    check_seen(&Case::of("wide_fill", Family::Flux, &wider(384)), true);
}

#[test]
#[ignore = "makes 3 GB of weights and takes minutes"]
fn wide_chroma_makes_what_comfyui_makes() {
    let case = Case::of("wide_chroma", Family::Chroma, &list("wide_chroma"));
    check_texts(&case);
    check_paths(&case, 3.5);
}

/// Text and steps on every GPU of this machine, in its own precision, against f32 on the CPU.
#[test]
fn gpu_flux_is_near_the_cpu() {
    let adapters = Adapters::enumerate();
    nino_testing::gpu_or_skip(adapters.reason.as_deref());
    let case = Case::new("tiny_flux", Family::Flux);
    let request = GenerateRequest {
        sampler: Sampler::find("euler").unwrap(),
        scheduler: Scheduler::find("simple").unwrap(),
        steps: 2,
        cfg: 1.0,
        ..case.request("a red fox")
    };
    let made = |store: &Store| {
        let (prompts, _) = control(|c| encode_prompts(store, &case.model, &request, c));
        super::comfy::sampled(store, &case.model, &request, &prompts)
    };
    let expected = made(&case.store);
    for gpu in Gpu::open_all(&adapters, None).unwrap() {
        let (name, gpu) = (gpu.info.name.clone(), GpuDevice::new(gpu));
        let limit = match gpu.activation_dtype() {
            DType::F32 => 1e-8,
            _ => 2e-6,
        };
        let found = made(&Store::new(Arc::new(gpu)));
        let square = |v: f32| f64::from(v) * f64::from(v);
        let pairs = found.iter().zip(&expected);
        let error: f64 = pairs.map(|(f, e)| square(f - e)).sum();
        let nmse = error / expected.iter().map(|&e| square(e)).sum::<f64>();
        println!("{name}: NMSE {nmse:.1e}");
        assert!(nmse <= limit, "{name}: NMSE {nmse:.1e}");
    }
}

/// The latent that one prompt gives, which may have a picture to see.
pub(super) fn sampled(
    case: &Case,
    model: &DiffusionModel,
    request: &GenerateRequest,
    prompt: &Conditioning,
) -> Vec<f32> {
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
        third: None,
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
        beside: 0,
        memory: None,
    };
    let (sampled, _) = control(|c| Ok(sample(&case.store, model, &run, c)?));
    planes(&sampled.latent)
}

/// Planes of 16 channels as a latent in the VAE's units.
pub(super) fn latent(planes: &[f32], height: usize, width: usize) -> Latent {
    let (channels, pixels) = (16, height * width);
    let at = |i: usize| planes[i % channels * pixels + i / channels];
    Latent {
        values: (0..planes.len()).map(at).collect(),
        ..Latent::empty(1, channels, LatentSize::picture(height, width))
    }
}
