//! A small Flux with LoRAs against ComfyUI: see `goldens/generate/flux_lora.py`.

use super::comfy::{Case, PROMPT};
use super::flux;
use crate::generate::{GenerateRequest, Prompts};
use crate::tests::made;
use crate::{Checkpoint, EngineError, Family, LoraSpec, Seen};
use nino_dtype::DType;
use nino_sample::{Sampler, Scheduler};
use nino_weights::TensorReader;
use std::path::PathBuf;
use std::sync::Arc;

struct Changed {
    case: Case,
    golden: TensorReader,
    folder: tempfile::TempDir,
}

impl Changed {
    fn new() -> Changed {
        let golden = made::goldens().join("flux_lora.safetensors");
        Changed {
            case: Case::new("tiny_flux", Family::Flux),
            golden: nino_weights::open(golden).unwrap(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(format!("{name}.safetensors"));
        made::write_list(&made::list(name), &path);
        path
    }

    fn with(&self, model: &Checkpoint, name: &str, unet: f32, clip: f32) -> Checkpoint {
        let path = self.file(name);
        let (model, applied) = model.with_lora(&LoraSpec { path, unet, clip }).unwrap();
        assert!(applied.unmatched.is_empty(), "{applied:?}");
        model
    }

    fn values(&self, key: &str) -> Vec<f32> {
        let entry = self.golden.entry(key).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        self.golden.read_f32(entry, &mut values).unwrap();
        values
    }

    fn error(&self, key: &str, found: &[f32]) -> f64 {
        let wanted = self.values(key);
        assert_eq!(found.len(), wanted.len(), "{key}");
        let square = |v: f32| f64::from(v) * f64::from(v);
        let error: f64 = found.iter().zip(&wanted).map(|(f, w)| square(f - w)).sum();
        let nmse = error / wanted.iter().map(|&w| square(w)).sum::<f64>();
        println!("{key}: NMSE {nmse:.1e}");
        nmse
    }

    fn prompts(&self, model: &Checkpoint, sees: bool) -> Prompts {
        let request = GenerateRequest {
            guidance: None,
            ..self.case.request(PROMPT)
        };
        let mut prompts = self.case.text_of(model, &request);
        if sees {
            let latent = flux::latent(&self.values("seen"), 6, 8);
            let seen = Some(Arc::new(Seen { latent, mask: None }));
            prompts.positive = prompts.positive.with_seen(seen);
        }
        prompts
    }

    /// How far the latents of a sampler are from ComfyUI's.
    fn sampled(&self, key: &str, model: &Checkpoint, prompts: &Prompts) -> f64 {
        let (_, sampler) = key.split_once('/').unwrap();
        let scheduler = match sampler {
            "euler" => "simple",
            "dpmpp_2m" => "beta",
            _ => "sgm_uniform",
        };
        let request = GenerateRequest {
            sampler: Sampler::find(sampler).unwrap(),
            scheduler: Scheduler::find(scheduler).unwrap(),
            cfg: 1.0,
            ..self.case.request(PROMPT)
        };
        let prompt = &prompts.positive;
        let found = flux::sampled(&self.case, &model.diffusion, &request, prompt);
        self.error(key, &found)
    }
}

/// The limit of issue and goldens for latents.
const CLOSE: f64 = 1e-6;

#[test]
fn a_control_lora_makes_flux_see_a_picture_as_in_comfyui() {
    let changed = Changed::new();
    let plain = &changed.case.model;
    let model = changed.with(plain, "flux_lora", 0.7, 0.0);
    assert!(model.diffusion.edits() && !plain.diffusion.edits());
    let prompts = changed.prompts(&model, true);
    for sampler in ["euler", "dpmpp_2m", "uni_pc"] {
        let error = changed.sampled(&format!("control/{sampler}"), &model, &prompts);
        assert!(error <= CLOSE, "{sampler}: {error:.1e}");
    }
    // Weights in fewer bits: as near as such weights are without a LoRA.
    let fewer = model.clone().quantized(DType::Q8_0);
    let error = changed.sampled("control/euler", &fewer, &prompts);
    assert!((1e-9..1e-2).contains(&error), "{error:.1e}");
    // Without strength nothing grows.
    let path = changed.file("flux_lora");
    let spec = LoraSpec {
        path,
        unet: 0.0,
        clip: 1.0,
    };
    let (none, _) = plain.with_lora(&spec).unwrap();
    assert!(!none.diffusion.edits());
}

#[test]
fn loras_change_t5_and_replace_weights_as_in_comfyui() {
    let changed = Changed::new();
    let other = changed.with(&changed.case.model, "t5_lora", 0.6, 0.8);
    let prompts = changed.prompts(&other, false);
    let context = &prompts.positive.context;
    let some: Vec<f32> = context.iter().copied().step_by(13).collect();
    assert!(changed.error("text/context", &some) <= CLOSE);
    assert!(changed.error("text/pooled", &prompts.positive.pooled) <= CLOSE);
    for sampler in ["euler", "dpmpp_2m", "uni_pc"] {
        let error = changed.sampled(&format!("text/{sampler}"), &other, &prompts);
        assert!(error <= CLOSE, "{sampler}: {error:.1e}");
    }
    let both = changed.with(&other, "flux_lora", 0.7, 0.0);
    let prompts = changed.prompts(&both, true);
    let error = changed.sampled("both/euler", &both, &prompts);
    assert!(error <= CLOSE, "{error:.1e}");
}

/// A layer that has grown cannot be updated by a LoRA for the smaller one, nor shrink.
#[test]
fn a_lora_for_the_smaller_layer_is_refused_after_it_grew() {
    let changed = Changed::new();
    let model = changed.with(&changed.case.model, "flux_lora", 0.7, 0.0);
    let path = changed.folder.path().join("small.safetensors");
    let list = "lora_unet_img_in.lora_down.weight 4x64\nlora_unet_img_in.lora_up.weight 256x4\n";
    made::write_list(list, &path);
    let refused = model.with_lora(&LoraSpec {
        path,
        unet: 1.0,
        clip: 1.0,
    });
    assert!(matches!(refused, Err(EngineError::LoraFamily { .. })));
}
