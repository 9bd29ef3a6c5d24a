//! Small Z-Image checkpoints against ComfyUI: conditioning, then whole paths.

use super::comfy::{Case, NEGATIVE, PROMPT};
use crate::generate::GenerateRequest;
use crate::tests::lists;
use crate::{Family, ModelSampling};
use nino_sample::{Sampler, Scheduler};

fn check_texts(case: &Case) {
    let long = "a red fox, ".repeat(60);
    case.check_text([("prompt", PROMPT), ("negative", NEGATIVE)], None);
    case.check_text([("long", &long), ("empty", "")], None);
}

/// Every path of a golden file, which says in its name how it came about.
fn check_paths(case: &Case) {
    let (prompts, _) = case.text(&case.request(PROMPT));
    let keys = case.keys("latent/");
    assert!(keys.len() >= 2, "{keys:?}");
    for key in keys {
        let parts: Vec<&str> = key.split('/').collect();
        let [_, width, cfg, shift, sampler, scheduler] = parts[..] else {
            panic!("{key}")
        };
        let request = GenerateRequest {
            sampler: Sampler::find(sampler).unwrap(),
            scheduler: Scheduler::find(scheduler).unwrap(),
            width: width.parse().unwrap(),
            cfg: cfg.parse().unwrap(),
            ..case.request(PROMPT)
        };
        let mut model = case.model.clone();
        if let Ok(shift) = shift.parse() {
            let sampling = ModelSampling::flow(shift, 1.0);
            model.diffusion = model.diffusion.with_sampling(sampling);
        }
        case.close(&key, &case.sampled(&model, &request, &prompts));
    }
}

#[test]
fn z_image_makes_what_comfyui_makes() {
    let case = Case::new("tiny_z_image", Family::ZImage);
    let defaults = case.model.defaults();
    assert_eq!((defaults.steps, defaults.size), (25, 1024));
    check_texts(&case);
    for skip in 1..=3 {
        let name = format!("skip-{skip}");
        case.check_text([(&name, NEGATIVE), (&name, NEGATIVE)], Some(skip));
    }
    check_paths(&case);
}

/// The published widths with two blocks of each kind: see `goldens/generate/z_image.py`.
#[test]
#[ignore = "makes 4 GB of weights and takes minutes"]
fn wide_z_image_makes_what_comfyui_makes() {
    let list = lists::list_with_vae("wide_z_image", "tiny_z_image");
    let case = Case::of("wide_z_image", Family::ZImage, &list);
    check_texts(&case);
    check_paths(&case);
}
