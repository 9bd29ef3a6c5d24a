//! LoRAs on the model in the box, UNet and text encoder: whole requests.

use super::{cpu, nmse, root, store, with_control};
use nino_dtype::DType;
use nino_engine::{Checkpoint, GenerateRequest, LoraSpec, Picture, generate};
use nino_weights::names;
use nino_weights::safetensors::{NewTensor, Writer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn model() -> PathBuf {
    root().join("models/nino-emoji.gguf")
}

/// A LoRA of rank 4 for every matrix whose name contains one of `words`.
fn write_lora(path: &Path, words: &[&str]) -> usize {
    let reader = nino_weights::open(model()).unwrap();
    let (components, _) = names::canonical(reader.index()).unwrap();
    let mut list = Vec::new();
    for component in &components {
        let prefix = match component.net {
            names::Net::Unet => "diffusion_model.",
            names::Net::ClipText => "text_encoder.",
            _ => continue,
        };
        for entry in component.index.entries() {
            let Some(module) = entry.name.strip_suffix(".weight") else {
                continue;
            };
            if entry.shape.len() < 2 || !words.iter().any(|w| module.contains(w)) {
                continue;
            }
            let (out, cin) = (entry.shape[0], entry.n_values() / entry.shape[0]);
            for (end, shape) in [("lora_A", vec![4, cin]), ("lora_B", vec![out, 4])] {
                list.push(NewTensor {
                    name: format!("{prefix}{module}.{end}.weight"),
                    dtype: DType::F32,
                    shape,
                });
            }
        }
    }
    let mut writer = Writer::create(path, &list, &BTreeMap::new()).unwrap();
    for tensor in &list {
        let n = tensor.shape.iter().product::<usize>();
        let values = (0..n).map(|i| ((i as f32) * 0.7 + tensor.name.len() as f32).sin() * 0.1);
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        writer.write(&bytes).unwrap();
    }
    writer.finish().unwrap();
    list.len() / 2
}

fn run(loras: &[(&Path, f32, f32)]) -> (Vec<f32>, Picture) {
    let mut model = Checkpoint::open(&model(), None).unwrap();
    for (path, unet, clip) in loras {
        let spec = LoraSpec {
            path: (*path).to_owned(),
            unet: *unet,
            clip: *clip,
        };
        (model, _) = model.with_lora(&spec).unwrap();
    }
    let mut request = GenerateRequest::new(&model, "a red fox");
    (request.steps, request.width, request.height) = (2, 64, 64);
    let mut latent = Vec::new();
    let (made, _) = with_control(|control| {
        generate(&store(cpu()), &model, &request, control, &mut |l| {
            latent.clone_from(&l.latent.values);
            Ok(())
        })
    });
    (latent, made.unwrap().pictures.remove(0))
}

#[test]
fn loras_change_the_picture_add_up_and_cancel() {
    let dir = tempfile::tempdir().unwrap();
    let (unet, text) = (
        dir.path().join("unet.safetensors"),
        dir.path().join("text.safetensors"),
    );
    assert!(write_lora(&unet, &["attn1.to_q", "attn2.to_v", "in_layers.2"]) > 3);
    assert!(write_lora(&text, &["self_attn.q_proj", "mlp.fc1"]) > 1);
    let (plain, picture) = run(&[]);
    assert_eq!(
        run(&[(&unet, 0.0, 0.0), (&text, 1.0, 0.0)]).1,
        picture,
        "strength 0 is none"
    );
    let (with_unet, _) = run(&[(&unet, 0.8, 0.8)]);
    assert!(nmse(&with_unet, &plain) > 1e-3);
    let (with_text, _) = run(&[(&text, 0.8, 0.8)]);
    assert!(nmse(&with_text, &plain) > 1e-6);
    let (cancelled, _) = run(&[(&unet, 0.8, 0.8), (&unet, -0.8, -0.8)]);
    let error = nmse(&cancelled, &plain);
    assert!(error < 1e-9, "NMSE {error:.1e}");
    let (halves, _) = run(&[(&unet, 0.5, 0.5), (&unet, 0.3, 0.3)]);
    let error = nmse(&halves, &with_unet);
    assert!(error < 1e-9, "NMSE {error:.1e}");
}
