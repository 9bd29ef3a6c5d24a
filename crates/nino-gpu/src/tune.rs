//! Measuring tiles on a device: each candidate of a problem is compiled, checked against the usual
//! tile's result, and timed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use half::f16;
use nino_dtype::DType;
use nino_graph::Plan;

use crate::kernel::View;
use crate::ops::act::ActCode;
use crate::ops::attention::Attention;
use crate::ops::gemm::{ConvShape, Gemm};
use crate::session::build::{LowerError, Memory, launches};
use crate::tuning::{Numbers, Tile, Tiles, candidates};
use crate::weights::packable;
use crate::{Caps, Gpu, GpuError, Launch, Problem, TiledKernel};

/// What became of a problem's candidates.
#[derive(Clone, Debug)]
pub struct Tuned {
    pub problem: Problem,
    /// Candidates that were timed: others do not compile here, or their result was not the usual
    /// one.
    pub timed: usize,
    /// Seconds of the usual tile, and of the best.
    pub usual: f64,
    pub best: f64,
    /// The best tile, where it is another than the usual one and enough faster.
    pub choice: Option<Numbers>,
}

/// How much faster another tile has to be.
const FASTER: f64 = 0.97;
/// Rows that are measured at most: more of them take as long each.
const MOST_ROWS: u32 = 8192;
/// A run that takes longer is made with a quarter of the rows, but no fewer than so many.
const LONG: Duration = Duration::from_millis(100);
const FEWEST_ROWS: u32 = 256;
/// Seconds of work that a time is the median of five of, about.
const SAMPLE: f64 = 0.01;
/// Values of the result that are compared.
const COMPARED: u64 = 4096;
/// The most that results may be apart, as a mean square over that of the values.
const APART: f64 = 1e-5;

/// The problems of a plan whose tiles can be measured, on a device with these abilities.
pub fn problems(caps: &Caps, plan: &Plan) -> Result<BTreeSet<Problem>, GpuError> {
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let caps = Caps {
        tiles: Tiles {
            asked: Some(Arc::clone(&asked)),
            choices: None,
        },
        ..caps.clone()
    };
    let packed = packable(&caps, &[plan]);
    let memory = Memory {
        packed: &packed,
        buffers: None,
    };
    for (step, launches) in launches(&caps, plan, memory).enumerate() {
        launches.map_err(|e| match e {
            LowerError::Plan(e) => GpuError::Validation {
                what: format!("step {step}"),
                reason: e.to_string(),
            },
            LowerError::Gpu(e) => e,
        })?;
    }
    drop(caps);
    let asked = Arc::into_inner(asked).unwrap_or_default();
    Ok(asked.into_inner().unwrap_or_else(PoisonError::into_inner))
}

impl Gpu {
    /// Times the candidates of a problem. A candidate that does not compile, or computes something
    /// else, is left out; an error is the device's own. Nothing where an operand is more than the
    /// device binds at once.
    pub fn tune(&self, problem: Problem) -> Result<Option<Tuned>, GpuError> {
        let mut rows = problem.size[0].min(MOST_ROWS);
        let (scene, usual, expected) = loop {
            let most = sizes(problem, rows).into_iter().max().unwrap_or(0);
            if u64::from(most) * 4 > self.caps.max_binding_bytes {
                if rows <= FEWEST_ROWS {
                    return Ok(None);
                }
                rows /= 4;
                continue;
            }
            let scene = Scene::new(self, problem, rows)?;
            let usual = scene.usual(self)?;
            let launch = scene.launch(&self.caps, usual)?;
            self.prepare_launch(&launch)?;
            let begun = Instant::now();
            let expected = scene.run(self, &launch)?;
            if begun.elapsed() <= LONG || rows <= FEWEST_ROWS {
                break (scene, usual, expected);
            }
            rows /= 4;
        };
        let mut tuned = Tuned {
            problem,
            timed: 1,
            usual: scene.time(self, usual)?,
            best: f64::INFINITY,
            choice: None,
        };
        tuned.best = tuned.usual;
        let others = candidates(problem.kernel, &self.caps);
        for tile in others.into_iter().filter(|tile| *tile != usual) {
            let tried = scene.launch(&self.caps, tile).and_then(|launch| {
                self.prepare_launch(&launch)?;
                scene.run(self, &launch)
            });
            match tried {
                Ok(found) if apart(&found, &expected) <= APART => {}
                _ if self.lost().is_some() => return Err(self.gone()),
                _ => continue,
            }
            let seconds = scene.time(self, tile)?;
            tuned.timed += 1;
            if seconds < tuned.best.min(tuned.usual * FASTER) {
                (tuned.best, tuned.choice) = (seconds, Some(tile));
            }
        }
        Ok(Some(tuned))
    }

