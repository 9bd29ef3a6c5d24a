//! Guidance by three prompts and patches of UNets, against ComfyUI: see
//! `goldens/generate/guidance.py`.

use super::comfy::{Case, NEGATIVE, PROMPT, control};
use crate::conditioning::{Area, Region};
use crate::{
    Conditioning, DiffusionModel, EngineError, Family, FreeU, HyperTile, Latent, LatentSize, Noise,
    Precision, Resize, SampleRequest, SelfAttention, Shrink, Store, Third, ThreeWay, encode_text,
    sample, sigmas,
};
use nino_gpu::{Adapters, Gpu, GpuDevice};
use nino_sample::{Blend, Correction, Options, Perpendicular, Sampler, Scheduler, Seed};
use std::sync::Arc;

const LAKE: &str = "a lake, (blue:1.2) mountains";

/// A small model with its three prompts.
struct Three {
    case: Case,
    name: &'static str,
    prompts: [Conditioning; 3],
}

impl Three {
    fn all() -> [Three; 2] {
        [("tiny_sd1", Family::Sd1), ("tiny_sdxl", Family::Sdxl)].map(|(name, family)| {
            let case = Case::new(name, family).judged_by("guidance");
            let text = &case.model.text;
            let encode = |prompt| control(|c| encode_text(&case.store, text, prompt, &[], c)).0;
            let prompts = [PROMPT, NEGATIVE, LAKE].map(encode);
            Three {
                case,
                name,
                prompts,
            }
        })
    }

    fn model(&self) -> &DiffusionModel {
        &self.case.model.diffusion
    }

    /// The path by a sampler, of so many pictures.
    fn sampled(
        &self,
        model: &DiffusionModel,
        prompts: &[Conditioning; 3],
        way: Option<ThreeWay>,
        told: (f32, &str, usize),
    ) -> Result<Vec<f32>, EngineError> {
        Three::sampled_on(&self.case.store, model, prompts, way, told)
    }

    fn sampled_on(
        store: &Store,
        model: &DiffusionModel,
        prompts: &[Conditioning; 3],
        way: Option<ThreeWay>,
        (cfg, sampler, batch): (f32, &str, usize),
    ) -> Result<Vec<f32>, EngineError> {
        let [positive, negative, third] = prompts;
        let sampler = Sampler::find(sampler).unwrap();
        let scheduler = Scheduler::find("normal").unwrap();
        let (made, _) = control(|c| {
            let request = SampleRequest {
                positive: std::slice::from_ref(positive),
                negative: std::slice::from_ref(negative),
                third: way.map(|way| Third {
                    prompts: std::slice::from_ref(third),
                    way,
                }),
                latent: &Latent::empty(batch, 4, LatentSize::picture(6, 8)),
                noise: Noise::Seeded,
                mask: None,
                frame_mask: &[],
                sigmas: &sigmas(model, sampler, scheduler, 8, 1.0)?,
                sampler,
                options: &Options::default(),
                seed: Seed::new(1_234_567_890_123),
                cfg,
                precision: Precision::F32,
                preview: None,
                beside: 0,
                memory: None,
            };
            Ok(sample(store, model, &request, c).map_err(EngineError::from))
        });
        Ok(made?.latent.planes())
    }

    fn check(&self, key: &str, found: Result<Vec<f32>, EngineError>) {
        self.case
            .close(&format!("{}/{key}", self.name), &found.unwrap());
    }
}

#[test]
fn two_prompts_are_guided_as_in_comfyui() {
    let (regular, nested) = (ThreeWay::Chained, ThreeWay::Nested);
    for three in Three::all() {
        let (plain, prompts) = (three.model(), &three.prompts);
        let star = plain.with_correction(Correction::ZeroStar);
        let mut rescaled = plain.clone();
        rescaled.blend = Blend::rescaled(0.7);
        for (key, model, way) in [
            ("regular", plain, regular(3.0)),
            ("nested", plain, nested(3.0)),
            ("second_alone", plain, regular(1.0)),
            ("star_regular", &star, regular(3.0)),
            ("star_nested", &star, nested(3.0)),
            ("rescaled", &rescaled, regular(3.0)),
        ] {
            let found = three.sampled(model, prompts, Some(way), (5.0, "euler", 1));
            three.check(&format!("dual/{key}"), found);
        }
        for (key, way) in [("pp_regular", regular(1.2)), ("pp_nested", nested(1.2))] {
            let found = three.sampled(plain, prompts, Some(way), (1.5, "euler_cfg_pp", 1));
            three.check(&format!("dual/{key}"), found);
        }
        let mut placed = prompts.clone();
        placed[0].region = Region {
            area: Some(Area::Latent {
                x: 2,
                y: 1,
                width: 6,
                height: 4,
            }),
            ..Region::default()
        };
        let found = three.sampled(plain, &placed, Some(regular(3.0)), (5.0, "euler", 1));
        three.check("dual/area", found);
    }
}

