//! Z-Image under its union ControlNet against ComfyUI: see `goldens/generate/z_control.py`.

use super::comfy::{Case, PROMPT, planes};
use crate::generate::GenerateRequest;
use crate::tests::made;
use crate::{ControlNetFile, Family, Hint, HintImage, Latent, LatentFormat, LatentSize};
use nino_sample::{Sampler, Scheduler};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

const CHANNELS: usize = 16;
const UNTRAINED: &str = "control_noise_refiner.0.after_proj.weight";

#[test]
fn z_image_under_its_controlnet_makes_what_comfyui_makes() {
    let list = made::list("tiny_z_image");
    let list = list.replace(
        "diffusion_model.layers.{0-1}.",
        "diffusion_model.layers.{0-29}.",
    );
    let case = Case::of("z_control", Family::ZImage, &list);
    let folder = tempfile::tempdir().unwrap();
    let (prompts, _) = case.text(&case.request(PROMPT));
    for version in ["first", "second", "untrained"] {
        let net = net(
            &folder.path().join(format!("{version}.safetensors")),
            version,
        );
        assert!(net.needs_vae() && net.modes() == 0);
        let keys = case.keys(&format!("{version}/"));
        assert_eq!(keys.len(), 2);
        for key in keys {
            let parts: Vec<&str> = key.split('/').collect();
            let [_, width, cfg] = parts[..] else {
                panic!("{key}")
            };
            let request = GenerateRequest {
                sampler: Sampler::find("euler").unwrap(),
                scheduler: Scheduler::find("simple").unwrap(),
                steps: 3,
                width: width.parse().unwrap(),
                cfg: cfg.parse().unwrap(),
                ..case.request(PROMPT)
            };
            let seen = latent(&case, "encoded", request.width);
            let seen = match version {
                "first" => seen,
                _ => painted(&seen, &latent(&case, "gray", request.width)),
            };
            let hint = Hint {
                net: net.clone(),
                seen: HintImage::Encoded(Arc::new(seen)),
                strength: 0.7,
                percent: (0.0, 1.0),
                both_sides: false,
            };
            // Steering the model steers both prompts.
            let mut model = case.model.clone();
            model.diffusion = model.diffusion.with_hint(Arc::new(hint));
            case.close(&key, &case.sampled(&model, &request, &prompts));
        }
    }
}

/// A network's file; of an untrained one a weight is zero.
fn net(path: &Path, version: &str) -> ControlNetFile {
    let list = match version {
        "first" => "control_z_first",
        _ => "control_z_second",
    };
    made::write_list(&made::list(list), path);
    if version == "untrained" {
        let reader = nino_weights::open(path).unwrap();
        let entry = reader.entry(UNTRAINED).unwrap();
        let (at, n) = (entry.spans[0].offset, entry.n_bytes());
        let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&vec![0; n as usize]).unwrap();
    }
    ControlNetFile::open(path).unwrap()
}

/// What stands for an encoded picture, in the model's units. A latent of an odd size has one column
/// more.
fn latent(case: &Case, kind: &str, width: usize) -> Latent {
    let (height, width) = (6, (width / 8).next_multiple_of(2));
    let values = case.golden(&format!("{kind}/{}", 8 * width));
    let at = |i: usize| values[i % CHANNELS * height * width + i / CHANNELS];
    let mut latent = Latent {
        values: (0..values.len()).map(at).collect(),
        ..Latent::empty(1, CHANNELS, LatentSize::picture(height, width))
    };
    assert_eq!(planes(&latent), values);
    latent.scale_to_model(LatentFormat::by_name("flux").unwrap());
    latent
}

/// An encoded picture beside a mask of nothing that stays and another encoded picture.
fn painted(latent: &Latent, rest: &Latent) -> Latent {
    let pixels = latent.values.chunks_exact(latent.channels);
    let rest = rest.values.chunks_exact(rest.channels);
    let beside = pixels.zip(rest).flat_map(|(own, rest)| [own, &[0.0], rest]);
    Latent {
        channels: 2 * latent.channels + 1,
        values: beside.flatten().copied().collect(),
        ..latent.clone()
    }
}
