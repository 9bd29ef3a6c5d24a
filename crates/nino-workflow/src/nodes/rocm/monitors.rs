//! Monitors: nodes that run real decodes and steps on the device, and say what they took.
//!
//! Each number is of several runs after one that is not counted, and comes with their count, least
//! and most. A run that is only planned computes nothing, and its numbers are told to nobody.

use crate::NodeError;
use crate::host::Made;
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{
    Control, DecodeOptions, DiffusionModel, Event, Image, Latent, LatentSize, Noise, Precision,
    SampleRequest, SamplerInfo, SamplerOptions, Scheduler, Seed, VaeFile, decode_images, sample,
    sigmas,
};
use std::fmt;
use std::time::Instant;

const RUNS: usize = 3;
const MIB: usize = 1 << 20;
/// Quality below which a faster precision is not advised, in dB to f32.
const GOOD: f64 = 40.0;
const BAR: usize = 32;

/// Seconds of runs that do the same.
struct Series(Vec<f64>);

impl Series {
    fn sorted(&self) -> Vec<f64> {
        let mut times = self.0.clone();
        times.sort_by(f64::total_cmp);
        times
    }

    fn median(&self) -> f64 {
        let times = self.sorted();
        let middle = times.len() / 2;
        match times.len() {
            0 => 0.0,
            n if n % 2 == 1 => times[middle],
            _ => f64::midpoint(times[middle - 1], times[middle]),
        }
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = self.sorted();
        let (low, high) = (times.first(), times.last());
        let (low, high) = (low.unwrap_or(&0.0), high.unwrap_or(&0.0));
        let n = times.len();
        write!(f, "{:.3} s (n={n}, {low:.3} to {high:.3})", self.median())
    }
}

/// Decodes a latent with every precision, and compares with f32.
pub(super) fn vae(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (vae, side) = (call.vae("vae")?, call.size("test_resolution")?);
    let latent = noise(&vae, (side, side));
    call.room_for("a picture", &[side, side, 3])?;
    let mut lines = Vec::new();
    let mut rows = Vec::new();
    let mut exact: Option<Vec<Image>> = None;
    let mut best: Option<(&str, f64)> = None;
    for (name, precision) in [
        ("fp32", Precision::F32),
        ("fp16", Precision::F16),
        ("bf16", Precision::Bf16),
    ] {
        let (times, images, peak) = decodes(call, &vae, &latent, precision)?;
        let quality = exact.as_ref().map_or(f64::INFINITY, |e| psnr(&images, e));
        lines.push(format!(
            "{name}: {times}; {} MiB; {quality:.1} dB to fp32",
            peak.div_ceil(MIB)
        ));
        rows.push((name.to_owned(), times.median()));
        if quality >= GOOD && best.is_none_or(|(_, time)| times.median() < time) {
            best = Some((name, times.median()));
        }
        exact.get_or_insert(images);
    }
    lines.push(chart(&format!("decode of {side}², seconds"), &rows));
    let chosen = best.map_or("fp32", |(name, _)| name);
    let settings =
        format!("precision_mode: {chosen} (the fastest of those at {GOOD} dB or more to fp32)");
    told(call, vec![device(call), lines.join("\n"), settings])
}

/// Takes steps of a model with an empty prompt, and times each.
pub(super) fn sampler(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (model, steps) = (call.model("model")?, call.size("test_steps")?);
    let usual = model.defaults();
    let size = (usual.size, usual.size);
    let begin = Instant::now();
    let times = steps_of(call, &model, size, steps, usual.cfg)?;
    let whole = begin.elapsed().as_secs_f64();
    let tips = [
        format!("a step at {0}x{0}, cfg {1}: {times}", usual.size, usual.cfg),
        format!(
            "the first step and {steps} others: {whole:.3} s with loading; the others are {:.3} s of it",
            times.0.iter().sum::<f64>()
        ),
        held(call),
    ];
    let settings = format!(
        "steps {}, cfg {}, {}, {}",
        usual.steps, usual.cfg, usual.sampler, usual.scheduler
    );
    told(call, vec![device(call), tips.join("\n"), settings])
}

