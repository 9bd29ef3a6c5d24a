//! Times kernel shapes on the GPU and checks a sample of each result against the CPU.
//!
//! `tune [--small] [--adapter NAME] [--limit SECONDS] [FILTER]`: one line per kernel with compile
//! seconds, TFLOP/s (median of several device-timed batches) and the largest error of the sampled
//! outputs. Problems and tiles can be given instead: `gemm:M,N,K:BM,BN,BK,WM,WN/..`,
//! `conv:C,N,SIDE:TY,TX,BN,BK,WM,WN,TAPS,PACKED/..`, `attention:HEADS,N,HD:BQ,BKV,WQ/..` (`:wide`).
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Instant;

use half::f16;
use nino_dtype::DType;
use nino_gpu::{Gpu, GpuDevice, GpuError, Launch, OpenOptions};
use nino_graph::{Device, Graph, Plan, RunOptions, rewrite};
use reference::values;
use scene::{Scene, scenes};

mod reference;
mod scene;
mod tiles;

/// One kernel to time: its output is checked at (element, value).
struct Job<'a> {
    label: String,
    launch: Launch<'a>,
    out: &'a wgpu::Buffer,
    samples: &'a [(u64, f32)],
    flops: f64,
}

fn main() {
    let (mut small, mut adapter, mut limit, mut filter) =
        (false, "auto".to_owned(), 600.0, String::new());
    let mut given = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--small" => small = true,
            "--adapter" => adapter = words.next().unwrap(),
            "--limit" => limit = words.next().unwrap().parse().unwrap(),
            _ if word.contains(':') => given.push(word),
            _ => filter = word,
        }
    }
    let start = Instant::now();
    let gpu = Gpu::open(&OpenOptions {
        adapter,
        ..OpenOptions::default()
    })
    .unwrap();
    let device = GpuDevice::new(gpu);
    let gpu: &Gpu = device.gpu();
    println!(
        "{} {} tier {} {:?}",
        gpu.info.name, gpu.info.driver_info, gpu.caps.tier, gpu.info.memory
    );
    let scenes = if given.is_empty() {
        scenes(gpu, small, &filter)
    } else {
        given.iter().map(|word| Scene::parse(gpu, word)).collect()
    };
    let mut jobs: Vec<Job<'_>> = scenes.iter().flat_map(|s| s.jobs(gpu, small)).collect();
    watchdog(start, limit);
    // Kernels a driver's compiler may choke on come last.
    jobs.sort_by_key(|j| j.label.contains("sub 64x64") && !j.label.contains("k16"));
    if given.is_empty() && "group norm".contains(&filter) {
        group_norm(&device, small);
    }
    for job in &jobs {
        println!(
            "{:5.1} compiling {}",
            start.elapsed().as_secs_f64(),
            job.label
        );
        let begin = Instant::now();
        // Drivers compile one kernel at a time, so this gains nothing from threads.
        let made = gpu.prepare_launch(&job.launch);
        let compile = begin.elapsed().as_secs_f64();
        let timed = made.and_then(|()| run_timed(gpu, job, small));
        report(gpu, job, timed, compile, start.elapsed().as_secs_f64());
    }
    if given.is_empty() && "peak".contains(&filter) {
        peaks(gpu, small);
    }
}

