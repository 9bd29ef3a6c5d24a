//! Small Flux.2 klein checkpoints against ComfyUI: conditioning, noise levels, then whole paths.

use super::comfy::{Case, NEGATIVE, PROMPT, control, planes};
use crate::generate::GenerateRequest;
use crate::tests::lists;
use crate::{
    Checkpoint, Conditioning, Family, Latent, LatentSize, Noise, SampleRequest, sample, sigmas,
};
use nino_sample::{Sampler, Scheduler, schedule};
use std::sync::Arc;

const CHANNELS: usize = 128;
/// Rows and columns of the latent: 48 by 64 pixels.
const SIZE: [usize; 2] = [3, 4];

/// Every path of the golden file for these prompts.
fn check_paths(case: &Case, positive: &Conditioning, negative: &Conditioning) {
    let keys = case.keys("latent/");
    assert!(keys.len() >= 2, "{keys:?}");
    for key in keys {
        let parts: Vec<&str> = key.split('/').collect();
        let [_, cfg, sampler, scheduler] = parts[..] else {
            panic!("{key}")
        };
        let path = Path {
            sampler,
            scheduler,
            cfg: cfg.parse().unwrap(),
        };
        case.close(&key, &sampled(case, positive, negative, &path));
    }
    let mut looking = positive.clone();
    for (i, (height, width)) in [(3, 2), (2, 5)].into_iter().enumerate() {
        let planes = case.golden(&format!("reference/{i}"));
        looking = looking.with_reference(Arc::new(latent(&planes, height, width)));
        let path = Path {
            sampler: "euler",
            scheduler: "simple",
            cfg: 1.0,
        };
        let key = format!("references/{}", i + 1);
        case.close(&key, &sampled(case, &looking, negative, &path));
    }
}

#[test]
fn klein_makes_what_comfyui_makes() {
    let case = Case::new("tiny_klein", Family::Klein);
    let defaults = case.model.defaults();
    assert_eq!((defaults.steps, defaults.size), (4, 1024));
    case.check_text([("prompt", PROMPT), ("negative", NEGATIVE)], None);
    case.check_text([("empty", ""), ("empty", "")], None);
    let (prompts, _) = case.text(&case.request(PROMPT));
    check_paths(&case, &prompts.positive, &prompts.negative);
}

/// What the model saw of other latents in the first step stays for the others, which makes another
/// picture than looking anew: see `goldens/generate/patches.py`.
#[test]
fn klein_keeps_what_it_saw_as_in_comfyui() {
    let mut case = Case::new("tiny_klein", Family::Klein);
    let references = [(3, 2), (2, 5)].into_iter().enumerate();
    let references: Vec<Arc<Latent>> = references
        .map(|(i, (height, width))| {
            let planes = case.golden(&format!("reference/{i}"));
            Arc::new(latent(&planes, height, width))
        })
        .collect();
    let (prompts, _) = case.text(&case.request(PROMPT));
    case = case.judged_by("patches");
    case.model.diffusion = case.model.diffusion.with_kept_references().unwrap();
    for (name, n, cfg) in [("one", 1, 1.0), ("two", 2, 1.0), ("guided", 2, 3.0)] {
        let looking = |prompt: &Conditioning| {
            let all = references[..n].iter().cloned();
            all.fold(prompt.clone(), |p, latent| p.with_reference(latent))
        };
        let [positive, negative] = [&prompts.positive, &prompts.negative].map(looking);
        let path = Path {
            sampler: "euler",
            scheduler: "simple",
            cfg,
        };
        let found = sampled(&case, &positive, &negative, &path);
        case.close(&format!("kept/{name}"), &found);
        // Once more, with what the store has kept of the run before.
        assert_eq!(found, sampled(&case, &positive, &negative, &path));
    }
    let other = Checkpoint::spec("flux1-dev").unwrap().diffusion;
    assert!(other.with_kept_references().is_err());
}

