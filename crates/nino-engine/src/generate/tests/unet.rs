//! UNets that are changed inside, against ComfyUI: see `goldens/generate/unet.py`.

use super::comfy::{Case, PROMPT};
use super::control::{both, hint};
use crate::generate::GenerateRequest;
use crate::generate::Prompts;
use crate::tests::made;
use crate::{
    ControlNetFile, DiffusionModel, EngineError, Family, FreeU, HyperTile, Image, Resize,
    SelfAttention, Shrink, plan_generate,
};
use nino_sample::{Sampler, Scheduler};

fn cases() -> [(Case, &'static str); 2] {
    [("tiny_sd1", Family::Sd1), ("tiny_sdxl", Family::Sdxl)]
        .map(|(name, family)| (Case::new(name, family).judged_by("unet"), name))
}

fn check(case: &Case, key: &str, model: DiffusionModel) {
    let (prompts, _) = case.text(&case.request(PROMPT));
    check_prompts(case, key, model, &prompts, 7.0);
}

fn check_prompts(case: &Case, key: &str, model: DiffusionModel, prompts: &Prompts, cfg: f32) {
    let mut changed = case.model.clone();
    changed.diffusion = model;
    let request = GenerateRequest {
        sampler: Sampler::find("euler").unwrap(),
        scheduler: Scheduler::find("normal").unwrap(),
        width: 256,
        height: 128,
        cfg,
        ..case.request(PROMPT)
    };
    case.close(key, &case.sampled(&changed, &request, prompts));
}

#[test]
fn activations_are_made_smaller_as_in_comfyui() {
    let shrink = |block, factor, after, ways| Shrink::new(block, factor, after, ways);
    let (bicubic, area, bilinear) = (Resize::Bicubic, Resize::Area, Resize::Bilinear);
    let exact = Resize::NearestExact;
    for (case, name) in cases() {
        for (key, shrinks) in [
            (
                "usual",
                vec![(shrink(3, 2.0, true, [bicubic; 2]), (0.0, 0.35))],
            ),
            (
                "before",
                vec![(shrink(2, 1.7, false, [area, bilinear]), (0.1, 0.8))],
            ),
            (
                "larger",
                vec![(shrink(1, 0.7, true, [bilinear, area]), (0.0, 1.0))],
            ),
            (
                "two",
                vec![
                    (shrink(4, 1.3, true, [exact; 2]), (0.0, 0.3)),
                    (shrink(2, 2.0, true, [bilinear, bicubic]), (0.2, 0.6)),
                ],
            ),
        ] {
            let plain = case.model.diffusion.clone();
            let model = shrinks.into_iter().fold(plain, |model, (shrink, part)| {
                model.with_shrink(shrink, part).unwrap()
            });
            check(&case, &format!("{name}/shrink/{key}"), model);
        }
    }
}

/// What a `ControlNet` adds to activations that were made smaller does not fit and is left out.
#[test]
fn a_controlnet_steers_what_is_of_full_size() {
    let [(case, _), _] = cases();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control_sd1.safetensors");
    made::write_list(&made::list("control_sd1"), &path);
    let net = ControlNetFile::open(&path).unwrap();
    let (prompts, _) = case.text(&case.request(PROMPT));
    let image = Image {
        width: 56,
        height: 40,
        values: Case::new("tiny_sd1", Family::Sd1)
            .judged_by("control")
            .golden("image"),
    };
    let prompts = both(&prompts, hint(&net, image, 0.8, (0.0, 1.0)));
    let shrink = Shrink::new(3, 2.0, true, [Resize::Bicubic; 2]);
    let model = case.model.diffusion.with_shrink(shrink, (0.0, 0.35));
    check_prompts(&case, "tiny_sd1/steered", model.unwrap(), &prompts, 7.0);
}

#[test]
fn self_attention_is_tiled_as_in_comfyui() {
    for (case, name) in cases() {
        for (key, side, max_depth, scale_depth) in [
            ("usual", 4, 0, false),
            ("deep", 5, 1, false),
            ("scaled", 4, 2, true),
        ] {
            let tile = HyperTile {
                side,
                max_depth,
                scale_depth,
            };
            let model = case.model.diffusion.with_hypertile(tile).unwrap();
            check(&case, &format!("{name}/tile/{key}"), model);
        }
    }
}

#[test]
fn what_is_looked_at_is_blurred_as_in_comfyui() {
    let shrink = Shrink::new(3, 2.0, true, [Resize::Bicubic; 2]);
    for (case, name) in cases() {
        let plain = &case.model.diffusion;
        let shrunk = plain.with_shrink(shrink, (0.0, 0.35)).unwrap();
        let (prompts, _) = case.text(&case.request(PROMPT));
        for (key, model, scale, blur, cfg) in [
            ("usual", plain, 0.5, 2.0, 7.0),
            ("strong", plain, -1.5, 4.0, 7.0),
            ("unguided", plain, 2.0, 1.0, 1.0),
            ("shrunk", &shrunk, 1.0, 2.0, 7.0),
        ] {
            let guidance = SelfAttention { scale, blur };
            let model = model.with_self_attention(guidance).unwrap();
            let key = format!("{name}/looked/{key}");
            check_prompts(&case, &key, model, &prompts, cfg);
        }
    }
}

#[test]
fn what_self_attention_guidance_cannot_be_combined_with_is_an_error() {
    let (case, _) = &cases()[0];
    let guidance = SelfAttention {
        scale: 0.5,
        blur: 2.0,
    };
    let model = case.model.diffusion.with_self_attention(guidance).unwrap();
    let twice = model.with_self_attention(guidance).map(|_| ());
    assert!(matches!(twice, Err(EngineError::SelfAttention { .. })));
    let mut changed = case.model.clone();
    changed.diffusion = model.with_perturbed_attention(2.0).unwrap();
    let plan = plan_generate(&case.store, &changed, &case.request(PROMPT));
    let error = plan.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("perturbed-attention"), "{error}");
}

#[test]
fn freeu_comes_after_what_makes_activations_smaller() {
    let (case, _) = &cases()[0];
    let model = &case.model.diffusion;
    let freeu = FreeU::new([1.1, 1.2], [0.9, 0.2]);
    let shrink = Shrink::new(3, 2.0, true, [Resize::Bicubic; 2]);
    let after = model.with_shrink(shrink, (0.0, 0.35));
    assert!(after.unwrap().with_freeu(freeu).is_ok());
    let before = model.with_freeu(freeu).unwrap();
    let error = before.with_shrink(shrink, (0.0, 0.35)).map(|_| ());
    assert!(matches!(error, Err(EngineError::ShrinkAfterFreeU)));
}
