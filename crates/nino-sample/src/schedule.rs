//! The nine schedulers: which noise levels a run of n steps visits. Every list falls, and ends at
//! 0. Names, rounding and off-by-one habits are ComfyUI's, since they decide the picture.

mod beta;
mod found;

pub use found::{ALIGNED, FoundLevels, OPTIMAL};

use crate::Error;
use crate::exact::{Exact, linspace, pow_all};
use crate::model::{ModelSampling, flux2_mu};
use crate::registry::nearest;

/// The largest number of steps, which is ComfyUI's limit.
pub const MAX_STEPS: usize = 10_000;
/// The largest schedule: a small `denoise` takes the tail of one much longer than its steps.
const MAX_LEVELS: usize = 100 * MAX_STEPS;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    Simple,
    SgmUniform,
    Karras,
    Exponential,
    DdimUniform,
    Beta,
    Normal,
    LinearQuadratic,
    KlOptimal,
}

impl Scheduler {
    pub const ALL: [Self; 9] = [
        Self::Simple,
        Self::SgmUniform,
        Self::Karras,
        Self::Exponential,
        Self::DdimUniform,
        Self::Beta,
        Self::Normal,
        Self::LinearQuadratic,
        Self::KlOptimal,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::SgmUniform => "sgm_uniform",
            Self::Karras => "karras",
            Self::Exponential => "exponential",
            Self::DdimUniform => "ddim_uniform",
            Self::Beta => "beta",
            Self::Normal => "normal",
            Self::LinearQuadratic => "linear_quadratic",
            Self::KlOptimal => "kl_optimal",
        }
    }

    pub fn find(name: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|s| s.name() == name)
            .ok_or_else(|| Error::UnknownScheduler {
                name: name.to_owned(),
                nearest: nearest(name, Self::ALL.into_iter().map(Self::name)),
            })
    }

    /// The noise levels of `steps` steps, usually `steps + 1` values. `ddim_uniform` and `beta` may
    /// give a few more or fewer when `steps` does not divide the model's table.
    pub fn sigmas(self, model: &ModelSampling, steps: usize) -> Result<Vec<f32>, Error> {
        if steps == 0 || steps > MAX_LEVELS {
            return Err(Error::Steps {
                steps,
                max: MAX_LEVELS,
            });
        }
        let (min, max) = (model.sigma_min(), model.sigma_max());
        Ok(match self {
            Self::Simple => simple(model.sigmas(), steps),
            Self::SgmUniform => uniform(model, steps, true),
            Self::Karras => karras(min, max, steps, RHO),
            Self::Exponential => exponential(min, max, steps),
            Self::DdimUniform => ddim_uniform(model.sigmas(), steps),
            Self::Beta => beta::sigmas(model.sigmas(), steps, 0.6, 0.6),
            Self::Normal => uniform(model, steps, false),
            Self::LinearQuadratic => linear_quadratic(max, steps),
            Self::KlOptimal => kl_optimal(min, max, steps),
        })
    }
}

/// `BetaSamplingScheduler`: the `beta` schedule of another distribution. Both numbers are above 0.
pub fn beta(model: &ModelSampling, steps: usize, alpha: f64, beta: f64) -> Vec<f32> {
    beta::sigmas(model.sigmas(), steps, alpha, beta)
}

/// `SDTurboScheduler`: the ten timesteps SD Turbo and SDXL Turbo were distilled at, from the
/// noisiest.
pub fn turbo(model: &ModelSampling, steps: usize, denoise: f64) -> Vec<f32> {
    let skipped = 10 - (10.0 * denoise.clamp(0.0, 1.0)) as usize;
    let timesteps = (1..=10).rev().map(|i| (i * 100 - 1) as f32);
    let mut sigmas: Vec<f32> = timesteps
        .skip(skipped)
        .take(steps)
        .map(|t| model.sigma(t))
        .collect();
    sigmas.push(0.0);
    sigmas
}

/// Every (table length / steps)th entry from the top.
fn simple(table: &[f32], steps: usize) -> Vec<f32> {
    let stride = table.len() as f64 / steps as f64;
    let picked = (0..steps).map(|i| table[table.len() - 1 - (i as f64 * stride) as usize]);
    picked.chain([0.0]).collect()
}

