//! Steps that use again what an earlier one changed, while their inputs differ little: EasyCache
//! (Zhou et al. 2025) around the network, and ComfyUI's LazyCache around the guided prediction.
//!
//! Both measure how far outputs move when inputs do, and add up how far outputs must have moved
//! since the network last ran. Behavior: ComfyUI's `EasyCache` and `LazyCache`.

mod easy;
mod lazy;

pub(crate) use easy::Easy;
pub(crate) use lazy::Lazy;
use std::cell::Cell;

/// When steps use an earlier one again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepCache {
    pub way: CacheWay,
    /// How far outputs may have moved since the network last ran, as a share of their mean size.
    pub threshold: f32,
    /// Noise levels between which steps may be reused: from the first down to the second.
    pub sigmas: (f32, f32),
    /// Rows and columns of a latent: the last two axes.
    pub plane: (usize, usize),
    /// Whether both prompts' predictions are one output. Only [`CacheWay::Easy`] sees them apart.
    pub together: bool,
}

/// What is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheWay {
    /// For each prompt, the difference of the network's output and its input.
    Easy,
    /// The difference of the guided prediction and the latent.
    Lazy,
}

/// How often predictions were asked for, and how often an earlier one was used again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reuses {
    pub predictions: usize,
    pub reused: usize,
}

impl Reuses {
    fn count(all: &Cell<Reuses>, reused: bool) {
        let before = all.get();
        all.set(Reuses {
            predictions: before.predictions + 1,
            reused: before.reused + usize::from(reused),
        });
    }
}

/// Every so many rows and columns are looked at.
const STRIDE: usize = 8;

/// How far outputs moved, and how far they must have moved since.
struct Drift {
    threshold: f32,
    plane: (usize, usize),
    last: Option<Last>,
    /// How much further outputs move than inputs.
    rate: Option<f32>,
    /// The sum of how far outputs moved since the network last ran.
    sum: f32,
}

/// The last time that the network ran.
struct Last {
    input: Vec<f32>,
    output: Vec<f32>,
    /// The mean size of all its outputs.
    size: f32,
}

impl Drift {
    fn new(told: &StepCache) -> Drift {
        Drift {
            threshold: told.threshold,
            plane: told.plane,
            last: None,
            rate: None,
            sum: 0.0,
        }
    }

    /// How far the input is from that of the last time.
    fn moved(&self, input: &[f32]) -> Option<f32> {
        let last = self.last.as_ref()?;
        Some(distance(&self.sparse(input), &last.input))
    }

    /// Whether the output can have moved only so little that the last one does.
    fn is_small(&mut self, moved: Option<f32>) -> bool {
        let (Some(moved), Some(last), Some(rate)) = (moved, &self.last, self.rate) else {
            return false;
        };
        self.sum += rate * moved / last.size;
        let is_small = self.sum < self.threshold;
        if !is_small {
            self.sum = 0.0;
        }
        is_small
    }

    /// Takes in what the network made; `size` is the mean size of all its outputs.
    fn take(&mut self, moved: Option<f32>, input: &[f32], output: &[f32], size: f32) {
        let (input, output) = (self.sparse(input), self.sparse(output));
        if let (Some(last), Some(moved)) = (&self.last, moved) {
            self.rate = Some(distance(&output, &last.output) / moved);
        }
        self.last = Some(Last {
            input,
            output,
            size,
        });
    }

    /// The values of every eighth row and column.
    fn sparse(&self, values: &[f32]) -> Vec<f32> {
        let (height, width) = self.plane;
        let planes = values.chunks_exact((height * width).max(1));
        let rows = planes.flat_map(|plane| plane.chunks_exact(width.max(1)).step_by(STRIDE));
        rows.flat_map(|row| row.iter().copied().step_by(STRIDE))
            .collect()
    }
}

/// The mean of |v|.
fn mean_size<'v>(values: impl Iterator<Item = &'v f32>) -> f32 {
    let (mut sum, mut n) = (0.0, 0_usize);
    for v in values {
        sum += f64::from(v.abs());
        n += 1;
    }
    (sum / n as f64) as f32
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    let apart: Vec<f32> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    mean_size(apart.iter())
}

/// What has to be added to `input` to get `output`.
fn difference(output: &[f32], input: &[f32], out: &mut Vec<f32>) {
    out.clear();
    out.extend(output.iter().zip(input).map(|(o, i)| o - i));
}

/// An input with a difference added.
fn moved_by(input: &[f32], difference: &[f32], out: &mut [f32]) {
    for (out, (i, d)) in out.iter_mut().zip(input.iter().zip(difference)) {
        *out = i + d;
    }
}
