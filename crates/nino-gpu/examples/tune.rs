//! Times kernel shapes on the GPU and checks a sample of each result against the CPU.
//!
//! `tune [--small] [--adapter NAME] [--limit SECONDS] [FILTER]`: one line per kernel with compile
//! seconds, TFLOP/s (median of several device-timed batches) and the largest error of the sampled
//! outputs. Problems and tiles can be given instead: `gemm:M,N,K:BM,BN,BK,WM,WN,AHEAD/..`,
//! `conv:C,N,SIDE:TY,TX,BN,BK,WM,WN,TAPS,PACKED/..`, `attention:HEADS,N,HD:BQ,BKV,WQ/..` (`:wide`).
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Instant;

use half::f16;
use nino_dtype::DType;
use nino_gpu::ops::act::ActCode;
use nino_gpu::ops::attention::{Attention, AttentionTile};
use nino_gpu::ops::gemm::{Conv3Tile, ConvShape, CoopTile, Gemm, PlainTile};
use nino_gpu::{Gpu, GpuDevice, GpuError, Launch, OpenOptions, View};
use nino_graph::{Device, Graph, Plan, RunOptions, rewrite};

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
        gpu.info.name, gpu.info.driver_info, gpu.tier, gpu.info.memory
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
        let made = gpu.prepare(std::slice::from_ref(&job.launch.key));
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
    let plan = Arc::new(Plan::new(graph, device.plan_options()).unwrap());
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

/// Buffers and expected samples of one problem.
struct Scene {
    name: String,
    kind: Kind,
    buffers: Vec<wgpu::Buffer>,
    samples: Vec<(u64, f32)>,
    /// Tiles to try; those measured best before where none are given.
    tiles: Vec<Vec<u32>>,
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
    let mut conv = |c: u32, n: u32, side: u32| {
        kinds.push((format!("conv {c}@{side}"), Kind::conv(c, n, side)));
    };
    if small {
        conv(24, 40, 9);
    } else {
        conv(512, 512, 128);
        conv(256, 256, 512);
        conv(128, 128, 512);
    }
    let attentions: &[(u32, u32, u32)] = if small {
        &[(2, 37, 24)]
    } else {
        &[(24, 4608, 128), (8, 4096, 40)]
    };
    for &(heads, n, hd) in attentions {
        kinds.push((
            format!("attention {heads},{n},{hd}"),
            Kind::Attention { heads, n, hd },
        ));
    }
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

impl Kind {
    fn conv(c: u32, n: u32, side: u32) -> Kind {
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
        Kind::Product {
            m: side * side,
            n,
            k: c * 9,
            conv: Some(shape),
        }
    }
}

impl Scene {
    fn parse(gpu: &Gpu, word: &str) -> Scene {
        let mut parts = word.split(':');
        let (name, sizes) = (parts.next().unwrap(), parts.next().unwrap());
        let numbers =
            |text: &str| -> Vec<u32> { text.split(',').map(|n| n.parse().unwrap()).collect() };
        let size = numbers(sizes);
        let kind = match name {
            "gemm" => Kind::Product {
                m: size[0],
                n: size[1],
                k: size[2],
                conv: None,
            },
            "conv" => Kind::conv(size[0], size[1], size[2]),
            _ => Kind::Attention {
                heads: size[0],
                n: size[1],
                hd: size[2],
            },
        };
        let tiles = match parts.next() {
            Some("wide") => vec![vec![]],
            Some(tiles) => tiles.split('/').map(numbers).collect(),
            None => Vec::new(),
        };
        let scene = Scene::new(gpu, format!("{name} {sizes}"), kind);
        Scene { tiles, ..scene }
    }

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
        if let Kind::Product {
            n, conv: Some(c), ..
        } = &kind
        {
            for bk in packings(c.c) {
                buffers.push(upload(&pack(&inputs[1], *n, c.c, bk)));
            }
        }
        buffers.push(gpu.buffer("tune", u64::from(out) * 2).unwrap());
        let samples = (0..24u32).map(|i| {
            let at = i.wrapping_mul(2_654_435_761) % out;
            (u64::from(at), reference(&kind, &inputs, at))
        });
        Scene {
            samples: samples.collect(),
            tiles: Vec::new(),
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
                    out: View::whole(self.buffers.last().unwrap(), DType::F16),
                    bias: Some(view(2)),
                    residual: None,
                    prologue: None,
                    act: ActCode::default(),
                    post: ActCode::default(),
                    alpha: 1.0,
                    w_kn: false,
                    w_packed: false,
                    conv,
                };
                let flops = 2.0 * f64::from(m) * f64::from(n) * f64::from(k);
                if let Some(c) = conv {
                    for t in conv3_tiles(small, c.c, &self.tiles) {
                        let mut gemm = gemm.clone();
                        if t.packed {
                            let at = packings(c.c).iter().position(|bk| *bk == t.bk).unwrap();
                            gemm.w = view(3 + at);
                        }
                        let label = format!(
                            "conv3 {}x{}x{} k{} sub {}x{} taps {} packed {}",
                            t.ty,
                            t.tx,
                            t.bn,
                            t.bk,
                            t.wm,
                            t.wn,
                            t.taps,
                            u8::from(t.packed)
                        );
                        add(label, gemm.conv3(gpu, t, [0, 1], (0, c.output[1])), flops);
                    }
                }
                for t in coop_tiles(small, conv.is_some(), &self.tiles) {
                    let label = format!(
                        "coop {}x{}x{} sub {}x{} ahead {}",
                        t.bm, t.bn, t.bk, t.wm, t.wn, t.ahead
                    );
                    add(label, gemm.coop(gpu, t), flops);
                }
                let plain = if self.tiles.is_empty() {
                    plain_tiles(small)
                } else {
                    Vec::new()
                };
                for (bm, bn, bk, um, un) in plain {
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
                    batch: 1,
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
                if self.tiles.first().is_some_and(Vec::is_empty) {
                    add("wide".to_owned(), op.wide(gpu), flops);
                    return jobs;
                }
                for t in attention_tiles(small, &self.tiles) {
                    let label = format!("coop {}x{} sub {}", t.bq, t.bkv, t.wq);
                    add(label, op.coop(gpu, t), flops);
                }
            }
        }
        jobs
    }
}