/// Evenly spaced timesteps; `sgm` leaves out the last one, as Stability's generative-models does.
fn uniform(model: &ModelSampling, steps: usize, sgm: bool) -> Vec<f32> {
    let start = model.timestep(model.sigma_max());
    let end = model.timestep(model.sigma_min());
    let ends_at_zero = !sgm && model.sigma(end).abs() <= 1e-5;
    let n = if sgm || ends_at_zero {
        steps + 1
    } else {
        steps
    };
    let mut sigmas: Vec<f32> = linspace(start, end, n)
        .into_iter()
        .map(|t| model.sigma(t))
        .collect();
    if sgm {
        sigmas.pop();
    }
    if !ends_at_zero {
        sigmas.push(0.0);
    }
    sigmas
}

/// What `karras` bends its levels by where nobody says.
const RHO: f64 = 7.0;

/// Flux.2's own levels for a picture of so many tokens. ComfyUI's `Flux2Scheduler`.
pub fn flux2(tokens: usize, steps: usize) -> Vec<f32> {
    let model = ModelSampling::flux(flux2_mu(tokens, steps));
    let times = linspace(1.0, 0.0, steps + 1);
    times.into_iter().map(|t| model.sigma(t)).collect()
}

/// Karras et al. 2022, equation 5, between two noise levels: ComfyUI's `KarrasScheduler`.
pub fn karras(min: f32, max: f32, steps: usize, rho: f64) -> Vec<f32> {
    let root = |s: f32| f64::from(s).powf(1.0 / rho);
    let (low, high) = (root(min), root(max));
    let level = |ramp: f32| high as f32 + ramp * (low - high) as f32;
    let mut sigmas: Vec<f32> = linspace(0.0, 1.0, steps).into_iter().map(level).collect();
    pow_all(&mut sigmas, rho as f32);
    sigmas.push(0.0);
    sigmas
}

/// Levels whose logarithms are evenly spaced: ComfyUI's `ExponentialScheduler`.
pub fn exponential(min: f32, max: f32, steps: usize) -> Vec<f32> {
    let log = |s: f32| f64::from(s).ln() as f32;
    linspace(log(max), log(min), steps)
        .into_iter()
        .map(Exact::exact_exp)
        .chain([0.0])
        .collect()
}

/// Every (table length / steps)th entry, rounded down, from the second entry up.
fn ddim_uniform(table: &[f32], steps: usize) -> Vec<f32> {
    let starts_at_zero = table[1].abs() <= 1e-5;
    let steps = if starts_at_zero { steps + 1 } else { steps };
    let stride = (table.len() / steps).max(1);
    let mut sigmas = if starts_at_zero {
        Vec::new()
    } else {
        vec![0.0]
    };
    sigmas.extend(table.iter().skip(1).step_by(stride));
    sigmas.reverse();
    sigmas
}

/// Genmo Mochi's schedule: small equal steps for the first half, then quadratically growing ones.
fn linear_quadratic(max: f32, steps: usize) -> Vec<f32> {
    const THRESHOLD: f64 = 0.025;
    if steps == 1 {
        return vec![max, 0.0];
    }
    let linear = (steps / 2) as f64;
    let quadratic = steps as f64 - linear;
    let excess = linear - THRESHOLD * steps as f64;
    let a = excess / (linear * quadratic * quadratic);
    let b = THRESHOLD / linear - 2.0 * excess / (quadratic * quadratic);
    let c = a * linear * linear;
    let done = (0..steps).map(|i| {
        let i = i as f64;
        if i < linear {
            i * THRESHOLD / linear
        } else {
            a * i * i + b * i + c
        }
    });
    done.chain([1.0]).map(|d| (1.0 - d) as f32 * max).collect()
}

/// Sabour et al. 2024, "Align your steps", theorem 3.1: even in arctan(sigma). One step, for which
/// the formula has no value, starts at the top.
fn kl_optimal(min: f32, max: f32, steps: usize) -> Vec<f32> {
    let (low, high) = (f64::from(min).atan() as f32, f64::from(max).atan() as f32);
    let level = |i: usize| {
        let ramp = i as f32 / (steps.max(2) - 1) as f32;
        (ramp * low + (1.0 - ramp) * high).exact_tan()
    };
    (0..steps).map(level).chain([0.0]).collect()
}
