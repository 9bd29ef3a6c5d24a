//! Small Krea 2 checkpoints against ComfyUI: conditioning, then whole paths.

use super::comfy::{Case, NEGATIVE, PROMPT};
use super::qwen_image::{check_references, check_seen, gray, made_with};
use crate::generate::{GenerateRequest, Prompts};
use crate::tests::lists;
use crate::{Conditioning, Family};
use nino_sample::{Sampler, Scheduler};

#[test]
fn krea2_makes_what_comfyui_makes() {
    let case = Case::new("tiny_krea2", Family::Krea2);
    assert_eq!(case.model.defaults().size, 1024);
    case.check_text([("prompt", PROMPT), ("negative", NEGATIVE)], None);
    case.check_text([("empty", ""), ("empty", "")], None);
    check_seen(&case);
    let (prompts, _) = case.text(&case.request(PROMPT));
    check_paths(&case, &prompts);
}

/// A picture in the style of another: it is seen by the text encoder and looked at by the model.
#[test]
fn krea2_looks_at_pictures() {
    let case = Case::new("tiny_krea2", Family::Krea2);
    let mut request = case.request("a fox");
    request.steps = 2;
    let plain = made_with(&case, &request);
    request.references = vec![gray()];
    let made = made_with(&case, &request);
    assert_eq!((made.width, made.height), (plain.width, plain.height));
    assert_ne!(plain.rgb, made.rgb);
}

/// The published widths with two blocks of each kind: see `goldens/generate/krea2.py`.
#[test]
#[ignore = "makes 3 GB of weights and takes minutes"]
fn wide_krea2_makes_what_comfyui_makes() {
    let list = lists::wide_list("wide_krea2", "tiny_krea2", 2560);
    let case = Case::of("wide_krea2", Family::Krea2, &list);
    let context = case.golden("context");
    let prompt = Conditioning {
        width: context.len() / 3,
        context: context.into(),
        ..Conditioning::default()
    };
    let prompts = Prompts {
        positive: prompt.clone(),
        negative: prompt,
    };
    check_paths(&case, &prompts);
}

/// Every path of a golden file, which says in its name how it came about.
fn check_paths(case: &Case, prompts: &Prompts) {
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
        case.close(&key, &case.sampled(&case.model, &request, prompts));
    }
    check_references(case, prompts);
}
