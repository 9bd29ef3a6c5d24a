//! What the second picture of a model costs beside its kernels: a checkpoint is opened once, and
//! the times of every picture are printed. With `--make SPEC FILE` it writes a checkpoint with
//! made-up weights first.
//!
//! `cargo run --release -p nino-engine --example second_picture -- gpu sd15.safetensors 5 [--make
//! sd15]`

#![allow(clippy::print_stdout)] // a command-line tool

use nino_dtype::DType;
use nino_engine::device::{self, DeviceChoice};
use nino_engine::{Checkpoint, Control, GenerateRequest, Store, generate};
use nino_models::describe::tensors;
use nino_models::{Denoiser, Network, Vae, clip, unet};
use nino_weights::safetensors::{NewTensor, Writer};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, path, pictures, make @ ..] = &args[..] else {
        return Err("give a device, a checkpoint and how many pictures to make".into());
    };
    let path = Path::new(path);
    if !make.is_empty() {
        write_made_up(path)?;
    }
    let choice = DeviceChoice {
        device: Some(name.parse()?),
        ..DeviceChoice::default()
    };
    let store = Store::new(device::open(&choice)?.device);
    let model = Checkpoint::open(path, None)?;
    for i in 0..pictures.parse()? {
        let mut request = GenerateRequest::new(&model, "a red fox in snow");
        request.seed.value = i;
        let never = AtomicBool::new(false);
        let mut control = Control {
            cancel: &never,
            on_event: &mut |_| {},
        };
        let started = Instant::now();
        let made = generate(&store, &model, &request, &mut control, &mut |_| Ok(()))?;
        println!(
            "picture {i}: {:.2?} in all, text {:.2?}, load {:.2?}, sampling {:.2?}, decode {:.2?} and {:.2?}",
            started.elapsed(),
            made.text_time,
            made.load_time,
            made.sample_time,
            made.decoded.load_time,
            made.decoded.decode_time
        );
    }
    println!("{:?}", store.usage());
    Ok(())
}

/// A whole SD 1.5 checkpoint in f16 with made-up weights that keep activations finite.
fn write_made_up(path: &Path) -> Result<(), Box<dyn Error>> {
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
                shape: tensor.shape,
            });
        }
    }
    let mut writer = Writer::create(path, &list, &BTreeMap::new())?;
    let mut state = 1u32;
    for tensor in &list {
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
