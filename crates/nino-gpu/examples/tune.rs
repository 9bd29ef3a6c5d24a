//! Times kernel shapes on the GPU and checks a sample of each result against the CPU.
//!
//! `tune [--small] [--adapter NAME] [--limit SECONDS] [FILTER]`: kernels compile on all cores and
//! are timed as they become ready; one line each with compile seconds, TFLOP/s (median of several
//! device-timed batches) and the largest error of the sampled outputs.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use half::f16;
use nino_dtype::DType;
use nino_gpu::ops::act::ActCode;
use nino_gpu::ops::attention::{Attention, AttentionTile};
use nino_gpu::ops::gemm::{Conv3Tile, ConvShape, CoopTile, Gemm, PlainTile};
use nino_gpu::{Gpu, GpuError, Launch, OpenOptions, View};

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
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--small" => small = true,
            "--adapter" => adapter = words.next().unwrap(),
            "--limit" => limit = words.next().unwrap().parse().unwrap(),
            _ => filter = word,
        }
    }
    let start = Instant::now();
    let gpu = Gpu::open(&OpenOptions {
        adapter,
        ..OpenOptions::default()
    })
    .unwrap();
    println!(
        "{} {} tier {} {:?}",
        gpu.info.name, gpu.info.driver_info, gpu.tier, gpu.info.memory
    );
    let scenes = scenes(&gpu, small, &filter);
    let jobs: Vec<Job<'_>> = scenes.iter().flat_map(|s| s.jobs(&gpu, small)).collect();
    println!(
        "{:.1} s: {} kernels to compile",
        start.elapsed().as_secs_f64(),
        jobs.len()
    );
    let (next, (send, ready)) = (AtomicUsize::new(0), mpsc::channel());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let (send, next, jobs, gpu) = (send.clone(), &next, &jobs, &gpu);
            scope.spawn(move || {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begin = Instant::now();
                    let made = gpu.prepare(std::slice::from_ref(&job.launch.key));
                    let _ = send.send((job, made, begin.elapsed().as_secs_f64()));
                }
            });
        }
        drop(send);
        for (job, made, compile) in ready {
            let timed = made.and_then(|()| run_timed(&gpu, job, small));
            report(&gpu, job, timed, compile, start.elapsed().as_secs_f64());
            if start.elapsed().as_secs_f64() > limit {
                println!("limit reached");
                std::process::exit(0);
            }
        }
    });
    if "peak".contains(&filter) {
        peaks(&gpu, small);
    }
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
    for &(at, want) in job.samples {
        let Ok(bytes) = gpu.read(job.out, at / 2 * 4, 4) else {
            return println!("{head} LOST");
        };
        let i = (at % 2 * 2) as usize;
        let got = f16::from_le_bytes([bytes[i], bytes[i + 1]]).to_f32();
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

/// Buffers and expected samples of one problem.
struct Scene {
    name: String,
    kind: Kind,
    buffers: Vec<wgpu::Buffer>,
    samples: Vec<(u64, f32)>,
}

enum Kind {
    Product {
        m: u32,
        n: u32,
        k: u32,
        conv: Option<ConvShape>,
    },
    Attention {
        heads: u32,
        n: u32,
        hd: u32,
    },
}

fn scenes(gpu: &Gpu, small: bool, filter: &str) -> Vec<Scene> {
    let mut kinds = Vec::new();
    let convs: &[(u32, u32, u32)] = if small {
        &[(24, 40, 9)]
    } else {
        &[(512, 512, 128)]
    };
    for &(c, n, side) in convs {
        let shape = ConvShape {
            input: [1, side, side],
            c,
            output: [1, side, side],
            kernel: [1, 3, 3],
            stride: [1; 3],
            dilation: [1; 3],
            pad: [0, 1, 1],
            upsample: 1,
        };
        let kind = Kind::Product {
            m: side * side,
            n,
            k: c * 9,
            conv: Some(shape),
        };
        kinds.push((format!("conv {c}@{side}"), kind));
    }
    let (heads, n, hd) = if small { (2, 37, 24) } else { (24, 4608, 128) };
    kinds.push((
        format!("attention {heads},{n},{hd}"),
        Kind::Attention { heads, n, hd },
    ));
    let (m, n, k) = if small {
        (70, 72, 104)
    } else {
        (4096, 4096, 4096)
    };
    kinds.push((
        format!("matmul {m}x{n}x{k}"),
        Kind::Product {
            m,
            n,
            k,
            conv: None,
        },
    ));
    kinds.retain(|(name, _)| name.contains(filter));
    kinds
        .into_iter()
        .map(|(name, kind)| Scene::new(gpu, name, kind))
        .collect()
}

impl Scene {
    fn new(gpu: &Gpu, name: String, kind: Kind) -> Scene {
        let (sizes, out) = match &kind {
            Kind::Product { m, n, k, conv } => {
                let x = conv.map_or(m * k, |c| c.input.iter().product::<u32>() * c.c);
                (vec![x, n * k, *n], m * n)
            }
            Kind::Attention { heads, n, hd } => (vec![heads * n * hd; 3], heads * n * hd),
        };
        let inputs: Vec<Vec<f16>> = sizes
            .iter()
            .enumerate()
            .map(|(i, &len)| values(len as usize, i as u32 + 1))
            .collect();
        let upload = |v: &Vec<f16>| {
            let buffer = gpu.buffer("tune", v.len() as u64 * 2).unwrap();
            gpu.write(&buffer, 0, bytemuck::cast_slice(v)).unwrap();
            buffer
        };
        let mut buffers: Vec<wgpu::Buffer> = inputs.iter().map(upload).collect();
        buffers.push(gpu.buffer("tune", u64::from(out) * 2).unwrap());
        let samples = (0..24u32).map(|i| {
            let at = i.wrapping_mul(2_654_435_761) % out;
            (u64::from(at), reference(&kind, &inputs, at))
        });
        Scene {
            samples: samples.collect(),
            name,
            kind,
            buffers,
        }
    }

    fn jobs<'s>(&'s self, gpu: &Gpu, small: bool) -> Vec<Job<'s>> {
        let view = |i: usize| View::whole(&self.buffers[i], DType::F16);
        let mut jobs = Vec::new();
        let mut add = |label: String, launch: Result<Launch<'s>, GpuError>, flops: f64| {
            let launch = launch.unwrap();
            let label = format!("{} {label}", self.name);
            let out = self.buffers.last().unwrap();
            jobs.push(Job {
                label,
                launch,
                out,
                samples: &self.samples,
                flops,
            });
        };
        match self.kind {
            Kind::Product { m, n, k, conv } => {
                let gemm = Gemm {
                    m,
                    n,
                    k,
                    batch: 1,
                    first: 0,
                    w_first: 0,
                    x: view(0),
                    w: view(1),
                    out: view(3),
                    bias: Some(view(2)),
                    residual: None,
                    prologue: None,
                    act: ActCode::default(),
                    post: ActCode::default(),
                    alpha: 1.0,
                    w_kn: false,
                    conv,
                };
                let flops = 2.0 * f64::from(m) * f64::from(n) * f64::from(k);
                if let Some(c) = conv {
                    for t in conv3_tiles(small) {
                        let label = format!(
                            "conv3 {}x{}x{} k{} sub {}x{} taps {}",
                            t.ty, t.tx, t.bn, t.bk, t.wm, t.wn, t.taps
                        );
                        add(label, gemm.conv3(gpu, t, [0, 1], (0, c.output[1])), flops);
                    }
                }
                for t in coop_tiles(small, conv.is_some()) {
                    let label = format!(
                        "coop {}x{}x{} sub {}x{} db {}",
                        t.bm,
                        t.bn,
                        t.bk,
                        t.wm,
                        t.wn,
                        u8::from(t.double)
                    );
                    add(label, gemm.coop(gpu, t), flops);
                }
                for (bm, bn, bk, um, un) in plain_tiles(small) {
                    let tile = PlainTile { bm, bn, bk, um, un };
                    add(
                        format!("plain {bm}x{bn}x{bk}"),
                        gemm.plain(gpu, tile),
                        flops,
                    );
                }
            }
            Kind::Attention { heads, n, hd } => {
                let op = Attention {
                    batch_idx: 0,
                    rows: n,
                    first: 0,
                    n,
                    m: n,
                    heads,
                    hd,
                    q: view(0),
                    k: view(1),
                    v: view(2),
                    out: view(3),
                    mask: None,
                    scale: 1.0,
                };
                let flops = 4.0 * f64::from(heads) * f64::from(n).powi(2) * f64::from(hd);
                for t in attention_tiles(small) {
                    let label = format!(
                        "coop {}x{} sub {} sgb {}",
                        t.bq,
                        t.bkv,
                        t.wq,
                        u8::from(t.subgroup_barrier)
                    );
                    add(label, op.coop(gpu, t), flops);
                }
            }
        }
        jobs
    }
}

