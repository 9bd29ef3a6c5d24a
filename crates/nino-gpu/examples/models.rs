//! Profiles whole networks with made-up weights: where the time of a step goes.
//!
//! `models [--adapter NAME] [--runs N] [--top N] [--lower] NAME..` with names `vae:512`,
//! `vae:1024`, `wan21-vae:320` (or another VAE's name; of a clip, two latent frames), `sd15:512`,
//! `sdxl:1024`: seconds to start, median of whole runs (write, run, read), then the device's time
//! by op. `--lower` only makes the session, to see that every kernel compiles.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use half::f16;
use nino_dtype::DType;
use nino_gpu::{Gpu, GpuDevice, OpenOptions};
use nino_graph::{
    Device, Graph, Node, Op, ParamError, ParamSource, ParamSpec, Plan, RunOptions, rewrite,
};
use nino_models::{Chunk, Frames, Params, Storage, Vae, kl, unet};

struct Options {
    adapter: String,
    runs: usize,
    top: usize,
    lower: bool,
}

fn main() {
    let mut options = Options {
        adapter: "auto".to_owned(),
        runs: 20,
        top: 40,
        lower: false,
    };
    let mut names = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--adapter" => options.adapter = words.next().unwrap(),
            "--runs" => options.runs = words.next().unwrap().parse().unwrap(),
            "--top" => options.top = words.next().unwrap().parse().unwrap(),
            "--lower" => options.lower = true,
            _ => names.push(word),
        }
    }
    let start = Instant::now();
    let gpu = Gpu::open(&OpenOptions {
        adapter: options.adapter.clone(),
        cache_dir: std::env::var_os("NINO_CACHE").map(Into::into),
        ..OpenOptions::default()
    });
    let device = GpuDevice::new(gpu.unwrap());
    println!(
        "{} tier {}, opened in {:.2} s",
        device.gpu().info.name,
        device.gpu().caps.tier,
        start.elapsed().as_secs_f64()
    );
    for name in &names {
        let (model, side) = name.split_once(':').unwrap();
        let graph = record(model, side.parse().unwrap(), device.activation_dtype());
        measure(&device, name, &graph, &options);
        device.gpu().save_pipelines();
    }
}

fn record(model: &str, side: usize, dtype: DType) -> Graph {
    let name = if model == "vae" { "sd-vae" } else { model };
    if let Some(vae) = Vae::spec(name) {
        let storage = Storage {
            activations: dtype,
            weights: &|_| DType::F16,
            scale: kl::Scale::default(),
        };
        let clip = vae.time_scale().is_some();
        let side = side / vae.scale();
        let chunk = Chunk {
            batch: 1,
            frames: if clip { 2 } else { 1 },
            height: side,
            width: side,
            first: !clip,
            at_once: Frames::Together,
        };
        return vae.decode(chunk, &storage).unwrap().graph;
    }
    let (height, width) = (side / 8, side / 8);
    let config = match model {
        "sdxl" => unet::Config::sdxl(),
        _ => unet::Config::sd15(),
    };
    let mut g = Graph::new();
    let p = Params::uniform(DType::F16);
    let inputs = unet::Inputs {
        x: g.input("x", [2, height, width, config.in_channels], dtype),
        t: g.input("t", [2], DType::F32),
        context: g.input("context", [2, 77, config.context_dim], dtype),
        y: config.adm_in.map(|n| g.input("y", [2, n], dtype)),
        guidance: None,
        perturbed: false,
    };
    // As in a picture's steps: the prompt stays.
    let fixed = [Some(inputs.context), inputs.y];
    fixed.into_iter().flatten().for_each(|n| g.keep(n));
    let out = unet::unet(&mut g, &p, &config, inputs, &[]);
    g.output(out);
    g.finish().unwrap()
}

fn measure(device: &GpuDevice, name: &str, graph: &Graph, options: &Options) {
    let start = Instant::now();
    let graph = rewrite(graph, device.rewrites());
    let plan = Arc::new(Plan::new(graph, &device.limits()).unwrap());
    let planned = start.elapsed().as_secs_f64();
    let weights = device.load(&[&plan], Arc::new(MadeUp::new())).unwrap();
    let loaded = start.elapsed().as_secs_f64();
    let mut session = device.session(Arc::clone(&plan), &weights).unwrap();
    let made = start.elapsed().as_secs_f64();
    let graph = plan.graph();
    let flops = graph.total_cost().flops;
    println!(
        "\n{name}: {} steps, {:.2} TFLOP, arena {:.0} MiB, weights {:.0} MiB; plan {planned:.2} s, load {:.2} s, session {:.2} s",
        plan.steps().len(),
        flops * 1e-12,
        plan.arena_bytes() as f64 / 1_048_576.0,
        plan.weight_bytes() as f64 / 1_048_576.0,
        loaded - planned,
        made - loaded
    );
    if options.lower {
        return;
    }
    let inputs: Vec<(Node, Vec<u8>)> = graph
        .inputs()
        .map(|(n, _)| (n, noise(graph.bytes(n), graph.dtype(n))))
        .collect();
    let output = graph.outputs()[0];
    let mut image = vec![0; graph.bytes(output)];
    let (kept, changing): (Vec<_>, Vec<_>) =
        inputs.iter().partition(|(n, _)| graph.kept().contains(n));
    for (node, bytes) in kept {
        session.write(*node, bytes).unwrap();
    }
    let mut once = |profile| {
        let begin = Instant::now();
        for (node, bytes) in &changing {
            session.write(*node, bytes).unwrap();
        }
        let cancel = None;
        let options = RunOptions {
            cancel,
            profile,
            ..RunOptions::default()
        };
        session.run(options).unwrap();
        let ran = begin.elapsed().as_secs_f64();
        session.read(output, &mut image).unwrap();
        (ran, begin.elapsed().as_secs_f64(), session.profile())
    };
    let first = once(false);
    let warm = Instant::now();
    while warm.elapsed().as_secs_f64() < 0.5 {
        once(false);
    }
    let mut whole: Vec<_> = (0..options.runs).map(|_| once(false)).collect();
    whole.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (ran, total, _) = whole[whole.len() / 2];
    println!(
        "{name}: first {:.1} ms; n {} median {:.2} ms [{:.2}..{:.2}], {:.2} without reading; {:.1} TFLOP/s",
        first.1 * 1e3,
        whole.len(),
        total * 1e3,
        whole[0].1 * 1e3,
        whole[whole.len() - 1].1 * 1e3,
        ran * 1e3,
        flops / total * 1e-12
    );
    let mut profiles: Vec<_> = (0..5).map(|_| once(true).2).collect();
    profiles.sort_by_key(|p| p.iter().map(|t| t.time).sum::<std::time::Duration>());
    table(graph, &profiles[2], options.top);
    let bad = image
        .chunks_exact(2)
        .filter(|b| !f16::from_le_bytes([b[0], b[1]]).is_finite())
        .count();
    if bad > 0 {
        println!("{bad} values are not finite");
    }
}

