//! Models that take turns in one process: two checkpoints of full size, each as it is, with a LoRA
//! and quantized. Every picture must be the same, byte for byte, as the one that a fresh process
//! makes. It is tried with all of the device's memory, and with a budget that holds one model.
//!
//! `cargo run --release -p nino-engine --example alternating -- gpu FOLDER [SIZE STEPS]` writes the
//! models with made-up weights into the folder, and fails where pictures differ.

#![allow(clippy::print_stdout)] // a command-line tool

#[path = "shared/made_up.rs"]
mod made_up;

use nino_dtype::DType;
use nino_engine::device::{self, DeviceChoice};
use nino_engine::{Checkpoint, Control, GenerateRequest, LoraSpec, Store, generate, plan_generate};
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// Which model makes each picture: every one after several others.
const TURNS: [usize; 14] = [0, 1, 2, 0, 3, 4, 1, 5, 0, 2, 4, 3, 5, 1];
const VARIANTS: usize = 6;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [device, folder, rest @ ..] = &args[..] else {
        return Err("give a device and a folder for the models".into());
    };
    let number = |i: usize, usual: usize| rest.get(i).map_or(Ok(usual), |n| n.parse());
    let job = Job {
        device,
        folder: Path::new(folder),
        size: number(0, 512)?,
        steps: number(1, 4)?,
    };
    // A fresh process makes one picture.
    if let Some(variant) = rest.get(2) {
        let store = Store::new(device::open(&job.choice(None)?)?.device);
        println!("{:016x}", job.picture(&store, variant.parse()?)?);
        return Ok(());
    }
    job.write_models()?;
    let fresh: Vec<u64> = (0..VARIANTS)
        .map(|variant| job.fresh(variant))
        .collect::<Result<_, _>>()?;
    let mut wrong = 0;
    for budget in [None, Some(job.largest()?)] {
        let store = Store::new(device::open(&job.choice(budget)?)?.device);
        let mut same = 0;
        for variant in TURNS {
            same += usize::from(job.picture(&store, variant)? == fresh[variant]);
        }
        let held = budget.map_or("all memory".into(), |b| format!("{} MiB", b >> 20));
        println!(
            "{held}: {same} of {} pictures as a fresh process makes them",
            TURNS.len()
        );
        wrong += TURNS.len() - same;
    }
    if wrong > 0 {
        return Err(format!("{wrong} pictures differ").into());
    }
    Ok(())
}

struct Job<'a> {
    device: &'a str,
    folder: &'a Path,
    size: usize,
    steps: usize,
}

impl Job<'_> {
    fn choice(&self, budget: Option<u64>) -> Result<DeviceChoice, Box<dyn Error>> {
        Ok(DeviceChoice {
            device: Some(self.device.parse()?),
            budget,
            ..DeviceChoice::default()
        })
    }

    fn write_models(&self) -> Result<(), Box<dyn Error>> {
        made_up::checkpoint(&self.folder.join("0.safetensors"), 1)?;
        made_up::checkpoint(&self.folder.join("1.safetensors"), 2)?;
        made_up::lora(&self.folder.join("lora.safetensors"), 3)
    }

    /// The first or second checkpoint as it is, with a LoRA, or quantized.
    fn model(&self, variant: usize) -> Result<Checkpoint, Box<dyn Error>> {
        let path = self.folder.join(format!("{}.safetensors", variant % 2));
        let plain = Checkpoint::open(&path, None)?;
        Ok(match variant / 2 {
            0 => plain,
            1 => {
                let spec = LoraSpec {
                    path: self.folder.join("lora.safetensors"),
                    unet: 1.0,
                    clip: 1.0,
                };
                plain.with_lora(&spec)?.0
            }
            _ => plain.quantized(DType::Q8_0),
        })
    }

    fn request(&self, model: &Checkpoint) -> GenerateRequest {
        GenerateRequest {
            width: self.size,
            height: self.size,
            steps: self.steps,
            ..GenerateRequest::new(model, "a red fox in snow")
        }
    }

    /// A number that stands for the bytes of a model's picture.
    fn picture(&self, store: &Store, variant: usize) -> Result<u64, Box<dyn Error>> {
        let model = self.model(variant)?;
        let never = AtomicBool::new(false);
        let mut control = Control {
            cancel: &never,
            on_event: &mut |_| {},
        };
        let request = self.request(&model);
        let made = generate(store, &model, &request, &mut control, &mut |_| Ok(()))?;
        let mut hasher = DefaultHasher::new();
        made.pictures[0].rgb.hash(&mut hasher);
        Ok(hasher.finish())
    }

    fn fresh(&self, variant: usize) -> Result<u64, Box<dyn Error>> {
        let numbers = [self.size, self.steps, variant].map(|n| n.to_string());
        let made = Command::new(std::env::current_exe()?)
            .arg(self.device)
            .arg(self.folder)
            .args(&numbers)
            .output()?;
        let told = String::from_utf8(made.stdout)?;
        u64::from_str_radix(told.trim(), 16).map_err(|_| {
            let error = String::from_utf8_lossy(&made.stderr);
            format!("no picture of model {variant}: {error}").into()
        })
    }

    /// Bytes that the largest of the models needs alone.
    fn largest(&self) -> Result<u64, Box<dyn Error>> {
        let device = device::open(&self.choice(None)?)?.device;
        let mut most = 0;
        for variant in 0..VARIANTS {
            let model = self.model(variant)?;
            let plan = plan_generate(
                &Store::for_pictures(device.clone(), 1),
                &model,
                &self.request(&model),
            )?;
            most = most.max(plan.peak_bytes());
        }
        Ok(most as u64)
    }
}
