//! `nino generate`: a prompt to a picture.

mod metadata;
#[cfg(test)]
mod tests;

use crate::args::GenerateArgs;
use crate::bytes::Bytes;
use crate::decode::{device_text, numbered, show};
use crate::device::{self, Choice};
use crate::env::Env;
use crate::failure::Usage;
use crate::interrupt;
use crate::printer::{self, Printer};
use anyhow::{Context, Result};
use nino_engine::media::write_picture;
use nino_engine::{
    BUILTIN, Checkpoint, Control, DecodeOptions, Event, GenerateRequest, Generated, Rng,
    SamplerInfo, Scheduler, Seed, builtin_model,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub(crate) fn run(args: &GenerateArgs, env: &Env, printer: Printer) -> Result<()> {
    let started = Instant::now();
    let choice = Choice::new(&args.device, env)?;
    let model = open_model(args, &choice)?;
    let request = request(args, &model)?;
    for tip in tips(&request, &model) {
        printer::note(&format!("tip: {tip}"));
    }
    let output = output_path(args, &request);
    let opened = device::open(&choice)?;
    let bar = printer.progress(request.steps as u64);
    let mut on_event = |event: Event| show(&bar, event);
    let mut control = Control {
        cancel: interrupt::flag(),
        on_event: &mut on_event,
    };
    let rescue = output.with_extension("latent");
    let latent_file = args.save_latent.as_deref().unwrap_or(&rescue);
    let format = BTreeMap::from([("prompt".to_owned(), request.prompt.clone())]);
    let made = nino_engine::generate(
        &*opened.device,
        &model,
        &request,
        &mut control,
        &mut |latent| latent.save(latent_file, &format),
    );
    let made = made.with_context(|| rescued(latent_file))?;
    let text = metadata::text(&request, &model, &device_text(&opened));
    let files = write_all(&output, &made, &text).with_context(|| rescued(latent_file))?;
    if args.save_latent.is_none() {
        // It served its purpose; one that cannot be removed does no harm.
        let _ = std::fs::remove_file(&rescue);
    }
    bar.finish_and_clear();
    let report = Report::new(
        &request,
        &model,
        &made,
        files,
        device_text(&opened),
        started,
    );
    printer.text(&report)?;
    printer.document(&report)
}

fn open_model(args: &GenerateArgs, choice: &Choice) -> Result<Checkpoint> {
    let path = match &args.model {
        Some(path) if path.as_os_str() != BUILTIN || path.exists() => path.clone(),
        _ => {
            let cache = choice.cache_dir.clone().unwrap_or_else(std::env::temp_dir);
            builtin_model(&cache)?
        }
    };
    Ok(Checkpoint::open(&path, args.vae.as_deref())?)
}

fn request(args: &GenerateArgs, model: &Checkpoint) -> Result<GenerateRequest> {
    let defaults = model.defaults();
    let sampler = SamplerInfo::find(args.sampler.as_deref().unwrap_or(defaults.sampler))
        .map_err(|e| usage(&e))?;
    let scheduler = Scheduler::find(args.scheduler.as_deref().unwrap_or(defaults.scheduler))
        .map_err(|e| usage(&e))?;
    let rng = Rng::parse(&args.rng).ok_or_else(|| {
        Usage(format!(
            "no stream of noise is called {:?}; there are torch and philox",
            args.rng
        ))
    })?;
    let (width, height) = args
        .size
        .map_or((defaults.size, defaults.size), |s| (s.width, s.height));
    Ok(GenerateRequest {
        prompt: args.prompt.clone(),
        negative: args.negative.clone(),
        seed: Seed {
            value: args.seed.unwrap_or_else(new_seed),
            rng,
        },
        steps: args.steps.map_or(defaults.steps, |n| n as usize),
        cfg: args.cfg.unwrap_or(defaults.cfg),
        sampler,
        scheduler,
        width: rounded("width", width),
        height: rounded("height", height),
        batch: usize::from(args.batch),
        decode: DecodeOptions::default(),
    })
}

fn usage(error: &nino_engine::SampleError) -> Usage {
    Usage(error.to_string())
}

/// Latents are made of squares of 8 pixels.
fn rounded(what: &str, pixels: usize) -> usize {
    let whole = (pixels / 8).max(1) * 8;
    if whole != pixels {
        printer::note(&format!(
            "note: a {what} of {pixels} becomes {whole}, a multiple of 8"
        ));
    }
    whole
}

fn new_seed() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    // Nine digits: enough to differ, short enough to type.
    (now.as_nanos() as u64 ^ u64::from(std::process::id())) % 1_000_000_000
}

