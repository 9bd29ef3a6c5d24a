//! Whole models that share a store: variants of one file, sizes, precisions and threads.

use super::cpu;
use crate::tests::made;
use crate::{
    Checkpoint, Chunking, Control, DecodeOptions, EngineError, GenerateRequest, Latent, LoraSpec,
    Picture, Store, VaeFile, decode, generate, plan_decode, plan_generate,
};
use nino_dtype::DType;
use nino_graph::PlanError;
use nino_weights::safetensors::{NewTensor, Writer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// A small SD 1 as it is, quantized, and with a LoRA.
struct Variants {
    models: [Checkpoint; 3],
    _folder: tempfile::TempDir,
}

impl Variants {
    fn new() -> Variants {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        made::write_list(&made::list("tiny_sd1"), &path);
        let plain = Checkpoint::open(&path, None).unwrap();
        let spec = LoraSpec {
            path: write_lora(folder.path()),
            unet: 1.0,
            clip: 1.0,
        };
        let (with_lora, applied) = plain.with_lora(&spec).unwrap();
        assert!(applied.unmatched.is_empty());
        Variants {
            models: [plain.clone(), plain.quantized(DType::Q8_0), with_lora],
            _folder: folder,
        }
    }
}

/// For a matrix of the UNet and one of the text encoder.
fn write_lora(folder: &Path) -> PathBuf {
    let modules = [
        (
            "diffusion_model.middle_block.1.transformer_blocks.0.attn1.to_q",
            64,
        ),
        (
            "text_encoder.text_model.encoder.layers.0.self_attn.q_proj",
            768,
        ),
    ];
    let tensors: Vec<NewTensor> = modules
        .iter()
        .flat_map(|(module, side)| {
            [("lora_A", [4, *side]), ("lora_B", [*side, 4])].map(|(end, shape)| NewTensor {
                name: format!("{module}.{end}.weight"),
                dtype: DType::F32,
                shape: shape.to_vec(),
            })
        })
        .collect();
    let path = folder.join("lora.safetensors");
    let mut writer = Writer::create(&path, &tensors, &BTreeMap::new()).unwrap();
    for tensor in &tensors {
        let n = tensor.shape.iter().product::<usize>();
        let values = (0..n).map(|i| (i as f32 * 0.7).sin());
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        writer.write(&bytes).unwrap();
    }
    writer.finish().unwrap();
    path
}

pub(super) fn request(model: &Checkpoint, prompt: &str) -> GenerateRequest {
    GenerateRequest {
        width: 64,
        height: 48,
        steps: 2,
        ..GenerateRequest::new(model, prompt)
    }
}

fn with_control<T>(f: impl FnOnce(&mut Control<'_>) -> Result<T, EngineError>) -> T {
    let never = AtomicBool::new(false);
    let made = f(&mut Control {
        cancel: &never,
        on_event: &mut |_| {},
    });
    made.unwrap()
}

/// The picture and the bytes of its latent.
pub(super) fn made(
    store: &Store,
    model: &Checkpoint,
    request: &GenerateRequest,
) -> (Picture, Vec<u32>) {
    let mut latent = Vec::new();
    let mut made = with_control(|control| {
        generate(store, model, request, control, &mut |kept| {
            latent = kept.latent.values.iter().map(|v| v.to_bits()).collect();
            Ok(())
        })
    });
    (made.pictures.remove(0), latent)
}

/// With every prompt a new one, so that each picture needs its text encoder too.
#[test]
fn models_of_one_file_are_never_taken_for_each_other() {
    let all = Variants::new();
    let peaks = all.models.iter().map(|model| {
        let plan = plan_generate(
            &Store::for_pictures(cpu(None), 1),
            model,
            &request(model, "a fox"),
        );
        plan.unwrap().peak_bytes()
    });
    let largest = peaks.max().unwrap();
    for budget in [None, Some(largest)] {
        let store = Store::new(cpu(budget));
        let mut loads = Vec::new();
        for (i, variant) in [0, 1, 2, 0, 2, 1].into_iter().enumerate() {
            let model = &all.models[variant];
            let request = request(model, &format!("fox number {i}"));
            let found = made(&store, model, &request);
            let fresh = made(&Store::new(cpu(budget)), model, &request);
            assert!(
                found == fresh,
                "picture {i} of variant {variant}, {budget:?}"
            );
            loads.push(store.usage().loads);
        }
        match budget {
            // Two networks of each variant, and the VAE that they share.
            None => assert_eq!(loads, [3, 5, 7, 7, 7, 7]),
            Some(most) => {
                assert!(loads.is_sorted_by(|a, b| a < b), "{loads:?}");
                assert!(store.usage().peak_bytes <= most);
            }
        }
    }
}

#[test]
fn variants_of_a_model_make_different_pictures() {
    let all = Variants::new();
    let store = Store::new(cpu(None));
    let [plain, quantized, with_lora] = all
        .models
        .each_ref()
        .map(|model| made(&store, model, &request(model, "a fox")).1);
    assert!(plain != quantized && plain != with_lora && quantized != with_lora);
}

#[test]
fn a_picture_of_another_size_uses_the_same_weights() {
    let all = Variants::new();
    let model = &all.models[0];
    let store = Store::new(cpu(None));
    let mut loads = Vec::new();
    for (width, height) in [(64, 48), (96, 64), (64, 48)] {
        let request = GenerateRequest {
            width,
            height,
            ..request(model, "a fox")
        };
        let fresh = made(&Store::new(cpu(None)), model, &request);
        assert!(made(&store, model, &request) == fresh, "{width}x{height}");
        loads.push(store.usage().loads);
    }
    assert_eq!(loads, [3, 3, 3]);
}

#[test]
fn threads_share_a_store() {
    let all = Variants::new();
    let jobs: Vec<_> = [(0, "a fox"), (0, "a fox"), (2, "a fox"), (0, "a red sun")]
        .into_iter()
        .map(|(variant, prompt)| {
            let model = &all.models[variant];
            (model, request(model, prompt))
        })
        .collect();
    let store = Store::new(cpu(None));
    let found: Vec<_> = std::thread::scope(|scope| {
        let spawned: Vec<_> = jobs
            .iter()
            .map(|(model, request)| {
                let store = store.clone();
                scope.spawn(move || made(&store, model, request))
            })
            .collect();
        spawned.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for (i, ((model, request), found)) in jobs.iter().zip(&found).enumerate() {
        let fresh = made(&Store::new(cpu(None)), model, request);
        assert!(*found == fresh, "thread {i}");
    }
    assert_eq!(store.usage().loads, 5, "each network once");
    assert_eq!(store.usage().busy_bytes, 0);
}

/// Convolutions over time read their kernels in other pieces where memory is short. A device holds
/// weights the way the plan that loaded them reads them.
#[test]
fn weights_serve_only_plans_that_read_them_in_the_same_way() {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens");
    let vae = VaeFile::open(&goldens.join("models/wan21.safetensors")).unwrap();
    let shape = [1, 4, 2, 24, 40];
    let n = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..n).map(|i| (i as f32 * 0.37).sin()).collect();
    let latent = Latent::from_planes(&shape, &values, Path::new("made up")).unwrap();
    let with = |budget| DecodeOptions {
        chunking: Chunking::Frames(1),
        budget,
        ..DecodeOptions::default()
    };
    let store = Store::new(cpu(None));
    let little = plan_decode(&store, &vae, latent.size(), &with(Some(1000)));
    let Err(EngineError::Plan(PlanError::OverBudget { need, .. })) = little else {
        panic!("1000 bytes are not enough");
    };
    let frames = |store: &Store, options: &DecodeOptions| {
        let mut frames = Vec::new();
        with_control(|control| {
            decode(store, &vae, &latent, options, control, &mut |_, _, p| {
                frames.push(p);
                Ok(())
            })
        });
        frames
    };
    for options in [with(None), with(Some(need)), with(None)] {
        let fresh = frames(&Store::new(cpu(None)), &options);
        assert!(frames(&store, &options) == fresh, "{:?}", options.budget);
    }
}