fn conv3_tiles(small: bool) -> Vec<Conv3Tile> {
    let tile = |ty, tx, bn, bk, wm, wn, taps| Conv3Tile {
        ty,
        tx,
        bn,
        bk,
        wm,
        wn,
        taps,
    };
    if small {
        return vec![tile(4, 8, 16, 8, 16, 16, 3), tile(4, 16, 32, 16, 16, 16, 1)];
    }
    vec![
        tile(16, 16, 128, 16, 64, 64, 3),
        tile(16, 16, 128, 32, 64, 64, 1),
    ]
}

fn coop_tiles(small: bool, conv: bool) -> Vec<CoopTile> {
    let tile = |bm, bn, bk, wm, wn, double| CoopTile {
        bm,
        bn,
        bk,
        wm,
        wn,
        pad: 2,
        double,
        swap: false,
    };
    if small {
        return vec![
            tile(32, 32, 16, 16, 16, false),
            tile(32, 64, 32, 32, 16, true),
        ];
    }
    let mut tiles = vec![
        tile(256, 128, 32, 64, 64, false),
        tile(128, 128, 32, 64, 32, false),
    ];
    if !conv {
        tiles.extend([
            tile(128, 128, 32, 64, 32, true),
            tile(128, 128, 64, 64, 32, false),
            tile(128, 256, 32, 64, 64, false),
            tile(128, 128, 32, 64, 64, false),
            tile(128, 64, 32, 32, 32, true),
        ]);
    }
    tiles
}

