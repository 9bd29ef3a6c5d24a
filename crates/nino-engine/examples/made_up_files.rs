//! Writes the files of a published model with made-up weights, each of its real size, to run whole
//! pictures and clips of models that are not at hand: safetensors in f16, but for the diffusion
//! model, which is a GGUF file with its matrices in Q4_K unless `--plain` asks for f16, too,
//! `--int8` for a factor for every row of 8-bit integers, or `--int8-convrot` for the same of
//! rotated rows, as ComfyUI's files have them.
//!
//! `cargo run --release -p nino-engine --example made_up_files -- flux1-dev FOLDER [--plain]`

#![allow(clippy::print_stdout)] // a command-line tool

use nino_dtype::DType;
use nino_engine::SyntheticParams;
use nino_graph::{ParamSource, ParamSpec, Shape};
use nino_models::describe::tensors;
use nino_models::{
    Denoiser, Network, Vae, anima, clip, flux, flux2, krea2, llm, t5, wan_transformer, z_image,
};
use nino_weights::safetensors::NewTensor;
use nino_weights::{Metadata, gguf, safetensors};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

const MODELS: &str = "flux1-dev, wan2.2-i2v-14b, z-image-turbo, flux2-klein-4b, krea2-turbo, anima";
/// What describes a layer of 8-bit integers.
const INT8: &str = r#"{"format": "int8_tensorwise"}"#;
const ROTATED: &str = r#"{"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 256}"#;

/// How the matrices of a diffusion model are stored.
#[derive(Clone, Copy, PartialEq)]
enum Stored {
    Blocks,
    Plain,
    /// With what describes a layer.
    Int8(&'static str),
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, folder, flags @ ..] = &args[..] else {
        return Err(format!("give one of {MODELS}, and a folder").into());
    };
    let stored = match flags {
        [] => Stored::Blocks,
        [flag] if flag == "--plain" => Stored::Plain,
        [flag] if flag == "--int8" => Stored::Int8(INT8),
        [flag] if flag == "--int8-convrot" => Stored::Int8(ROTATED),
        _ => return Err("flags are --plain, --int8 and --int8-convrot, one at most".into()),
    };
    let vae = |name: &str| Vae::spec(name).map(Network::Vae);
    let wan = || {
        let config = wan_transformer::Config::t2v_14b().with_in_channels(36);
        Some(Network::Denoiser(Denoiser::Wan(config)))
    };
    let files = match model.as_str() {
        "flux1-dev" => vec![
            (
                "flux1-dev",
                Some(Network::Denoiser(Denoiser::Flux(flux::Config::dev()))),
            ),
            ("clip_l", Some(Network::ClipText(clip::Config::clip_l()))),
            ("t5xxl", Some(Network::T5(t5::Config::xxl()))),
            ("ae", vae("flux-vae")),
        ],
        "wan2.2-i2v-14b" => vec![
            ("wan2.2_i2v_high_noise_14B", wan()),
            ("wan2.2_i2v_low_noise_14B", wan()),
            (
                "umt5_xxl",
                Some(Network::T5(t5::Config::xxl().multilingual())),
            ),
            ("wan_2.1_vae", vae("wan21-vae")),
        ],
        "z-image-turbo" => vec![
            (
                "z_image_turbo",
                Some(Network::Denoiser(Denoiser::ZImage(
                    z_image::Config::published(),
                ))),
            ),
            ("qwen_3_4b", Some(Network::Llm(llm::Config::qwen3_4b()))),
            ("ae", vae("flux-vae")),
        ],
        "flux2-klein-4b" => vec![
            (
                "flux-2-klein-4b",
                Some(Network::Denoiser(
                    Denoiser::Flux2(flux2::Config::klein_4b()),
                )),
            ),
            ("qwen_3_4b", Some(Network::Llm(llm::Config::qwen3_4b()))),
            ("flux2-vae", vae("flux2-vae")),
        ],
        "krea2-turbo" => vec![
            (
                "krea2_turbo",
                Some(Network::Denoiser(Denoiser::Krea2(
                    krea2::Config::published(),
                ))),
            ),
            ("qwen3vl_4b", Some(Network::Llm(llm::Config::qwen3_vl_4b()))),
            ("qwen_image_vae", vae("wan21-vae")),
        ],
        "anima" => vec![
            (
                "anima-base",
                Some(Network::Denoiser(Denoiser::Anima(
                    anima::Config::published(),
                ))),
            ),
            (
                "qwen_3_06b_base",
                Some(Network::Llm(llm::Config::qwen3_06b())),
            ),
            ("qwen_image_vae", vae("wan21-vae")),
        ],
        other => return Err(format!("{other} is none of {MODELS}").into()),
    };
    for (seed, (name, network)) in (1..).zip(files) {
        let network = network.ok_or("a network without a description")?;
        let stored = match &network {
            Network::Denoiser(_) => stored,
            _ => Stored::Plain,
        };
        let extension = match stored {
            Stored::Blocks => "gguf",
            Stored::Plain | Stored::Int8(_) => "safetensors",
        };
        let path = Path::new(folder).join(format!("{name}.{extension}"));
        write(&path, &network, stored, seed)?;
        println!("{}", path.display());
    }
    Ok(())
}

