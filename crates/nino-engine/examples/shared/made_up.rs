//! Model files of real size with made-up weights.

use nino_dtype::DType;
use nino_models::describe::tensors;
use nino_models::{Denoiser, Network, Vae, clip, unet};
use nino_weights::safetensors::{NewTensor, Writer};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

/// Writes a whole SD 1.5 checkpoint in f16. Weights are random and keep activations finite.
pub(crate) fn checkpoint(path: &Path, seed: u32) -> Result<(), Box<dyn Error>> {
    let vae = Vae::spec("sd-vae").ok_or("the SD VAE is known")?;
    let parts = [
        (
            "model.diffusion_model.",
            Network::Denoiser(Denoiser::Unet(unet::Config::sd15())),
        ),
        (
            "cond_stage_model.transformer.",
            Network::ClipText(clip::Config::clip_l()),
        ),
        ("first_stage_model.", Network::Vae(vae)),
    ];
    let mut list = Vec::new();
    for (prefix, network) in &parts {
        for tensor in tensors(network)? {
            list.push(NewTensor {
                name: format!("{prefix}{}", tensor.name),
                dtype: DType::F16,
                shape: published(&tensor.name, tensor.shape),
            });
        }
    }
    write(path, &list, seed)
}

/// The shape of a tensor in SD 1.5 as it was published, where some linear layers are convolutions
/// of one pixel. Programs other than nino insist on that.
fn published(name: &str, mut shape: Vec<usize>) -> Vec<usize> {
    let layer = name.strip_suffix(".weight").unwrap_or_default();
    let of_attention = layer.contains("attn_1.") && shape.len() == 2;
    if of_attention
        || ["proj_in", "proj_out", "quant_conv"]
            .iter()
            .any(|end| layer.ends_with(end))
    {
        shape.resize(4, 1);
    }
    shape
}

/// Writes a LoRA of rank 8 for every attention's queries of such a checkpoint's UNet.
#[allow(dead_code)] // not every example has a LoRA
pub(crate) fn lora(path: &Path, seed: u32) -> Result<(), Box<dyn Error>> {
    let unet = Network::Denoiser(Denoiser::Unet(unet::Config::sd15()));
    let mut list = Vec::new();
    for tensor in tensors(&unet)? {
        let Some(module) = tensor.name.strip_suffix("to_q.weight") else {
            continue;
        };
        let [out, input] = tensor.shape[..] else {
            continue;
        };
        for (end, shape) in [("lora_A", [8, input]), ("lora_B", [out, 8])] {
            list.push(NewTensor {
                name: format!("diffusion_model.{module}to_q.{end}.weight"),
                dtype: DType::F16,
                shape: shape.to_vec(),
            });
        }
    }
    write(path, &list, seed)
}

fn write(path: &Path, list: &[NewTensor], seed: u32) -> Result<(), Box<dyn Error>> {
    let mut writer = Writer::create(path, list, &BTreeMap::new())?;
    let mut state = seed;
    for tensor in list {
        let n: usize = tensor.shape.iter().product();
        let fan: usize = tensor.shape.iter().skip(1).product();
        let is_gain = tensor.shape.len() == 1 && tensor.name.ends_with("weight");
        let scale = 0.5 / (fan.max(1) as f32).sqrt();
        let value = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let unit = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
            if is_gain {
                1.0 + 0.1 * unit
            } else {
                scale * unit
            }
        };
        let values: Vec<f32> = std::iter::repeat_with(value).take(n).collect();
        let mut bytes = vec![0; n * 2];
        nino_dtype::encode(DType::F16, &values, &mut bytes)?;
        writer.write(&bytes)?;
    }
    writer.finish()?;
    Ok(())
}