/// One encoder on one store for two families, which prompt it differently.
#[test]
fn a_prompt_of_klein_is_not_taken_for_z_images() {
    let case = Case::new("tiny_klein", Family::Klein);
    let other = case.model.text.for_family(Family::ZImage).unwrap();
    let encoded = |text: &crate::TextEncoders| {
        control(|c| crate::encode_text(&case.store, text, "a fox", &[], c)).0
    };
    let [klein, z_image] = [encoded(&case.model.text), encoded(&other)];
    assert_eq!(klein.width, 3 * z_image.width);
    assert!(klein.tokens() > z_image.tokens());
}

#[test]
fn noise_levels_of_flux2_are_comfyuis() {
    let case = Case::new("tiny_klein", Family::Klein);
    let keys = case.keys("sigmas/");
    assert_eq!(keys.len(), 5);
    for key in keys {
        let numbers = key.split('/').skip(1).map(|n| n.parse().unwrap());
        let numbers: Vec<usize> = numbers.collect();
        let [width, height, steps] = numbers[..] else {
            panic!("{key}")
        };
        let found = schedule::flux2(width * height / 256, steps);
        let expected = case.golden(&key);
        assert_eq!(found.len(), expected.len());
        for (f, e) in found.iter().zip(&expected) {
            assert!((f - e).abs() <= 1e-6, "{key}: {f} for {e}");
        }
        // What generate takes: the same levels, through the shift of the model's own.
        let request = GenerateRequest {
            steps,
            width,
            height,
            ..case.request(PROMPT)
        };
        let model = request.levels(&case.model);
        let own = Scheduler::find("simple").unwrap();
        let own = own.sigmas(&model.sampling, steps).unwrap();
        for (f, e) in own.iter().zip(&expected) {
            assert!((f - e).abs() <= 1e-3, "{key}: {f} for {e}");
        }
    }
}

/// Klein 4B's widths with two blocks of each kind: see `goldens/generate/klein.py`.
#[test]
#[ignore = "makes 2 GB of weights and takes minutes"]
fn wide_klein_makes_what_comfyui_makes() {
    let list = lists::wide_list("wide_klein", "tiny_klein", 2560);
    let case = Case::of("wide_klein", Family::Klein, &list);
    let context = case.golden("context").repeat(32);
    let prompt = Conditioning {
        width: context.len() / 512,
        context: context.into(),
        ..Conditioning::default()
    };
    check_paths(&case, &prompt, &prompt);
}

/// How a path is sampled.
struct Path<'a> {
    sampler: &'a str,
    /// `flux2` are the levels of ComfyUI's `Flux2Scheduler`.
    scheduler: &'a str,
    cfg: f32,
}

fn sampled(
    case: &Case,
    positive: &Conditioning,
    negative: &Conditioning,
    path: &Path<'_>,
) -> Vec<f32> {
    let (model, [height, width]) = (&case.model.diffusion, SIZE);
    let request = case.request(PROMPT);
    let sampler = Sampler::find(path.sampler).unwrap();
    let levels = match path.scheduler {
        "flux2" => schedule::flux2(height * width, request.steps),
        name => {
            let scheduler = Scheduler::find(name).unwrap();
            sigmas(model, sampler, scheduler, request.steps, 1.0).unwrap()
        }
    };
    let run = SampleRequest {
        positive: std::slice::from_ref(positive),
        negative: std::slice::from_ref(negative),
        third: None,
        latent: &Latent::empty(1, CHANNELS, LatentSize::picture(height, width)),
        noise: Noise::Seeded,
        mask: None,
        frame_mask: &[],
        sigmas: &levels,
        sampler,
        options: &request.options,
        seed: request.seed,
        cfg: path.cfg,
        precision: request.precision,
        preview: None,
        beside: 0,
        memory: None,
    };
    let (sampled, _) = control(|c| Ok(sample(&case.store, model, &run, c)?));
    planes(&sampled.latent)
}

/// Planes as a latent in the VAE's units.
pub(super) fn latent(planes: &[f32], height: usize, width: usize) -> Latent {
    let pixels = height * width;
    let at = |i: usize| planes[i % CHANNELS * pixels + i / CHANNELS];
    Latent {
        values: (0..planes.len()).map(at).collect(),
        ..Latent::empty(1, CHANNELS, LatentSize::picture(height, width))
    }
}