/// Ops that look alike together, longest first.
fn table(graph: &Graph, times: &[nino_graph::OpTime], top: usize) {
    let mut rows: BTreeMap<String, (usize, f64, f64, f64)> = BTreeMap::new();
    let mut families: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    let mut total = 0.0;
    for t in times {
        let Some(op) = graph.op(t.node) else { continue };
        let seconds = t.time.as_secs_f64();
        let cost = graph.cost(t.node);
        let row = rows.entry(describe(graph, t.node, op)).or_default();
        *row = (
            row.0 + 1,
            row.1 + seconds,
            row.2 + cost.flops,
            row.3 + cost.bytes,
        );
        let family = families.entry(op.name()).or_default();
        *family = (family.0 + 1, family.1 + seconds);
        total += seconds;
    }
    println!("  by op, {:.2} ms in all:", total * 1e3);
    let mut families: Vec<_> = families.into_iter().collect();
    families.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    for (name, (n, s)) in families {
        println!("    {name:16} {n:4} {:8.3} ms", s * 1e3);
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    for (label, (n, s, flops, bytes)) in rows.iter().take(top) {
        println!(
            "  {n:3} x {label:66} {:8.3} ms {:6.1} TFLOP/s {:5.0} GB/s",
            s * 1e3,
            flops / s * 1e-12,
            bytes / s * 1e-9
        );
    }
}

fn describe(graph: &Graph, node: Node, op: &Op) -> String {
    let shapes = |n: &Node| graph.shape(*n).to_string();
    let mut text = format!("{} {}", op.name(), shapes(&node));
    for n in op.operands().iter().take(2) {
        text.push_str(" < ");
        text.push_str(&shapes(n));
    }
    match op {
        Op::Conv(o) => {
            text += if o.pre.is_some() { " pre" } else { "" };
            text += if o.epi.residual.is_some() { " res" } else { "" };
            text += if o.upsample > 1 { " up" } else { "" };
        }
        Op::Linear(o) => text += if o.epi.residual.is_some() { " res" } else { "" },
        _ => {}
    }
    text
}

/// Random bits of small size: never zeros, since a card runs faster on those.
fn noise(bytes: usize, dtype: DType) -> Vec<u8> {
    let mut state = 12345u32;
    let mut value = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    match dtype {
        DType::F16 => (0..bytes / 2)
            .flat_map(|_| f16::from_f32(value()).to_le_bytes())
            .collect(),
        _ => (0..bytes / 4)
            .flat_map(|_| (value() * 500.0 + 500.0).to_le_bytes())
            .collect(),
    }
}

/// Weights scaled by their depth, so that activations stay of order one.
struct MadeUp {
    values: Vec<f32>,
}

impl MadeUp {
    fn new() -> MadeUp {
        let bytes = noise(1 << 17, DType::F16);
        let value = |b: &[u8]| f16::from_le_bytes([b[0], b[1]]).to_f32();
        MadeUp {
            values: bytes.chunks_exact(2).map(value).collect(),
        }
    }
}

impl ParamSource for MadeUp {
    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        let depth = param.shape.numel() / param.shape[0];
        if param.dtype == DType::F32 {
            let centre = if param.name.contains("norm") && param.name.ends_with("weight") {
                1.0
            } else {
                0.0
            };
            for (i, to) in dst.chunks_exact_mut(4).enumerate() {
                let v = centre + 0.1 * self.values[i % self.values.len()];
                to.copy_from_slice(&v.to_le_bytes());
            }
            return Ok(());
        }
        let scale = (3.0 / depth as f32).sqrt();
        let block: Vec<u8> = self
            .values
            .iter()
            .flat_map(|v| f16::from_f32(v * scale).to_le_bytes())
            .collect();
        for to in dst.chunks_mut(block.len()) {
            to.copy_from_slice(&block[..to.len()]);
        }
        Ok(())
    }
}