    fn gone(&self) -> GpuError {
        GpuError::Validation {
            what: "tiles".to_owned(),
            reason: self.lost().unwrap_or("the device is lost").to_owned(),
        }
    }
}

/// A problem with buffers of made-up values.
struct Scene {
    problem: Problem,
    x: wgpu::Buffer,
    w: wgpu::Buffer,
    out: wgpu::Buffer,
    /// Bytes of the result; the buffer has some more.
    out_bytes: u64,
    rows: u32,
    dtype: DType,
}

/// Heads of attention that is measured: enough to keep a device busy.
const HEADS: u32 = 8;

impl Scene {
    fn new(gpu: &Gpu, problem: Problem, rows: u32) -> Result<Scene, GpuError> {
        let dtype = match problem.kernel {
            TiledKernel::Plain if gpu.caps.tier < crate::Tier::F16 => DType::F32,
            _ => DType::F16,
        };
        let [x, w, out] = sizes(problem, rows);
        let bytes = |values: u32| u64::from(values) * dtype.block_bytes() as u64;
        let filled = |values: u32, seed: u32| {
            let buffer = gpu.buffer("tune", bytes(values).next_multiple_of(16))?;
            let made = (0..values).map(|i| made_up(i.wrapping_add(seed)));
            let data: Vec<u8> = match dtype {
                DType::F32 => made.flat_map(f32::to_le_bytes).collect(),
                _ => made.flat_map(|v| f16::from_f32(v).to_le_bytes()).collect(),
            };
            gpu.write(&buffer, 0, &data)?;
            Ok::<_, GpuError>(buffer)
        };
        Ok(Scene {
            problem,
            x: filled(x, 1)?,
            w: filled(w, 77)?,
            out: gpu.buffer("tune", bytes(out).next_multiple_of(16))?,
            out_bytes: bytes(out) / 16 * 16,
            rows,
            dtype,
        })
    }