/// Samples and decodes at several sizes and strengths of guidance.
pub(super) fn benchmark(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (model, vae) = (call.model("model")?, call.vae("vae")?);
    let steps = call.size("test_steps")?;
    let guidance = numbers(&call.text("test_cfg_values")?)?;
    let (mut lines, mut rows, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for (width, height) in sizes(&call.text("test_resolutions")?)? {
        call.room_for("a picture", &[width, height, 3])?;
        for cfg in &guidance {
            let times = steps_of(call, &model, (width, height), steps, *cfg as f32)?;
            lines.push(format!("{width}x{height}, cfg {cfg}: a step {times}"));
            rows.push((format!("{width}x{height}, cfg {cfg}"), times.median()));
            memory.push(format!("after {width}x{height}, cfg {cfg}: {}", held(call)));
        }
        let latent = noise(&vae, (width, height));
        let (times, _, peak) = decodes(call, &vae, &latent, call.settings.precision)?;
        lines.push(format!("{width}x{height}: decode {times}"));
        let peak = peak.div_ceil(MIB);
        memory.push(format!("decode {width}x{height}: {peak} MiB"));
    }
    let all = if call.boolean("generate_report")? {
        format!("{}\n{}", device(call), lines.join("\n"))
    } else {
        lines.first().cloned().unwrap_or_default()
    };
    let advice = "cfg 1 takes one run of the model a step, any other cfg two";
    let chart = chart("seconds a step", &rows);
    told(call, vec![all, chart, advice.to_owned(), memory.join("\n")])
}

/// Says what the device holds, gives back what the level allows, and says what that gave.
pub(super) fn memory(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let before = call.store.usage();
    let gives =
        &*call.text("optimization_level")? != "conservative" && call.boolean("clear_cache")?;
    if gives {
        call.store.clear();
    }
    let after = call.store.usage();
    let bytes = |usage: &nino_engine::StoreUse| usage.weight_bytes + usage.arena_bytes;
    let freed = bytes(&before).saturating_sub(bytes(&after)).div_ceil(MIB);
    let log = if gives {
        format!("models and plans that no request uses were given back: {freed} MiB")
    } else {
        "nothing was given back: the level or clear_cache says so".to_owned()
    };
    let status = format!("{}\n{}", device(call), held(call));
    let advice = "nothing to do: plans keep to the budget by themselves".to_owned();
    told(call, vec![status, log, advice])
}

/// Times of decodes after one that is not counted, the last one's pictures, and the peak in bytes.
fn decodes(
    call: &mut Call<'_, '_>,
    vae: &VaeFile,
    latent: &Latent,
    precision: Precision,
) -> Result<(Series, Vec<Image>, usize), NodeError> {
    let options = DecodeOptions {
        precision,
        ..DecodeOptions::default()
    };
    let mut times = Vec::new();
    let mut last = (Vec::new(), 0);
    for run in 0..=RUNS {
        let begin = Instant::now();
        let (images, decoded) =
            decode_images(call.store, vae, latent, &options, &mut call.control)?;
        if run > 0 {
            times.push(begin.elapsed().as_secs_f64());
        }
        last = (images, decoded.measured_peak);
    }
    Ok((Series(times), last.0, last.1))
}

/// Times of steps after the first one. Prompts are zeros: what a step takes does not depend on
/// them.
fn steps_of(
    call: &mut Call<'_, '_>,
    model: &DiffusionModel,
    (width, height): (usize, usize),
    steps: usize,
    cfg: f32,
) -> Result<Series, NodeError> {
    let sampler = SamplerInfo::find("euler").map_err(|e| NodeError::Input(e.to_string()))?;
    let levels = sigmas(model, sampler, Scheduler::Normal, steps + 1, 1.0)?;
    let side = model.latent_format().map_or(8, |format| format.scale_down);
    let wants = model.net().wants();
    let size = LatentSize {
        frames: 1,
        height: height / side,
        width: width / side,
    };
    let latent = Latent {
        is_video: wants.frames,
        ..Latent::empty(1, wants.channels, size)
    };
    let prompt = [model.blank_prompt()];
    let request = SampleRequest {
        positive: &prompt,
        negative: &prompt,
        third: None,
        latent: &latent,
        noise: Noise::Seeded,
        mask: None,
        frame_mask: &[],
        sigmas: &levels,
        sampler,
        options: &SamplerOptions::default(),
        seed: Seed::default(),
        cfg,
        precision: call.settings.precision,
        preview: None,
        beside: 0,
        memory: None,
    };
    let mut marks = Vec::new();
    let mut heard = |event: Event| {
        if let Event::Progress { .. } = &event {
            marks.push(Instant::now());
        }
        (call.control.on_event)(event);
    };
    let mut control = Control {
        cancel: call.control.cancel,
        on_event: &mut heard,
    };
    let sampled = sample(call.store, model, &request, &mut control);
    sampled.map_err(|unfinished| unfinished.error)?;
    // The first of the last marks is the end of the first step.
    let first = marks.len().saturating_sub(steps + 1);
    let times = marks[first..]
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_secs_f64());
    Ok(Series(times.collect()))
}

