//! Models whose parts are files of their own, and what is said when one is missing or of another family.

use nino_dtype::DType;
use nino_engine::{Checkpoint, EngineError, Family, ModelFiles};
use nino_weights::safetensors::{NewTensor, Writer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn write(path: &Path, tensors: &[(String, Vec<usize>)]) -> PathBuf {
    let list: Vec<NewTensor> = tensors
        .iter()
        .map(|(name, shape)| NewTensor {
            name: name.clone(),
            dtype: DType::F16,
            shape: shape.clone(),
        })
        .collect();
    let mut writer = Writer::create(path, &list, &BTreeMap::new()).unwrap();
    for (name, shape) in tensors {
        let n = shape.iter().product::<usize>();
        // A wide spread in the one bias that tells what SD 2.x predicts.
        let wide = name.ends_with("norm1.bias") && path.to_string_lossy().contains("v-pred");
        let value = |i: usize| {
            if wide && i.is_multiple_of(2) {
                0x3c00u16
            } else {
                0
            }
        };
        let bytes: Vec<u8> = (0..n).flat_map(|i| value(i).to_le_bytes()).collect();
        writer.write(&bytes).unwrap();
    }
    writer.finish().unwrap();
    path.to_owned()
}

/// Just enough of a UNet to be told apart.
fn unet(
    dir: &Path,
    name: &str,
    in_channels: usize,
    context: usize,
    label: Option<usize>,
) -> PathBuf {
    let p = |rest: &str| format!("model.diffusion_model.{rest}");
    let mut tensors = vec![
        (p("input_blocks.0.0.weight"), vec![32, in_channels, 3, 3]),
        (p("time_embed.0.weight"), vec![128, 32]),
        (p("out.2.weight"), vec![4, 32, 3, 3]),
    ];
    for block in ["input_blocks.1", "output_blocks.11"] {
        let proj = if context == 768 {
            vec![32, 32, 1, 1]
        } else {
            vec![32, 32]
        };
        tensors.push((
            p(&format!("{block}.0.in_layers.2.weight")),
            vec![32, 32, 3, 3],
        ));
        tensors.push((p(&format!("{block}.1.proj_in.weight")), proj));
        let t = format!("{block}.1.transformer_blocks.0");
        tensors.push((p(&format!("{t}.norm1.weight")), vec![32]));
        tensors.push((p(&format!("{t}.norm1.bias")), vec![32]));
        tensors.push((p(&format!("{t}.attn2.to_k.weight")), vec![32, context]));
    }
    tensors.extend(label.map(|n| (p("label_emb.0.0.weight"), vec![128, n])));
    write(&dir.join(name), &tensors)
}

fn clip(dir: &Path, name: &str, width: usize) -> PathBuf {
    let tensors = [
        (
            "text_model.embeddings.token_embedding.weight",
            vec![16, width],
        ),
        (
            "text_model.embeddings.position_embedding.weight",
            vec![77, width],
        ),
        (
            "text_model.encoder.layers.0.mlp.fc1.weight",
            vec![4 * width, width],
        ),
        (
            "text_model.encoder.layers.0.self_attn.q_proj.weight",
            vec![width, width],
        ),
    ];
    write(&dir.join(name), &tensors.map(|(n, s)| (n.to_owned(), s)))
}

fn open(model: &Path, clip: &[PathBuf], vae: Option<&Path>) -> Result<Checkpoint, EngineError> {
    Checkpoint::open_files(ModelFiles { model, clip, vae })
}

fn said(result: Result<Checkpoint, EngineError>) -> String {
    let error = result.err().expect("an error");
    format!("{}: {error}", error.kind().name())
}

#[test]
fn parts_are_put_together_or_their_absence_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let sd1 = unet(dir, "sd1.safetensors", 4, 768, None);
    let sdxl = unet(dir, "sdxl.safetensors", 4, 2048, Some(2816));
    let l = clip(dir, "clip_l.safetensors", 768);
    let g = clip(dir, "clip_g.safetensors", 1280);
    let vae = super::root().join("goldens/models/kl_sd.safetensors");
    let flux_vae = super::root().join("goldens/models/kl_flux.safetensors");

    let model = open(&sd1, std::slice::from_ref(&l), Some(&vae)).unwrap();
    assert_eq!(model.family(), Family::Sd1);
    let model = open(&sdxl, &[g.clone(), l.clone()], Some(&vae)).unwrap();
    assert_eq!(model.family(), Family::Sdxl);

    let cases = [
        (
            said(open(&sd1, &[], Some(&vae))),
            &[
                "mismatch: ",
                "sd1.safetensors",
                "takes the text encoder CLIP-L;",
                "found none",
            ][..],
        ),
        (
            said(open(&sdxl, std::slice::from_ref(&l), Some(&vae))),
            &[
                "mismatch: ",
                "SDXL takes",
                "CLIP-L and OpenCLIP-G; found CLIP-L",
            ],
        ),
        (
            said(open(&sd1, &[l.clone(), g.clone()], Some(&vae))),
            &[
                "mismatch: ",
                "SD 1.x takes",
                "CLIP-L; found CLIP-L and OpenCLIP-G",
            ],
        ),
        (
            said(open(&sd1, std::slice::from_ref(&vae), Some(&vae))),
            &["file: ", "kl_sd", "not a CLIP text encoder"],
        ),
        (
            said(open(&sd1, std::slice::from_ref(&l), None)),
            &["file: ", "no VAE", "none was given"],
        ),
        (
            said(open(&sd1, std::slice::from_ref(&l), Some(&flux_vae))),
            &["mismatch: ", "16 channels", "latents of 4"],
        ),
        (
            said(open(&vae, &[], None)),
            &["file: ", "no Stable Diffusion UNet", "KlVae"],
        ),
        (
            said(open(&l, &[], Some(&vae))),
            &["file: ", "no Stable Diffusion UNet", "ClipText"],
        ),
    ];
    for (said, parts) in cases {
        for part in parts {
            assert!(said.contains(part), "{part:?} is missing from {said}");
        }
    }
}

#[test]
fn what_a_unet_predicts_is_read_from_its_values() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let h = clip(dir, "clip_h.safetensors", 1024);
    let vae = super::root().join("goldens/models/kl_sd.safetensors");
    for (name, channels, size) in [
        ("sd2-base.safetensors", 4, 512),
        ("sd2-v-pred.safetensors", 4, 768),
        ("sd2-inpaint-v-pred.safetensors", 9, 512),
    ] {
        let file = unet(dir, name, channels, 1024, None);
        let model = open(&file, std::slice::from_ref(&h), Some(&vae)).unwrap();
        assert_eq!(model.family(), Family::Sd2);
        assert_eq!(model.defaults().size, size, "{name}");
    }
}
