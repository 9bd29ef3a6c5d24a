//! What the second picture of a model costs beside its kernels, and what loading costs: a
//! checkpoint is opened once, and the times of every picture are printed, then the time of another
//! prompt, whose encoders are loaded already. With `--make` it writes the checkpoint, an SD 1.5
//! with made-up weights, first; with `--quick` pictures take one step, to time loading alone. A
//! model in parts has them behind `--clip` and `--vae`, and `--side` is the width and height.
//!
//! `cargo run --release -p nino-engine --example second_picture -- gpu sd15.safetensors 5 [--make]`
//! `… --example second_picture -- gpu z_image_turbo.safetensors 5 --clip qwen_3_4b.safetensors \
//! --vae ae.safetensors`

#![allow(clippy::print_stdout)] // a command-line tool

#[path = "shared/made_up.rs"]
mod made_up;

use nino_engine::device::{self, DeviceChoice};
use nino_engine::{
    Checkpoint, Control, GenerateRequest, ModelFiles, Store, encode_text, generate, plan_generate,
};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, path, pictures, flags @ ..] = &args[..] else {
        return Err("give a device, a checkpoint and how many pictures to make".into());
    };
    let path = Path::new(path);
    let has = |flag: &str| flags.iter().any(|given| given == flag);
    if has("--make") {
        made_up::checkpoint(path, 1)?;
    }
    let choice = DeviceChoice {
        device: Some(name.parse()?),
        ..DeviceChoice::default()
    };
    let store = Store::new(device::open(&choice)?.device);
    let part = |flag: &str| {
        let at = flags.iter().position(|given| given == flag)?;
        flags.get(at + 1).map(PathBuf::from)
    };
    let model = Checkpoint::open_files(ModelFiles {
        model: path,
        clip: part("--clip").as_slice(),
        vae: part("--vae").as_deref(),
    })?;
    let never = AtomicBool::new(false);
    let mut control = Control {
        cancel: &never,
        on_event: &mut |_| {},
    };
    let mut request = GenerateRequest::new(&model, "a red fox in snow");
    if has("--quick") {
        request.steps = 1;
    }
    if let Some(at) = flags.iter().position(|given| given == "--side") {
        let side = flags.get(at + 1).ok_or("--side wants pixels")?.parse()?;
        (request.width, request.height) = (side, side);
    }
    let started = Instant::now();
    plan_generate(&store, &model, &request)?;
    println!("planned in {:.2?}", started.elapsed());
    for i in 0..pictures.parse()? {
        request.seed.value = i;
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
    let started = Instant::now();
    encode_text(&store, &model.text, "a blue boat", &[], &mut control)?;
    println!("another prompt: {:.2?}", started.elapsed());
    println!("{:?}", store.usage());
    Ok(())
}