#[test]
fn negatives_are_perpendicular_as_in_comfyui() {
    let way = |scale| {
        Some(ThreeWay::Perpendicular(Perpendicular {
            scale,
            is_patch: false,
        }))
    };
    for three in Three::all() {
        let (plain, prompts) = (three.model(), &three.prompts);
        let star = plain.with_correction(Correction::ZeroStar);
        for (key, model, cfg, scale, batch) in [
            ("plain", plain, 7.0, 1.3, 1),
            ("zero", plain, 7.0, 0.0, 1),
            ("unguided", plain, 1.0, 1.0, 1),
            ("star", &star, 5.0, 1.0, 1),
            ("batch", plain, 7.0, 1.3, 2),
        ] {
            let found = three.sampled(model, prompts, way(scale), (cfg, "euler", batch));
            three.check(&format!("perp/{key}"), found);
        }
        for (key, cfg, scale) in [("plain", 7.0, 1.2), ("unguided", 1.0, 0.02)] {
            let patched = plain.with_perpendicular(Arc::new(vec![prompts[2].clone()]), scale);
            let found = three.sampled(&patched, prompts, None, (cfg, "euler", 1));
            three.check(&format!("patch/{key}"), found);
        }
    }
}

#[test]
fn what_three_prompts_cannot_be_combined_with_is_an_error() {
    let [three, _] = Three::all();
    let (plain, prompts) = (three.model(), &three.prompts);
    let blended = |blend| {
        let mut model = plain.clone();
        model.blend = blend;
        model
    };
    let perpendicular = ThreeWay::Perpendicular(Perpendicular {
        scale: 1.0,
        is_patch: false,
    });
    let patched = plain.with_perpendicular(Arc::new(vec![prompts[2].clone()]), 1.0);
    for (model, way, said) in [
        (&patched, Some(ThreeWay::Nested(2.0)), "PerpNeg"),
        (
            &plain.with_perturbed_attention(2.0).unwrap(),
            Some(perpendicular),
            "perturbed-attention",
        ),
        (&blended(Blend::Normed(1.0)), Some(perpendicular), "CFGNorm"),
        (
            &blended(Blend::Rescaled(0.7)),
            Some(perpendicular),
            "RescaleCFG",
        ),
    ] {
        let error = three.sampled(model, prompts, way, (5.0, "euler", 1));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn freeu_is_comfyuis() {
    for three in Three::all() {
        let (plain, prompts) = (three.model(), &three.prompts);
        let first = FreeU::new([1.1, 1.2], [0.9, 0.2]);
        let second = FreeU::new([1.3, 1.4], [0.9, 0.2]).second();
        for (key, patches, batch) in [
            ("first", vec![first], 1),
            ("second", vec![second], 2),
            ("both", vec![first, second], 1),
        ] {
            let patched = patches.iter().fold(plain.clone(), |model, &freeu| {
                model.with_freeu(freeu).unwrap()
            });
            let found = three.sampled(&patched, prompts, None, (7.0, "euler", batch));
            three.check(&format!("freeu/{key}"), found);
        }
    }
}

#[test]
fn perturbed_attention_guides_as_in_comfyui() {
    for three in Three::all() {
        let (plain, prompts) = (three.model(), &three.prompts);
        let star = plain.with_correction(Correction::ZeroStar);
        for (key, model, scale, cfg) in [
            ("plain", plain, 3.0, 7.0),
            ("unguided", plain, 3.0, 1.0),
            ("star", &star, 2.0, 5.0),
        ] {
            let patched = model.with_perturbed_attention(scale).unwrap();
            let found = three.sampled(&patched, prompts, None, (cfg, "euler", 1));
            three.check(&format!("pag/{key}"), found);
        }
    }
}

#[test]
fn patches_of_unets_are_errors_elsewhere() {
    let case = Case::new("tiny_chroma", Family::Chroma);
    let model = &case.model.diffusion;
    for error in [
        model.with_freeu(FreeU::new([1.1, 1.2], [0.9, 0.2])).err(),
        model.with_perturbed_attention(3.0).err(),
    ] {
        assert!(matches!(error, Some(EngineError::UnetOnly { .. })));
    }
}

#[test]
fn gpu_patches_of_unets_are_near_the_cpu() {
    let adapters = Adapters::enumerate();
    nino_testing::gpu_or_skip(adapters.reason.as_deref());
    let [three, _] = Three::all();
    let freeu = FreeU::new([1.3, 1.4], [0.9, 0.2]).second();
    let shrink = Shrink::new(2, 1.7, true, [Resize::Bicubic, Resize::Area]);
    let tile = HyperTile {
        side: 4,
        max_depth: 0,
        scale_depth: false,
    };
    let patched = three.model().with_shrink(shrink, (0.0, 0.35)).unwrap();
    let patched = patched.with_hypertile(tile).unwrap();
    let patched = patched.with_freeu(freeu).unwrap();
    let patched = patched.with_perturbed_attention(3.0).unwrap();
    let looked = SelfAttention {
        scale: 0.5,
        blur: 2.0,
    };
    let watched = three.model().with_self_attention(looked).unwrap();
    let told = (7.0, "euler", 1);
    for gpu in Gpu::open_all(&adapters, None).unwrap() {
        let name = gpu.info.name.clone();
        let store = Store::new(Arc::new(GpuDevice::new(gpu)));
        for model in [&patched, &watched] {
            let expected = three.sampled(model, &three.prompts, None, told).unwrap();
            let found = Three::sampled_on(&store, model, &three.prompts, None, told);
            let square = |v: f32| f64::from(v) * f64::from(v);
            let found = found.unwrap();
            let errors = found.iter().zip(&expected).map(|(f, e)| square(f - e));
            let nmse = errors.sum::<f64>() / expected.iter().map(|&e| square(e)).sum::<f64>();
            println!("{name}: NMSE {nmse:.1e}");
            assert!(nmse <= 1e-8, "{name}: NMSE {nmse:.1e}");
        }
    }
}
