//! ControlNets that are told what to paint, against ComfyUI: see `goldens/generate/paint.py`.

use super::comfy::{Case, PROMPT};
use crate::generate::{GenerateRequest, Prompts};
use crate::tests::made;
use crate::{
    ControlNetFile, Family, Hint, HintImage, HintPaint, Image, Latent, LatentFormat, LatentSize,
    Mask,
};
use nino_sample::{Sampler, Scheduler};
use std::path::Path;
use std::sync::Arc;

const CHANNELS: usize = 16;
const SIZE: [usize; 2] = [6, 8];

/// In the place of a VAE, as the script has it.
fn encode(image: &Image, format: &LatentFormat) -> Latent {
    let [height, width] = [image.height / 8, image.width / 8];
    let mean = |x: usize, y: usize, color: usize| {
        let pixels = (0..64).map(|i| (y * 8 + i / 8) * image.width + x * 8 + i % 8);
        pixels.map(|at| image.values[at * 3 + color]).sum::<f32>() / 64.0
    };
    let value = |i: usize| {
        let (channel, at) = (i % CHANNELS, i / CHANNELS);
        mean(at % width, at / width, channel % 3) * (channel + 1) as f32 / 8.0 - 1.0
    };
    let mut latent = Latent {
        values: (0..height * width * CHANNELS).map(value).collect(),
        ..Latent::empty(1, CHANNELS, LatentSize::picture(height, width))
    };
    latent.scale_to_model(format);
    latent
}

/// A hint with its pictures encoded.
fn seen(
    case: &Case,
    net: &ControlNetFile,
    image: Image,
    paint: Option<HintPaint>,
    strength: f32,
) -> Arc<Hint> {
    let format = case.model.latent_format().unwrap();
    let hint = Hint {
        net: net.clone(),
        seen: HintImage::Pixels {
            images: Arc::new(vec![image]),
            vae: None,
            paint,
        },
        strength,
        percent: (0.0, 1.0),
        both_sides: false,
    };
    let pictures = hint.pictures(SIZE[0], SIZE[1], 8).unwrap();
    let rest = pictures.rest.as_ref().map(|rest| encode(rest, format));
    let latent = pictures.joined(&encode(&pictures.image, format), rest.as_ref());
    Arc::new(Hint {
        seen: HintImage::Encoded(Arc::new(latent)),
        ..hint
    })
}

fn image(case: &Case, key: &str, height: usize, width: usize) -> Image {
    Image {
        width,
        height,
        values: case.golden(key),
    }
}

fn mask(case: &Case) -> Arc<Mask> {
    Arc::new(Mask {
        width: 50,
        height: 30,
        values: case.golden("mask"),
    })
}

fn request(case: &Case, steps: usize) -> GenerateRequest {
    GenerateRequest {
        sampler: Sampler::find("euler").unwrap(),
        scheduler: Scheduler::find("simple").unwrap(),
        steps,
        cfg: 1.0,
        ..case.request(PROMPT)
    }
}

fn net(folder: &tempfile::TempDir, list: &str) -> ControlNetFile {
    let path = folder.path().join("net.safetensors");
    made::write_list(list, &path);
    ControlNetFile::open(&path).unwrap()
}

#[test]
fn flux_under_a_controlnet_for_inpainting_makes_what_comfyui_makes() {
    let case = Case::new("tiny_flux", Family::Flux).judged_by("paint");
    let folder = tempfile::tempdir().unwrap();
    let list = made::list("control_union").replace(
        "controlnet_x_embedder.weight 256x64",
        "controlnet_x_embedder.weight 256x68",
    );
    let lines = list.lines().filter(|line| !line.contains("mode_embedder"));
    let net = net(&folder, &lines.collect::<Vec<_>>().join("\n"));
    let (prompts, _) = case.text(&case.request(PROMPT));
    let paint = HintPaint {
        image: None,
        mask: Some(mask(&case)),
    };
    for (key, paint) in [("masked", Some(paint)), ("whole", None)] {
        let hint = seen(&case, &net, image(&case, "image", 40, 56), paint, 0.8);
        let prompts = Prompts {
            positive: prompts.positive.with_hint(Arc::clone(&hint)),
            negative: prompts.negative.with_hint(hint),
        };
        let found = case.sampled(&case.model, &request(&case, 8), &prompts);
        case.close(&format!("alimama/{key}"), &found);
    }
}

