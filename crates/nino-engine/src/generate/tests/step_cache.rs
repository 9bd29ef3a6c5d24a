//! Steps that use an earlier one again, against ComfyUI: see `goldens/generate/step_cache.py`.

use super::comfy::{Case, NEGATIVE, PROMPT, control};
use crate::conditioning::{Area, Region};
use crate::{
    CacheWay, Conditioning, DiffusionModel, EngineError, Family, Latent, LatentSize, Noise,
    Precision, SampleRequest, Sampled, StepReuse, encode_text, sample, sigmas,
};
use nino_sample::{Correction, Options, Sampler, Scheduler, Seed};

const STEPS: usize = 12;
const SIZE: LatentSize = LatentSize {
    frames: 1,
    height: 10,
    width: 18,
};

fn reuse(way: CacheWay, threshold: f32) -> StepReuse {
    StepReuse {
        threshold,
        ..StepReuse::new(way)
    }
}

/// How a path is sampled.
struct Told {
    sampler: &'static str,
    scheduler: &'static str,
    cfg: f32,
    batch: usize,
}

const UNET: Told = Told {
    sampler: "euler",
    scheduler: "normal",
    cfg: 7.0,
    batch: 1,
};

struct Cached {
    case: Case,
    name: &'static str,
    sides: [Conditioning; 2],
}

impl Cached {
    fn new(name: &'static str, family: Family) -> Cached {
        let case = Case::new(name, family).judged_by("step_cache");
        let encode =
            |prompt| control(|c| encode_text(&case.store, &case.model.text, prompt, &[], c)).0;
        Cached {
            sides: [PROMPT, NEGATIVE].map(encode),
            case,
            name,
        }
    }

    fn model(&self, reuse: StepReuse) -> DiffusionModel {
        self.case.model.diffusion.with_step_reuse(reuse).unwrap()
    }

    fn sampled(&self, model: &DiffusionModel, told: &Told) -> Result<Sampled, EngineError> {
        let sampler = Sampler::find(told.sampler).unwrap();
        let scheduler = Scheduler::find(told.scheduler).unwrap();
        let channels = model.net().wants().channels;
        let (made, _) = control(|c| {
            let request = SampleRequest {
                positive: &self.sides[..1],
                negative: &self.sides[1..],
                third: None,
                latent: &Latent::empty(told.batch, channels, SIZE),
                noise: Noise::Seeded,
                mask: None,
                frame_mask: &[],
                sigmas: &sigmas(model, sampler, scheduler, STEPS, 1.0)?,
                sampler,
                options: &Options::default(),
                seed: Seed::new(1_234_567_890_123),
                cfg: told.cfg,
                precision: Precision::F32,
                preview: None,
                beside: 0,
                memory: None,
            };
            Ok(sample(&self.case.store, model, &request, c).map_err(EngineError::from))
        });
        made
    }

    #[track_caller]
    fn check(&self, key: &str, model: &DiffusionModel, told: &Told) {
        let made = self.sampled(model, told).unwrap();
        let key = format!("{}/{key}", self.name);
        let wanted = self.case.golden(&format!("{key}/reused"));
        assert!(made.reuses.reused > 0, "{key}");
        assert_eq!(wanted, [made.reuses.reused as f32], "{key}");
        self.case.close(&key, &made.latent.planes());
    }
}

#[test]
fn steps_of_unets_are_reused_as_in_comfyui() {
    let easy = |threshold, percent| StepReuse {
        percent,
        ..reuse(CacheWay::Easy, threshold)
    };
    for (name, family) in [("tiny_sd1", Family::Sd1), ("tiny_sdxl", Family::Sdxl)] {
        let cached = Cached::new(name, family);
        let lazy = cached.model(reuse(CacheWay::Lazy, 0.3));
        cached.check("easy", &cached.model(easy(0.5, (0.15, 0.95))), &UNET);
        let alone = Told { cfg: 1.0, ..UNET };
        cached.check("easy_alone", &cached.model(easy(0.5, (0.0, 1.0))), &alone);
        let batch = Told { batch: 2, ..UNET };
        cached.check("easy_batch", &cached.model(easy(0.4, (0.3, 0.8))), &batch);
        cached.check("lazy", &lazy, &UNET);
        let plus = Told {
            sampler: "euler_cfg_pp",
            cfg: 1.5,
            ..UNET
        };
        cached.check("lazy_pp", &lazy, &plus);
        let heun = Told {
            sampler: "heun",
            ..UNET
        };
        let less = cached.model(reuse(CacheWay::Lazy, 0.15));
        let star = less.with_correction(Correction::ZeroStar);
        cached.check("lazy_star", &star, &heun);
    }
}

#[test]
fn steps_of_flow_models_are_reused_as_in_comfyui() {
    for (name, family, cfg, threshold) in [
        ("tiny_flux", Family::Flux, 1.0, 0.3),
        // Prompts of these have lengths of their own, and so two runs.
        ("tiny_chroma", Family::Chroma, 3.0, 1.0),
        ("tiny_z_image", Family::ZImage, 3.0, 1.0),
        ("tiny_qwen_image", Family::QwenImage, 3.0, 1.0),
    ] {
        let cached = Cached::new(name, family);
        let told = Told {
            scheduler: "simple",
            cfg,
            ..UNET
        };
        let easy = cached.model(reuse(CacheWay::Easy, threshold));
        cached.check("easy", &easy, &told);
        let lazy = cached.model(reuse(CacheWay::Lazy, 0.3));
        cached.check("lazy", &lazy, &told);
    }
}

#[test]
fn what_reused_steps_cannot_be_combined_with_is_an_error() {
    let mut cached = Cached::new("tiny_sd1", Family::Sd1);
    let model = cached.model(StepReuse::new(CacheWay::Easy));
    let again = model.with_step_reuse(StepReuse::new(CacheWay::Lazy));
    let error = again.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("one way"), "{error}");

    let guided = model.with_perturbed_attention(2.0).unwrap();
    let error = cached.sampled(&guided, &UNET).unwrap_err().to_string();
    assert!(error.contains("perturbed-attention"), "{error}");
    let left = Region {
        area: Some(Area::Share {
            x: 0.0,
            y: 0.0,
            width: 0.5,
            height: 1.0,
        }),
        ..Region::default()
    };
    cached.sides[0].region = left;
    let error = cached.sampled(&model, &UNET).unwrap_err().to_string();
    assert!(error.contains("LazyCache can be"), "{error}");
    let lazy = cached.model(reuse(CacheWay::Lazy, 3.0));
    assert!(cached.sampled(&lazy, &UNET).unwrap().reuses.reused > 0);
}