fn plain_tiles(small: bool) -> Vec<(u32, u32, u32, u32, u32)> {
    if small {
        return vec![(32, 32, 16, 1, 1), (64, 32, 16, 2, 2)];
    }
    vec![(128, 128, 16, 2, 2), (128, 128, 8, 2, 2)]
}

fn attention_tiles(small: bool) -> Vec<AttentionTile> {
    let tile = |bq, bkv, wq, subgroup_barrier| AttentionTile {
        bq,
        bkv,
        wq,
        subgroup_barrier,
    };
    if small {
        return vec![
            tile(32, 16, 8, false),
            tile(32, 16, 8, true),
            tile(16, 16, 8, false),
        ];
    }
    vec![
        tile(64, 32, 16, false),
        tile(64, 32, 16, true),
        tile(128, 32, 16, false),
        tile(64, 32, 32, true),
    ]
}

fn reference(kind: &Kind, inputs: &[Vec<f16>], at: u32) -> f32 {
    match *kind {
        Kind::Product { n, k, ref conv, .. } => {
            let (row, col) = (at / n, at % n);
            let w = |i: u32| inputs[1][(col * k + i) as usize].to_f64();
            let x = |i: u32| match conv {
                None => inputs[0][(row * k + i) as usize].to_f64(),
                Some(c) => {
                    let (tap, ch, side) = (i / c.c, i % c.c, c.input[1] as i32);
                    let y = (row as i32 / side) + (tap / 3) as i32 - 1;
                    let x = (row as i32 % side) + (tap % 3) as i32 - 1;
                    let inside = (0..side).contains(&y) && (0..side).contains(&x);
                    let at = (y * side + x) as u32;
                    if inside {
                        inputs[0][(at * c.c + ch) as usize].to_f64()
                    } else {
                        0.0
                    }
                }
            };
            let sum: f64 = (0..k).map(|i| x(i) * w(i)).sum();
            sum as f32 + inputs[2][col as usize].to_f32()
        }
        Kind::Attention { heads, n, hd } => {
            let (row, head, col) = (at / hd / heads, at / hd % heads, at % hd);
            let v = |t: usize, r: u32, c: u32| {
                inputs[t][((r * heads + head) * hd + c) as usize].to_f64()
            };
            let score = |j: u32| (0..hd).map(|c| v(0, row, c) * v(1, j, c)).sum::<f64>();
            let scores: Vec<f64> = (0..n).map(score).collect();
            let top = scores.iter().copied().fold(f64::MIN, f64::max);
            let total: f64 = scores.iter().map(|s| (s - top).exp()).sum();
            (0..n)
                .map(|j| (scores[j as usize] - top).exp() / total * v(2, j, col))
                .sum::<f64>() as f32
        }
    }
}

/// Values in -0.5..0.5 whose sums stay far from f16's limits.
fn values(n: usize, seed: u32) -> Vec<f16> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f16::from_f32((state >> 8) as f32 / 16_777_216.0 - 0.5)
        })
        .collect()
}