fn write(path: &Path, network: &Network, stored: Stored, seed: u64) -> Result<(), Box<dyn Error>> {
    let mut list = Vec::new();
    for tensor in tensors(network)? {
        let is_matrix = matches!(tensor.shape[..], [_, row] if row.is_multiple_of(256));
        let dtype = match stored {
            Stored::Blocks if is_matrix => DType::Q4_K,
            Stored::Int8(_) if is_matrix && tensor.name.ends_with(".weight") => DType::I8,
            _ => DType::F16,
        };
        let (name, shape) = (tensor.name, tensor.shape);
        let new = |name: String, dtype, shape| NewTensor { name, dtype, shape };
        let layer = name.strip_suffix(".weight").unwrap_or_default().to_owned();
        let rows = shape[0];
        list.push(new(name, dtype, shape));
        if let (Stored::Int8(described), DType::I8) = (stored, dtype) {
            let scale = format!("{layer}.weight_scale");
            list.push(new(scale, DType::F32, vec![rows, 1]));
            let marker = format!("{layer}.comfy_quant");
            list.push(new(marker, DType::U8, vec![described.len()]));
        }
    }
    let source = SyntheticParams { seed };
    let values = |tensor: &NewTensor| -> Result<Vec<u8>, Box<dyn Error>> {
        let param = ParamSpec {
            shape: Shape::try_new(&tensor.shape).ok_or("a tensor of too many dimensions")?,
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            inline: None,
        };
        let mut bytes = vec![0; param.bytes()];
        source.read(&param, &mut bytes)?;
        Ok(bytes)
    };
    if stored == Stored::Blocks {
        let mut writer = gguf::Writer::create(path, &list, &Metadata::default())?;
        for tensor in &list {
            writer.write(&values(tensor)?)?;
        }
        writer.finish()?;
    } else {
        let mut writer = safetensors::Writer::create(path, &list, &BTreeMap::new())?;
        let mut scales = Vec::new();
        for tensor in &list {
            let bytes = match (stored, tensor.dtype) {
                (_, DType::I8) => {
                    let plain = NewTensor {
                        dtype: DType::F32,
                        ..tensor.clone()
                    };
                    let integers;
                    (integers, scales) = in_integers(&values(&plain)?, tensor.shape[1]);
                    integers
                }
                (Stored::Int8(_), DType::F32) => std::mem::take(&mut scales),
                (Stored::Int8(described), DType::U8) => described.as_bytes().to_vec(),
                _ => values(tensor)?,
            };
            writer.write(&bytes)?;
        }
        writer.finish()?;
    }
    Ok(())
}

/// Numbers in f32 as integers, and the factors of their rows, as bytes.
fn in_integers(bytes: &[u8], row: usize) -> (Vec<u8>, Vec<u8>) {
    let values: Vec<f32> = bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect();
    let (mut integers, mut factors) = (Vec::with_capacity(values.len()), Vec::new());
    for row in values.chunks_exact(row) {
        let most = row
            .iter()
            .fold(f32::MIN_POSITIVE, |most, v| most.max(v.abs()));
        let factor = most / 127.0;
        integers.extend(
            row.iter()
                .map(|v| ((v / factor).round() as i8).cast_unsigned()),
        );
        factors.extend(factor.to_le_bytes());
    }
    (integers, factors)
}