/// A latent of noise of the size of a picture.
fn noise(vae: &VaeFile, (width, height): (usize, usize)) -> Latent {
    let side = vae.kind.scale().max(1);
    let size = LatentSize {
        frames: 1,
        height: height / side,
        width: width / side,
    };
    let mut latent = Latent::empty(1, vae.kind.latent_channels(), size);
    let mut state = 1u64;
    for value in &mut latent.values {
        // The sum of four even draws is near enough to a bell.
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        *value = (draw() + draw() + draw() + draw()) * 1.7;
    }
    latent
}

/// Peak signal to noise in dB of pictures in 0..1; infinite where they are equal.
fn psnr(images: &[Image], exact: &[Image]) -> f64 {
    let values = |images: &[Image]| -> Vec<f32> {
        let all = images.iter().flat_map(|image| image.values.iter());
        all.map(|v| v.clamp(0.0, 1.0)).collect()
    };
    let (a, b) = (values(images), values(exact));
    let squares = a.iter().zip(&b).map(|(a, b)| f64::from(a - b).powi(2));
    let error = squares.sum::<f64>() / a.len().max(1) as f64;
    if error == 0.0 {
        f64::INFINITY
    } else {
        -10.0 * error.log10()
    }
}

/// What runs the graph, and how much memory plans may use.
fn device(call: &Call<'_, '_>) -> String {
    let device = call.store.device();
    let budget = match device.budget().total {
        Some(bytes) => format!("{} MiB", bytes / MIB),
        None => "no limit".to_owned(),
    };
    format!("{}; plans may use {budget}", device.name())
}

fn held(call: &Call<'_, '_>) -> String {
    let usage = call.store.usage();
    format!(
        "{} MiB of weights and {} MiB of activations are held",
        usage.weight_bytes.div_ceil(MIB),
        usage.arena_bytes.div_ceil(MIB)
    )
}

/// Rows with bars of their lengths.
fn chart(title: &str, rows: &[(String, f64)]) -> String {
    let most = rows.iter().map(|row| row.1).fold(0.0, f64::max);
    let widest = rows.iter().map(|row| row.0.len()).max().unwrap_or(0);
    let bars = rows.iter().map(|(name, value)| {
        let share = if most > 0.0 { value / most } else { 0.0 };
        let bar = "█".repeat((share * BAR as f64).round() as usize);
        format!("{name:widest$} {bar} {value:.3}")
    });
    let lines: Vec<String> = std::iter::once(title.to_owned()).chain(bars).collect();
    lines.join("\n")
}

fn numbers(text: &str) -> Result<Vec<f64>, NodeError> {
    let number = |part: &str| {
        let parsed = part.trim().parse::<f64>().ok().filter(|n| n.is_finite());
        parsed.ok_or_else(|| NodeError::Input(format!("{part:?} is no number")))
    };
    text.split(',').map(number).collect()
}

/// Sizes such as `256x320,512x512`, cut to multiples of 16.
fn sizes(text: &str) -> Result<Vec<(usize, usize)>, NodeError> {
    let size = |part: &str| {
        let (width, height) = part.trim().split_once('x')?;
        let side = |text: &str| text.parse::<usize>().ok().map(|n| n / 16 * 16);
        Some((side(width)?, side(height)?)).filter(|(w, h)| *w > 0 && *h > 0)
    };
    let wrong = |part: &str| NodeError::Input(format!("a size is WIDTHxHEIGHT, not {part:?}"));
    let parts = text.split(',');
    parts.map(|p| size(p).ok_or_else(|| wrong(p))).collect()
}

/// Shows texts in the node, and gives them as its results.
fn told(call: &mut Call<'_, '_>, texts: Vec<String>) -> Result<Vec<Value>, NodeError> {
    debug_assert!(call.def.outputs.iter().all(|o| o.socket == Socket::String));
    let values = texts.iter().map(|text| Value::Text(text.as_str().into()));
    let values = values.collect();
    for text in &texts {
        (call.control.on_event)(Event::Note(text.clone()));
    }
    call.output(Made::Texts(texts), "".into())?;
    Ok(values)
}