/// Ends the process when the time is up: a driver's compiler cannot be interrupted.
fn watchdog(start: Instant, limit: f64) {
    std::thread::spawn(move || {
        while start.elapsed().as_secs_f64() < limit {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        println!("limit reached");
        std::process::exit(0);
    });
}

fn run_timed(gpu: &Gpu, job: &Job<'_>, small: bool) -> Result<Vec<f64>, GpuError> {
    gpu.write(job.out, 0, &vec![0xffu8; job.out.size() as usize - 16])?;
    let dispatch = gpu.dispatch(&job.launch)?;
    if small {
        return Ok(vec![gpu.time(&dispatch, 1)?]);
    }
    let once = gpu.time(&dispatch, 3)? / 3.0;
    // An idle card clocks down: keep it busy before anything is counted.
    let warm = Instant::now();
    let batch = ((0.02 / once.max(1e-6)) as u32).clamp(1, 2000);
    while warm.elapsed().as_secs_f64() < 0.2 {
        gpu.time(&dispatch, batch)?;
    }
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(gpu.time(&dispatch, batch)? / f64::from(batch));
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn report(gpu: &Gpu, job: &Job<'_>, timed: Result<Vec<f64>, GpuError>, compile: f64, now: f64) {
    let head = format!("{now:5.1} {:58} compile {compile:5.1} s", job.label);
    let times = match timed {
        Err(e) => return println!("{head} FAILED {e}"),
        Ok(times) => times,
    };
    let mut worst = 0.0f32;
    let mut seen = Vec::new();
    for &(at, want) in job.samples {
        let Ok(bytes) = gpu.read(job.out, at / 2 * 4, 4) else {
            return println!("{head} LOST");
        };
        let i = (at % 2 * 2) as usize;
        let got = f16::from_le_bytes([bytes[i], bytes[i + 1]]).to_f32();
        seen.push((at, got, want));
        let error = (got - want).abs() / (1.0 + want.abs());
        worst = if error.is_nan() {
            f32::INFINITY
        } else {
            worst.max(error)
        };
    }
    let median = times[times.len() / 2];
    let rate = job.flops / median * 1e-12;
    let best = job.flops / times[0] * 1e-12;
    let wrong = if worst < 0.02 { "" } else { "  WRONG" };
    println!(
        "{head}  {:8.4} ms {rate:7.1} TFLOP/s (best {best:.1}) err {worst:.5}{wrong}",
        median * 1e3
    );
    if worst >= 0.02 {
        println!("      (element, found, expected): {seen:?}");
    }
}

/// Group norm and `SiLU` of 256 channels at 512 x 512 through the executor, by device times.
fn group_norm(device: &GpuDevice, small: bool) {
    let side = if small { 16 } else { 512 };
    let mut g = Graph::new();
    let x = g.input("x", [1, side, side, 256], DType::F16);
    let (weight, bias) = (
        g.constant("w", [256], &[1.0; 256]),
        g.constant("b", [256], &[0.0; 256]),
    );
    let normed = g.group_norm(x, 32, weight, bias, 1e-6);
    let out = g.silu(normed);
    g.output(out);
    let graph = rewrite(&g.finish().unwrap(), device.rewrites());
    let plan = Arc::new(Plan::new(graph, &device.limits()).unwrap());
    let weights = device.load(&[&plan], Arc::new(NoParams)).unwrap();
    let mut session = device.session(Arc::clone(&plan), &weights).unwrap();
    let input = values(side * side * 256, 9);
    let mut runs = Vec::new();
    for _ in 0..if small { 1 } else { 60 } {
        session.write(x, bytemuck::cast_slice(&input)).unwrap();
        session
            .run(RunOptions {
                cancel: None,
                profile: true,
                ..RunOptions::default()
            })
            .unwrap();
        runs.push(
            session
                .profile()
                .iter()
                .map(|t| t.time.as_secs_f64())
                .collect::<Vec<_>>(),
        );
    }
    runs.sort_by(|a, b| a.iter().sum::<f64>().total_cmp(&b.iter().sum::<f64>()));
    let median = &runs[runs.len() / 2];
    let bytes = input.len() as f64 * 2.0 * 3.0;
    let total: f64 = median.iter().sum();
    println!(
        "group norm+silu 256@{side}: {:.4} ms {median:?}, {:.0} GB/s",
        total * 1e3,
        bytes / total * 1e-9
    );
}

struct NoParams;

impl nino_graph::ParamSource for NoParams {
    fn read(
        &self,
        param: &nino_graph::ParamSpec,
        _: &mut [u8],
    ) -> Result<(), nino_graph::ParamError> {
        Err(nino_graph::ParamError {
            name: param.name.clone(),
            what: "none here".to_owned(),
        })
    }
}

fn peaks(gpu: &Gpu, small: bool) {
    let out = gpu.buffer("peak", 1 << 20).unwrap();
    for reads in [0, 8] {
        match gpu.peak(&out, Some(reads)) {
            Ok(v) => println!(
                "peak coop, {reads} reads per 16 products: {:.1} TFLOP/s",
                v * 1e-12
            ),
            Err(e) => println!("peak coop FAILED {e}"),
        }
    }
    match gpu.roofline(if small { 1 << 20 } else { 1 << 30 }) {
        Ok(r) => println!(
            "copy {:.0} GB/s, f32 {:.1} TFLOP/s",
            r.copy_bytes * 1e-9,
            r.f32_flops * 1e-12
        ),
        Err(e) => println!("roofline FAILED {e}"),
    }
}