    fn gemm(&self) -> Gemm<'_> {
        self.gemm_of(self.rows)
    }

    /// The product, or convolution, of so many rows.
    fn gemm_of(&self, rows: u32) -> Gemm<'_> {
        let [_, n, k] = self.problem.size;
        let view = |buffer| View::whole(buffer, self.dtype);
        let conv = matches!(self.problem.kernel, TiledKernel::Conv3).then(|| {
            let side = side(rows);
            ConvShape {
                input: [1, side, side],
                c: k,
                output: [1, side, side],
                kernel: [1, 3, 3],
                stride: [1; 3],
                dilation: [1; 3],
                pad: [0, 1, 1],
                upsample: 1,
            }
        });
        Gemm {
            m: conv.map_or(rows, |c| c.output[1] * c.output[2]),
            n,
            k: if conv.is_some() { 9 * k } else { k },
            batch: 1,
            first: 0,
            w_first: 0,
            x: view(&self.x),
            w: view(&self.w),
            out: view(&self.out),
            scale: None,
            bias: None,
            factor: None,
            beside: None,
            prologue: None,
            act: ActCode::default(),
            post: ActCode::default(),
            halves: None,
            gate: None,
            alpha: 1.0,
            w_kn: false,
            // How weights are packed changes no time of note, and any values will do.
            w_packed: conv.is_some(),
            conv,
        }
    }

    fn attention(&self) -> Attention<'_> {
        self.attention_of(self.rows, self.problem.size[1].min(MOST_ROWS))
    }

    fn attention_of(&self, rows: u32, keys: u32) -> Attention<'_> {
        let hd = self.problem.size[2];
        let view = |buffer| View::whole(buffer, self.dtype);
        Attention {
            batch_idx: 0,
            batch: 1,
            rows,
            first: 0,
            n: rows,
            m: keys,
            first_key: 0,
            all_keys: keys,
            heads: HEADS,
            hd,
            q: view(&self.x),
            k: view(&self.w),
            v: view(&self.w),
            out: view(&self.out),
            mask: None,
            scale: 1.0 / (hd as f32).sqrt(),
            log: None,
            factors: None,
        }
    }

    /// The tile that is chosen without measurements, for the whole of the problem.
    fn usual(&self, gpu: &Gpu) -> Result<Numbers, GpuError> {
        let [rows, keys, _] = self.problem.size;
        let caps = Caps {
            tiles: Tiles::default(),
            ..gpu.caps.clone()
        };
        Ok(match self.problem.kernel {
            TiledKernel::Plain => self.gemm_of(rows).plain_tile(&caps).numbers(),
            TiledKernel::Coop => self.gemm_of(rows).coop_tile(&caps).numbers(),
            TiledKernel::Conv3 => {
                let gemm = self.gemm_of(rows);
                let conv = gemm.conv.ok_or_else(|| gpu.gone())?;
                let tile = gemm.conv3_tile(&caps, &conv, conv.output[1]);
                crate::ops::gemm::Conv3Tile {
                    packed: false,
                    ..tile
                }
                .numbers()
            }
            TiledKernel::Attention => self.attention_of(rows, keys).coop_tile(&caps).numbers(),
        })
    }

    fn launch(&self, caps: &Caps, tile: Numbers) -> Result<Launch<'_>, GpuError> {
        match self.problem.kernel {
            TiledKernel::Plain => self.gemm().plain(caps, Tile::from_numbers(tile)),
            TiledKernel::Coop => self.gemm().coop(caps, Tile::from_numbers(tile)),
            TiledKernel::Conv3 => {
                let side = side(self.rows);
                let tile = crate::ops::gemm::Conv3Tile {
                    packed: true,
                    ..Tile::from_numbers(tile)
                };
                self.gemm().conv3(caps, tile, [0, 1], (0, side))
            }
            TiledKernel::Attention => self.attention().coop(caps, Tile::from_numbers(tile)),
        }
    }

    /// Runs once, and gives some of the result.
    fn run(&self, gpu: &Gpu, launch: &Launch<'_>) -> Result<Vec<f32>, GpuError> {
        gpu.write(&self.out, 0, &vec![0xff; self.out_bytes as usize])?;
        let dispatch = gpu.dispatch(launch)?;
        gpu.time(&dispatch, 1)?;
        let bytes = self.out_bytes.min(COMPARED * 4);
        let last = self.out_bytes - bytes;
        let mut values = Vec::new();
        for at in [0, last] {
            let found = gpu.read(&self.out, at, bytes as usize)?;
            values.extend(match self.dtype {
                DType::F32 => floats::<4>(&found, f32::from_le_bytes),
                _ => floats::<2>(&found, |b| f16::from_le_bytes(b).to_f32()),
            });
        }
        Ok(values)
    }

    /// Seconds of a run: the median of five batches.
    fn time(&self, gpu: &Gpu, tile: Numbers) -> Result<f64, GpuError> {
        let dispatch = gpu.dispatch(&self.launch(&gpu.caps, tile)?)?;
        let once = gpu.time(&dispatch, 2)? / 2.0;
        let batch = ((SAMPLE / once.max(1e-6)) as u32).clamp(1, 1000);
        let mut times = Vec::new();
        for _ in 0..5 {
            times.push(gpu.time(&dispatch, batch)? / f64::from(batch));
        }
        times.sort_by(f64::total_cmp);
        Ok(times[2])
    }
}

/// Values of both operands and of the result, of so many rows.
fn sizes(problem: Problem, rows: u32) -> [u32; 3] {
    let [_, n, k] = problem.size;
    let pixels = side(rows).pow(2);
    match problem.kernel {
        TiledKernel::Plain | TiledKernel::Coop => [rows * k, n * k, rows * n],
        TiledKernel::Conv3 => [pixels * k, 9 * n * k, pixels * n],
        TiledKernel::Attention => {
            let [queries, keys] = [rows, n.min(MOST_ROWS)].map(|rows| rows * HEADS * k);
            [queries, keys, queries]
        }
    }
}

/// The side of a square of about so many pixels.
fn side(pixels: u32) -> u32 {
    pixels.isqrt().max(8)
}

fn floats<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    bytes.as_chunks::<N>().0.iter().map(|b| value(*b)).collect()
}

/// A number between -1 and 1 that follows from `i` alone.
fn made_up(i: u32) -> f32 {
    let mixed = i.wrapping_mul(2_654_435_761) ^ (i >> 7);
    (mixed >> 9) as f32 / 4_194_304.0 - 1.0
}

fn apart(found: &[f32], expected: &[f32]) -> f64 {
    let square = |v: f32| f64::from(v) * f64::from(v);
    let pairs = found.iter().zip(expected);
    let error: f64 = pairs.map(|(f, e)| square(f - e)).sum();
    let size: f64 = expected.iter().map(|&e| square(e)).sum();
    if error.is_nan() || size <= 0.0 {
        return f64::INFINITY;
    }
    error / size
}
