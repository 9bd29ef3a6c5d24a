//! Writes the files of a published model with made-up weights, each of its real size, to run whole
//! pictures and clips of models that are not at hand: safetensors in f16, but for the diffusion
//! model, which is a GGUF file with its matrices in Q4_K unless `--plain` asks for f16, too.
//!
//! `cargo run --release -p nino-engine --example made_up_files -- flux1-dev FOLDER [--plain]`

#![allow(clippy::print_stdout)] // a command-line tool

use nino_dtype::DType;
use nino_engine::SyntheticParams;
use nino_graph::{ParamSource, ParamSpec, Shape};
use nino_models::describe::tensors;
use nino_models::{Denoiser, Network, Vae, clip, flux, flux2, llm, t5, wan_transformer, z_image};
use nino_weights::safetensors::NewTensor;
use nino_weights::{Metadata, gguf, safetensors};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

const MODELS: &str = "flux1-dev, wan2.2-i2v-14b, z-image-turbo, flux2-klein-4b";

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, folder, flags @ ..] = &args[..] else {
        return Err(format!("give one of {MODELS}, and a folder").into());
    };
    let plain = flags.iter().any(|flag| flag == "--plain");
    let vae = |name: &str| Vae::spec(name).map(Network::Vae);
    let wan = || {
        let config = wan_transformer::Config::large().with_inputs(36);
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
        other => return Err(format!("{other} is none of {MODELS}").into()),
    };
    for (seed, (name, network)) in (1..).zip(files) {
        let network = network.ok_or("a network without a description")?;
        let in_blocks = matches!(network, Network::Denoiser(_)) && !plain;
        let extension = if in_blocks { "gguf" } else { "safetensors" };
        let path = Path::new(folder).join(format!("{name}.{extension}"));
        write(&path, &network, in_blocks, seed)?;
        println!("{}", path.display());
    }
    Ok(())
}

fn write(path: &Path, network: &Network, in_blocks: bool, seed: u64) -> Result<(), Box<dyn Error>> {
    let list: Vec<NewTensor> = tensors(network)?
        .into_iter()
        .map(|tensor| NewTensor {
            dtype: match &tensor.shape[..] {
                [_, row] if in_blocks && row.is_multiple_of(256) => DType::Q4_K,
                _ => DType::F16,
            },
            name: tensor.name,
            shape: tensor.shape,
        })
        .collect();
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
    if in_blocks {
        let mut writer = gguf::Writer::create(path, &list, &Metadata::default())?;
        for tensor in &list {
            writer.write(&values(tensor)?)?;
        }
        writer.finish()?;
    } else {
        let mut writer = safetensors::Writer::create(path, &list, &BTreeMap::new())?;
        for tensor in &list {
            writer.write(&values(tensor)?)?;
        }
        writer.finish()?;
    }
    Ok(())
}