/// Settings known to give poor pictures.
fn tips(request: &GenerateRequest, model: &Checkpoint) -> Vec<String> {
    let size = model.defaults().size;
    let mut tips = Vec::new();
    if request.width.max(request.height) * 4 <= size * 3 {
        tips.push(format!(
            "{} was trained at {size} pixels and draws poorly much below",
            model.name
        ));
    }
    if request.steps < 8 && request.cfg > 3.0 {
        tips.push("few steps want a low --cfg, such as 2.5".to_owned());
    }
    tips
}

/// Named after the prompt and the seed, beside what is there already.
fn output_path(args: &GenerateArgs, request: &GenerateRequest) -> PathBuf {
    if let Some(path) = &args.output {
        return path.clone();
    }
    let words = request
        .prompt
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty());
    let mut name: String = words
        .collect::<Vec<_>>()
        .join("-")
        .to_lowercase()
        .chars()
        .take(60)
        .collect();
    if name.is_empty() {
        "picture".clone_into(&mut name);
    }
    PathBuf::from(format!("{name}-{}.png", request.seed.value))
}

fn write_all(output: &Path, made: &Generated, text: &[(&str, String)]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for (i, picture) in made.pictures.iter().enumerate() {
        let path = if made.pictures.len() == 1 {
            output.to_owned()
        } else {
            numbered(output, i)
        };
        write_picture(&path, picture, text)?;
        files.push(path);
    }
    Ok(files)
}

/// Tells where the sampled latent is, when there is one.
fn rescued(latent: &Path) -> String {
    if latent.exists() {
        format!(
            "the sampled latent is kept in {}; `nino decode` goes on from it",
            latent.display()
        )
    } else {
        "no picture was made".to_owned()
    }
}

#[derive(Serialize)]
struct Report {
    files: Vec<PathBuf>,
    model: String,
    device: String,
    prompt: String,
    negative: String,
    seed: u64,
    rng: &'static str,
    steps: usize,
    cfg: f32,
    sampler: &'static str,
    scheduler: &'static str,
    width: usize,
    height: usize,
    peak_bytes: usize,
    text_ms: f64,
    load_ms: f64,
    sample_ms: f64,
    decode_ms: f64,
    total_ms: f64,
}

impl Report {
    fn new(
        request: &GenerateRequest,
        model: &Checkpoint,
        made: &Generated,
        files: Vec<PathBuf>,
        device: String,
        started: Instant,
    ) -> Report {
        let ms = |d: std::time::Duration| d.as_secs_f64() * 1e3;
        Report {
            files,
            model: model.name.clone(),
            device,
            prompt: request.prompt.clone(),
            negative: request.negative.clone(),
            seed: request.seed.value,
            rng: request.seed.rng.name(),
            steps: request.steps,
            cfg: request.cfg,
            sampler: request.sampler.name,
            scheduler: request.scheduler.name(),
            width: request.width,
            height: request.height,
            peak_bytes: made.peak_bytes,
            text_ms: ms(made.text_time),
            load_ms: ms(made.load_time),
            sample_ms: ms(made.sample_time),
            decode_ms: ms(made.decoded.load_time + made.decoded.decode_time),
            total_ms: ms(started.elapsed()),
        }
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for file in &self.files {
            writeln!(f, "{}", file.display())?;
        }
        writeln!(
            f,
            "  seed {}, {} steps of {} ({}), cfg {}, {}x{}, {}",
            self.seed,
            self.steps,
            self.sampler,
            self.scheduler,
            self.cfg,
            self.width,
            self.height,
            self.model
        )?;
        write!(
            f,
            "  {:.2} s (sampling {:.2}, decode {:.2}) on {}, {} used",
            self.total_ms / 1e3,
            self.sample_ms / 1e3,
            self.decode_ms / 1e3,
            self.device,
            Bytes(self.peak_bytes as u64)
        )
    }
}
