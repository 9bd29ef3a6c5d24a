//! Small Qwen-Image checkpoints against ComfyUI: conditioning, also of prompts about pictures, then
//! whole paths.

use super::comfy::{Case, NEGATIVE, PROMPT, control};
use crate::generate::{GenerateRequest, Prompts};
use crate::tests::lists;
use crate::{
    Conditioning, Family, Image, Latent, LatentSize, ReferenceMethod, encode_seen, pictures_before,
};
use nino_sample::{Sampler, Scheduler};
use std::sync::Arc;

const CHANNELS: usize = 16;

fn check_texts(case: &Case) {
    let long = "a red fox, ".repeat(60);
    case.check_text([("prompt", PROMPT), ("negative", NEGATIVE)], None);
    case.check_text([("long", &long), ("empty", "")], None);
}

/// A prompt about two pictures.
pub(super) fn check_seen(case: &Case) {
    let images: Vec<Image> = [(150, 200), (100, 61)]
        .into_iter()
        .enumerate()
        .map(|(i, (height, width))| Image {
            width,
            height,
            values: case.golden(&format!("seen/{i}")),
        })
        .collect();
    let prompt = format!("{}{NEGATIVE}", pictures_before(2));
    let (found, _) =
        control(|c| encode_seen(&case.store, &case.model.text, &prompt, &images, &[], c));
    let shape: Vec<usize> = case
        .golden("seen/shape")
        .iter()
        .map(|&n| n as usize)
        .collect();
    assert_eq!([found.tokens(), found.width], shape[..]);
    case.close("seen/context", &case.thin(&found.context));
    let blind =
        control(|c| encode_seen(&case.store, &case.model.text, &prompt, &images[..1], &[], c));
    assert_ne!(blind.0.tokens(), found.tokens());
}

/// Every path of a golden file, which says in its name how it came about.
fn check_paths(case: &Case) {
    let (prompts, _) = case.text(&case.request(PROMPT));
    let keys = case.keys("latent/");
    assert!(!keys.is_empty());
    for key in keys {
        let parts: Vec<&str> = key.split('/').collect();
        let [_, width, cfg, sampler, scheduler] = parts[..] else {
            panic!("{key}")
        };
        let request = GenerateRequest {
            sampler: Sampler::find(sampler).unwrap(),
            scheduler: Scheduler::find(scheduler).unwrap(),
            width: width.parse().unwrap(),
            cfg: cfg.parse().unwrap(),
            ..case.request(PROMPT)
        };
        case.close(&key, &case.sampled(&case.model, &request, &prompts));
    }
    check_references(case, &prompts);
}

/// Paths with latents to look at.
pub(super) fn check_references(case: &Case, prompts: &Prompts) {
    let keys = case.keys("references/");
    assert!(!keys.is_empty());
    for key in keys {
        let parts: Vec<&str> = key.split('/').collect();
        let [_, method, n] = parts[..] else {
            panic!("{key}")
        };
        let looking = (0..n.parse().unwrap()).map(|i| reference(case, i));
        let positive = looking.fold(prompts.positive.clone(), |p, r| {
            p.with_reference(Arc::new(r))
        });
        let places = match method {
            "index" => ReferenceMethod::Index,
            _ => ReferenceMethod::IndexTimestepZero,
        };
        let positive = Conditioning {
            places: Some(places),
            ..positive
        };
        let both = Prompts {
            negative: positive.clone(),
            positive,
        };
        let request = GenerateRequest {
            sampler: Sampler::find("euler").unwrap(),
            scheduler: Scheduler::find("simple").unwrap(),
            cfg: 1.0,
            ..case.request(PROMPT)
        };
        case.close(&key, &case.sampled(&case.model, &request, &both));
    }
}

/// Latent `i` to look at, in the VAE's units.
fn reference(case: &Case, i: usize) -> Latent {
    let [height, width] = [[6, 4], [4, 10]][i];
    let planes = case.golden(&format!("reference/{i}"));
    let at = |n: usize| planes[n % CHANNELS * height * width + n / CHANNELS];
    Latent {
        values: (0..planes.len()).map(at).collect(),
        ..Latent::empty(1, CHANNELS, LatentSize::picture(height, width))
    }
}

#[test]
fn qwen_image_makes_what_comfyui_makes() {
    let case = Case::new("tiny_qwen_image", Family::QwenImage);
    let defaults = case.model.defaults();
    assert_eq!((defaults.steps, defaults.size), (20, 1024));
    check_texts(&case);
    for skip in 1..=2 {
        let name = format!("skip-{skip}");
        case.check_text([(&name, NEGATIVE), (&name, NEGATIVE)], Some(skip));
    }
    check_seen(&case);
    check_paths(&case);
}

/// A whole edit: pictures are seen by the text encoder and looked at by the model.
#[test]
fn qwen_image_edits_pictures() {
    let case = Case::new("tiny_qwen_image", Family::QwenImage);
    let mut request = case.request("make it blue");
    request.steps = 2;
    let plain = made_with(&case, &request);
    request.references = vec![gray()];
    let edited = made_with(&case, &request);
    assert_eq!((edited.width, edited.height), (64, 48));
    assert_ne!(plain.rgb, edited.rgb);
}

/// A picture to look at.
pub(super) fn gray() -> crate::Picture {
    crate::Picture {
        width: 64,
        height: 48,
        rgb: vec![90; 64 * 48 * 3],
    }
}

pub(super) fn made_with(case: &Case, request: &GenerateRequest) -> crate::Picture {
    let (made, _) =
        control(|c| crate::generate(&case.store, &case.model, request, c, &mut |_| Ok(())));
    made.pictures.into_iter().next().unwrap()
}

/// The published widths with few blocks: see `goldens/generate/qwen_image.py`.
#[test]
#[ignore = "makes 6 GB of weights and takes minutes"]
fn wide_qwen_image_makes_what_comfyui_makes() {
    let list = lists::list_with_vae("wide_qwen_image", "tiny_qwen_image");
    let case = Case::of("wide_qwen_image", Family::QwenImage, &list);
    check_texts(&case);
    check_seen(&case);
    check_paths(&case);
}
