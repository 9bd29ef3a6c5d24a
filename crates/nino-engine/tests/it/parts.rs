//! Models whose parts are files of their own, and what is said when one is missing or of another
//! family.

use nino_dtype::DType;
use nino_engine::{Checkpoint, EngineError, Family, ModelFiles};
use nino_models::{Denoiser, Network, clip, describe, unet};
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

/// Names and shapes of a network.
fn tensors(network: &Network, prefix: &str) -> Vec<(String, Vec<usize>)> {
    let tensors = describe::tensors(network).unwrap().into_iter();
    tensors
        .map(|t| (format!("{prefix}{}", t.name), t.shape))
        .collect()
}

/// A narrow UNet with the blocks of SD 1.x.
fn unet_tensors(
    in_channels: usize,
    context_dim: usize,
    adm_in: Option<usize>,
) -> Vec<(String, Vec<usize>)> {
    let sd15 = unet::Config::sd15();
    let narrow = |blocks: &[unet::Block]| {
        let blocks = blocks.iter().map(|b| unet::Block {
            res: b.res.map(|_| 32),
            ..*b
        });
        blocks.collect()
    };
    let config = unet::Config {
        in_channels,
        context_dim,
        adm_in,
        model_channels: 32,
        input_blocks: narrow(&sd15.input_blocks),
        output_blocks: narrow(&sd15.output_blocks),
        ..sd15
    };
    tensors(
        &Network::Denoiser(Denoiser::Unet(config)),
        "model.diffusion_model.",
    )
}

fn unet(
    dir: &Path,
    name: &str,
    in_channels: usize,
    context: usize,
    label: Option<usize>,
) -> PathBuf {
    write(&dir.join(name), &unet_tensors(in_channels, context, label))
}

fn clip_tensors(width: usize) -> Vec<(String, Vec<usize>)> {
    let config = clip::Config {
        vocab: 16,
        width,
        mlp: 64,
        n_layers: 1,
        projection: None,
        ..clip::Config::clip_l()
    };
    tensors(&Network::ClipText(config), "")
}

fn clip(dir: &Path, name: &str, width: usize) -> PathBuf {
    write(&dir.join(name), &clip_tensors(width))
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
                "needs the text encoder CLIP-L;",
                "found none",
            ][..],
        ),
        (
            said(open(&sdxl, std::slice::from_ref(&l), Some(&vae))),
            &[
                "mismatch: ",
                "SDXL needs",
                "CLIP-L and OpenCLIP-G; found CLIP-L",
            ],
        ),
        (
            said(open(&sd1, &[l.clone(), g.clone()], Some(&vae))),
            &[
                "mismatch: ",
                "SD 1.x needs",
                "CLIP-L; found CLIP-L and OpenCLIP-G",
            ],
        ),
        (
            said(open(&sd1, std::slice::from_ref(&vae), Some(&vae))),
            &["file: ", "kl_sd", "not a CLIP or T5 text encoder"],
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
            &["file: ", "no supported diffusion model", "KlVae"],
        ),
        (
            said(open(&l, &[], Some(&vae))),
            &["file: ", "no supported diffusion model", "ClipText"],
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

/// Takes one tensor out, gives another a different shape, and adds a third below `prefix`.
fn damage(tensors: &mut Vec<(String, Vec<usize>)>, [out, changed]: [&str; 2], prefix: &str) {
    tensors.retain(|(name, _)| !name.ends_with(out));
    let (_, shape) = tensors
        .iter_mut()
        .find(|(n, _)| n.ends_with(changed))
        .unwrap();
    shape[0] += 1;
    tensors.push((format!("{prefix}adapter.weight"), vec![3]));
}

#[test]
fn a_damaged_unet_or_text_encoder_is_one_error_before_anything_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let sd1 = unet(dir, "sd1.safetensors", 4, 768, None);
    let l = clip(dir, "clip_l.safetensors", 768);
    let vae = super::root().join("goldens/models/kl_sd.safetensors");

    let mut tensors = unet_tensors(4, 768, None);
    let names = ["time_embed.2.bias", "time_embed.0.bias"];
    damage(&mut tensors, names, "model.diffusion_model.");
    let bad_unet = write(&dir.join("bad_unet.safetensors"), &tensors);
    let mut tensors = clip_tensors(768);
    damage(&mut tensors, ["mlp.fc2.bias", "layer_norm1.weight"], "");
    let bad_clip = write(&dir.join("bad_clip.safetensors"), &tensors);

    for (said, parts) in [
        (
            said(open(&bad_unet, std::slice::from_ref(&l), Some(&vae))),
            [
                "bad_unet.safetensors",
                "1 missing (time_embed.2.bias)",
                "1 mis-shaped (time_embed.0.bias is [129] instead of [128])",
                "1 unknown (adapter.weight)",
            ],
        ),
        (
            said(open(&sd1, std::slice::from_ref(&bad_clip), Some(&vae))),
            [
                "bad_clip.safetensors",
                "1 missing (text_model.encoder.layers.0.mlp.fc2.bias)",
                "layer_norm1.weight is [769] instead of [768])",
                "1 unknown (adapter.weight)",
            ],
        ),
    ] {
        for part in parts {
            assert!(said.contains(part), "{part:?} is missing from {said}");
        }
    }
}