#[test]
fn qwen_image_under_a_controlnet_makes_what_comfyui_makes() {
    let case = Case::new("tiny_qwen_image", Family::QwenImage).judged_by("paint");
    let folder = tempfile::tempdir().unwrap();
    let plain = made::list("control_qwen");
    let name = "controlnet_x_embedder.weight 256x";
    let masked = plain.replace(&format!("{name}64"), &format!("{name}68"));
    let (prompts, _) = case.text(&case.request(PROMPT));
    let paint = HintPaint {
        image: None,
        mask: Some(mask(&case)),
    };
    for (key, list) in [("plain", plain), ("masked", masked)] {
        let net = net(&folder, &list);
        assert!(net.needs_vae() && net.modes() == 0);
        let image = image(&case, "image", 40, 56);
        let hint = seen(&case, &net, image, Some(paint.clone()), 0.8);
        let prompts = Prompts {
            positive: prompts.positive.with_hint(Arc::clone(&hint)),
            negative: prompts.negative.with_hint(hint),
        };
        let found = case.sampled(&case.model, &request(&case, 8), &prompts);
        case.close(&format!("qwen/{key}"), &found);
    }
}

#[test]
fn qwen_image_under_a_network_of_blocks_makes_what_comfyui_makes() {
    let case = Case::new("tiny_qwen_image", Family::QwenImage).judged_by("paint");
    let folder = tempfile::tempdir().unwrap();
    let plain = made::list("control_blockwise");
    let masked = plain.replace("img_in.weight 256x64", "img_in.weight 256x68");
    let (prompts, _) = case.text(&case.request(PROMPT));
    for (key, list) in [("plain", plain), ("masked", masked)] {
        let net = net(&folder, &list);
        let paint = HintPaint {
            image: None,
            mask: Some(mask(&case)),
        };
        let image = image(&case, "image", 40, 56);
        let hint = seen(&case, &net, image, Some(paint), 0.8);
        let mut model = case.model.clone();
        model.diffusion = model.diffusion.with_hint(hint);
        let found = case.sampled(&model, &request(&case, 8), &prompts);
        case.close(&format!("blocks/{key}"), &found);
    }
}

/// Adds a text to a file.
fn tell(path: &Path, key: &str, text: &str) {
    let bytes = std::fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let (header, data) = bytes[8..].split_at(length);
    let mut header: serde_json::Value = serde_json::from_slice(header).unwrap();
    header["__metadata__"] = serde_json::json!({ key: text });
    let mut header = header.to_string();
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let length = (header.len() as u64).to_le_bytes();
    std::fs::write(path, [&length, header.as_bytes(), data].concat()).unwrap();
}

#[test]
fn anima_under_lllite_makes_what_comfyui_makes() {
    let case = Case::new("tiny_anima", Family::Anima).judged_by("paint");
    let folder = tempfile::tempdir().unwrap();
    let plain = made::list("control_lllite");
    let name = "lllite_conditioning1.conv1.weight 12x";
    let masked = plain.replace(&format!("{name}3x"), &format!("{name}4x"));
    let (prompts, _) = case.text(&case.request(PROMPT));
    for (key, list, end) in [
        ("plain", &plain, 0.7),
        ("masked", &masked, 1.0),
        ("covered", &masked, 1.0),
    ] {
        let path = folder.path().join(format!("{key}.safetensors"));
        made::write_list(list, &path);
        if key == "covered" {
            tell(&path, "lllite.inpaint_masked_input", "true");
        }
        let hint = Hint {
            net: ControlNetFile::open(&path).unwrap(),
            seen: HintImage::Pixels {
                images: Arc::new(vec![image(&case, "image", 40, 56)]),
                vae: None,
                paint: Some(HintPaint {
                    image: None,
                    mask: Some(mask(&case)),
                }),
            },
            strength: 0.8,
            percent: (0.0, end),
            both_sides: false,
        };
        let mut model = case.model.clone();
        model.diffusion = model.diffusion.with_hint(Arc::new(hint));
        let found = case.sampled(&model, &request(&case, 8), &prompts);
        case.close(&format!("lllite/{key}"), &found);
    }
}

#[test]
fn z_image_under_its_controlnet_paints_what_comfyui_paints() {
    let folder = tempfile::tempdir().unwrap();
    let list = made::list("tiny_z_image").replace(
        "diffusion_model.layers.{0-1}.",
        "diffusion_model.layers.{0-29}.",
    );
    let case = Case::of("paint", Family::ZImage, &list);
    let net = net(&folder, &made::list("control_z_second"));
    let (prompts, _) = case.text(&case.request(PROMPT));
    let given = image(&case, "image", 40, 56);
    let under = Arc::new(image(&case, "under", 52, 60));
    let gray = Image {
        values: vec![0.5; under.values.len()],
        ..*under
    };
    for (key, image, under) in [
        ("all", given.clone(), Some(Arc::clone(&under))),
        ("under", gray, Some(under)),
        ("mask", given, None),
    ] {
        let paint = HintPaint {
            image: under,
            mask: Some(mask(&case)),
        };
        let hint = seen(&case, &net, image, Some(paint), 0.7);
        let mut model = case.model.clone();
        model.diffusion = model.diffusion.with_hint(hint);
        let found = case.sampled(&model, &request(&case, 3), &prompts);
        case.close(&format!("z/{key}"), &found);
    }
}