fn conv3_tiles(small: bool, c: u32, given: &[Vec<u32>]) -> Vec<Conv3Tile> {
    let tile = |ty, tx, bn, bk, wm, wn, taps, packed| Conv3Tile {
        ty,
        tx,
        bn,
        bk,
        wm,
        wn,
        taps,
        packed,
    };
    if !given.is_empty() {
        let made = |t: &Vec<u32>| tile(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7] == 1);
        return given.iter().map(made).collect();
    }
    if small {
        return vec![
            tile(4, 8, 16, 8, 16, 16, 3, false),
            tile(4, 8, 16, 8, 16, 16, 3, true),
        ];
    }
    let mut tiles = vec![
        tile(16, 16, 128, 16, 64, 64, 3, false),
        tile(16, 16, 128, 16, 64, 64, 3, true),
    ];
    if c == 512 {
        tiles.push(tile(8, 16, 128, 32, 64, 32, 1, true));
        tiles.push(tile(16, 16, 128, 32, 64, 64, 1, true));
    }
    tiles
}

/// Channel blocks the weights are packed by, for the tiles that want it.
fn packings(c: u32) -> Vec<u32> {
    [8, 16, 32]
        .into_iter()
        .filter(|bk| c.is_multiple_of(*bk))
        .collect()
}

/// `[cout, tap, cin]` to `[cin / bk, tap, cout, bk]`.
fn pack(w: &[f16], n: u32, c: u32, bk: u32) -> Vec<f16> {
    let mut packed = Vec::with_capacity(w.len());
    for block in 0..c / bk {
        for tap in 0..9 {
            for row in 0..n {
                let at = ((row * 9 + tap) * c + block * bk) as usize;
                packed.extend(&w[at..at + bk as usize]);
            }
        }
    }
    packed
}

fn coop_tiles(small: bool, conv: bool, given: &[Vec<u32>]) -> Vec<CoopTile> {
    let (pad, swap) = (2, false);
    let made = |bm, bn, bk, wm, wn, ahead| CoopTile {
        bm,
        bn,
        bk,
        wm,
        wn,
        pad,
        swap,
        ahead,
    };
    let tile = |bm, bn, bk, wm, wn| made(bm, bn, bk, wm, wn, 1);
    if !given.is_empty() && !conv {
        let given = given.iter();
        return given
            .map(|t| made(t[0], t[1], t[2], t[3], t[4], t[5]))
            .collect();
    }
    match (small, conv) {
        (true, _) => vec![tile(32, 32, 16, 16, 16), tile(32, 64, 32, 32, 16)],
        (false, true) => Vec::new(),
        (false, false) => vec![tile(128, 128, 32, 64, 32), tile(256, 128, 32, 64, 64)],
    }
}

fn plain_tiles(small: bool) -> Vec<(u32, u32, u32, u32, u32)> {
    if small {
        return vec![(32, 32, 16, 1, 1), (64, 32, 16, 2, 2)];
    }
    vec![(128, 128, 16, 2, 2)]
}

fn attention_tiles(small: bool, given: &[Vec<u32>]) -> Vec<AttentionTile> {
    let tile = |bq, bkv, wq| AttentionTile { bq, bkv, wq };
    if !given.is_empty() {
        return given.iter().map(|t| tile(t[0], t[1], t[2])).collect();
    }
    if small {
        return vec![tile(32, 16, 8), tile(16, 16, 8)];
    }
    vec![tile(128, 32, 16), tile(64, 32, 16)]
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
