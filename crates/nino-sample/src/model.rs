//! The noise levels a model was trained on: a table of sigmas, the map between sigma and the
//! timestep the network is told, and what its output means. One constructor per family, with
//! ComfyUI's settings.

use crate::exact::{Exact, linspace};
use crate::prediction::Prediction;

#[derive(Debug, Clone)]
pub struct ModelSampling {
    pub prediction: Prediction,
    /// Deviation of the data the model assumes.
    pub sigma_data: f32,
    /// Rising; schedulers pick from it.
    sigmas: Vec<f32>,
    levels: Levels,
}

/// How timesteps and sigmas correspond.
#[derive(Debug, Clone)]
enum Levels {
    /// Timestep `skip * i + skip - 1` is entry `i` of the table, log-interpolated between; `skip`
    /// is 1 but for distilled models, which know only every `skip`th of the original timesteps.
    Discrete { log_sigmas: Vec<f32>, skip: usize },
    /// t = ln(sigma) / 4.
    ContinuousEdm,
    /// t = 2 atan(sigma) / pi.
    ContinuousV,
    /// sigma = shift * t / (1 + (shift - 1) * t), with t counted in `multiplier`s.
    Flow { shift: f64, multiplier: f32 },
    /// sigma = e^mu / (e^mu + 1/t - 1).
    Flux { mu: f64 },
}

/// Entries of the consistency models' table whose logarithm torch rounds up, having it taken in f32
/// by MKL. The middle level of every even number of steps lies half-way between two entries, and
/// which of them is nearer hangs on the last bit.
const TORCH_ROUNDS_UP: [usize; 4] = [23, 24, 30, 31];

/// The forward process of the discrete models: `linear` in the square root of beta, or in beta
/// itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Betas {
    pub start: f64,
    pub end: f64,
    pub scaled_linear: bool,
    pub timesteps: usize,
}

impl Betas {
    /// Stable Diffusion 1.x, 2.x and XL.
    pub const STABLE_DIFFUSION: Self = Self {
        start: 0.00085,
        end: 0.012,
        scaled_linear: true,
        timesteps: 1000,
    };
}

impl ModelSampling {
    /// SD 1.x, SD 2.x base, SDXL, SD Turbo: epsilon over the thousand levels.
    pub fn stable_diffusion(prediction: Prediction) -> Self {
        Self::discrete(prediction, Betas::STABLE_DIFFUSION, false)
    }

    /// `zero_terminal_snr` rescales the levels so that the last is (nearly) pure noise (Lin et al.
    /// 2023).
    pub fn discrete(prediction: Prediction, betas: Betas, zero_terminal_snr: bool) -> Self {
        let mut sigmas = sigmas_of(betas);
        if zero_terminal_snr {
            rescale_zero_terminal_snr(&mut sigmas);
        }
        Self::from_table(prediction, &sigmas, 1)
    }

    /// Latent consistency models: 50 of the thousand levels.
    pub fn lcm(zero_terminal_snr: bool) -> Self {
        let full = Self::discrete(Prediction::Lcm, Betas::STABLE_DIFFUSION, zero_terminal_snr);
        let skip = full.sigmas.len() / 50;
        let kept: Vec<f64> = full
            .sigmas
            .chunks_exact(skip)
            .map(|c| f64::from(c[skip - 1]))
            .collect();
        let mut model = Self::from_table(Prediction::Lcm, &kept, skip);
        if !zero_terminal_snr && let Levels::Discrete { log_sigmas, .. } = &mut model.levels {
            for i in TORCH_ROUNDS_UP {
                log_sigmas[i] = log_sigmas[i].next_up();
            }
        }
        model
    }

    /// Playground 2.5 and other EDM models (`Prediction::Edm`), or v-prediction over EDM levels.
    pub fn continuous_edm(
        prediction: Prediction,
        sigma_min: f64,
        sigma_max: f64,
        sigma_data: f32,
    ) -> Self {
        let sigmas = linspace(sigma_min.ln() as f32, sigma_max.ln() as f32, 1000);
        let sigmas = sigmas.into_iter().map(Exact::exact_exp).collect();
        Self {
            prediction,
            sigma_data,
            sigmas,
            levels: Levels::ContinuousEdm,
        }
    }

    /// Continuous v-prediction (Stable Audio).
    pub fn continuous_v(sigma_min: f64, sigma_max: f64) -> Self {
        let edm = Self::continuous_edm(Prediction::V, sigma_min, sigma_max, 1.0);
        Self {
            levels: Levels::ContinuousV,
            ..edm
        }
    }

    /// SD3 (shift 3), Wan (shift 8 or 5), AuraFlow (shift 1.73, multiplier 1), Flux schnell (1 and
    /// 1).
    pub fn flow(shift: f64, multiplier: f32) -> Self {
        let mut model = Self {
            prediction: Prediction::FLOW,
            sigma_data: 1.0,
            sigmas: Vec::new(),
            levels: Levels::Flow { shift, multiplier },
        };
        model.sigmas = (1..=1000)
            .map(|i| model.sigma(i as f32 / 1000.0 * multiplier))
            .collect();
        model
    }

    /// Flux: `mu` is 1.15, or `flux_mu` of the image's size.
    pub fn flux(mu: f64) -> Self {
        let mut model = Self {
            prediction: Prediction::FLOW,
            sigma_data: 1.0,
            sigmas: Vec::new(),
            levels: Levels::Flux { mu },
        };
        model.sigmas = (1..=10_000)
            .map(|i| model.sigma(i as f32 / 10_000.0))
            .collect();
        model
    }

    /// Whether it was trained on levels of any value, as EDM models are, not on a table's.
    pub fn is_continuous(&self) -> bool {
        matches!(self.levels, Levels::ContinuousEdm | Levels::ContinuousV)
    }

    #[must_use]
    pub fn with_noise_scale(mut self, noise_scale: f32) -> Self {
        if self.prediction.is_flow() {
            self.prediction = Prediction::Flow { noise_scale };
        }
        self
    }

    /// The table schedulers pick from, rising.
    pub fn sigmas(&self) -> &[f32] {
        &self.sigmas
    }

    pub fn sigma_min(&self) -> f32 {
        self.sigmas[0]
    }

    pub fn sigma_max(&self) -> f32 {
        self.sigmas[self.sigmas.len() - 1]
    }

    /// The timestep the network is told at noise level `sigma`.
    pub fn timestep(&self, sigma: f32) -> f32 {
        match &self.levels {
            Levels::Discrete { log_sigmas, skip } => {
                let log = sigma.exact_ln();
                let distance = |i: usize| (log - log_sigmas[i]).abs();
                let nearest = (1..log_sigmas.len()).fold(0, |best, i| {
                    if distance(i) < distance(best) {
                        i
                    } else {
                        best
                    }
                });
                (nearest * skip + skip - 1) as f32
            }
            Levels::ContinuousEdm => 0.25 * sigma.exact_ln(),
            Levels::ContinuousV => sigma.atan() / std::f32::consts::PI * 2.0,
            Levels::Flow { multiplier, .. } => sigma * multiplier,
            Levels::Flux { .. } => sigma,
        }
    }

    /// The noise level at a timestep, fractions included.
    pub fn sigma(&self, timestep: f32) -> f32 {
        match &self.levels {
            Levels::Discrete { log_sigmas, skip } => {
                let t = (timestep - (skip - 1) as f32) / *skip as f32;
                let t = t.clamp(0.0, (log_sigmas.len() - 1) as f32);
                let (low, high) = (
                    log_sigmas[t.floor() as usize],
                    log_sigmas[t.ceil() as usize],
                );
                let w = t.fract();
                ((1.0 - w) * low + w * high).exact_exp()
            }
            Levels::ContinuousEdm => (timestep / 0.25).exact_exp(),
            Levels::ContinuousV => (timestep * std::f32::consts::PI / 2.0).exact_tan(),
            Levels::Flow { shift, multiplier } => {
                let (shift, t) = (*shift as f32, timestep / multiplier);
                shift * t / (1.0 + (shift - 1.0) * t)
            }
            Levels::Flux { mu } => {
                let e = mu.exp() as f32;
                // torch divides a number by a tensor as reciprocal times number; the top level
                // depends on it.
                1.0 / (e + (1.0 / timestep - 1.0)) * e
            }
        }
    }

    /// The noise level when `percent` of the denoising is done, 0 to 1, as node inputs count it. In
    /// f64, since a level of the schedule may be the very same fraction, and which side it falls on
    /// counts.
    pub fn percent_to_sigma(&self, percent: f64) -> f64 {
        if percent <= 0.0 {
            return if self.prediction.is_flow() {
                1.0
            } else {
                999_999_999.9
            };
        }
        if percent >= 1.0 {
            return 0.0;
        }
        let left = 1.0 - percent;
        match &self.levels {
            Levels::Discrete { .. } => f64::from(self.sigma((left * 999.0) as f32)),
            Levels::ContinuousEdm | Levels::ContinuousV => {
                let (low, high) = (
                    f64::from(self.sigma_min()).ln(),
                    f64::from(self.sigma_max()).ln(),
                );
                ((high - low) * left + low).exp()
            }
            Levels::Flow { shift, .. } => shift * left / (1.0 + (shift - 1.0) * left),
            Levels::Flux { mu } => mu.exp() / (mu.exp() + (1.0 / left - 1.0)),
        }
    }

    fn from_table(prediction: Prediction, sigmas: &[f64], skip: usize) -> Self {
        let log_sigmas = sigmas.iter().map(|s| s.ln() as f32).collect();
        Self {
            prediction,
            sigma_data: 1.0,
            sigmas: sigmas.iter().map(|&s| s as f32).collect(),
            levels: Levels::Discrete { log_sigmas, skip },
        }
    }
}

/// Flux's shift for an image of `width` by `height` pixels, between `base` at 256 tokens and `max`
/// at 4096.
pub fn flux_mu(width: usize, height: usize, max: f64, base: f64) -> f64 {
    let slope = (max - base) / (4096.0 - 256.0);
    let tokens = (width * height) as f64 / 256.0;
    tokens * slope + base - slope * 256.0
}

/// Flux.2's shift for a picture of so many tokens in so many steps: a line over the steps, between
/// two lines over the tokens that were fitted for 10 and 200 steps. Large pictures take the second
/// alone.
pub fn flux2_mu(tokens: usize, steps: usize) -> f64 {
    let at_200 = 0.000_169_27 * tokens as f64 + 0.456_666_66;
    if tokens > 4300 {
        return at_200;
    }
    let at_10 = 8.738_095_24e-5 * tokens as f64 + 1.898_333_33;
    let slope = (at_200 - at_10) / 190.0;
    slope * steps as f64 + (at_200 - 200.0 * slope)
}

fn sigmas_of(betas: Betas) -> Vec<f64> {
    let Betas {
        start,
        end,
        scaled_linear,
        timesteps,
    } = betas;
    let (start, end) = if scaled_linear {
        (start.sqrt(), end.sqrt())
    } else {
        (start, end)
    };
    let step = (end - start) / (timesteps.max(2) - 1) as f64;
    let mut product = 1.0;
    (0..timesteps)
        .map(|i| {
            let beta = start + step * i as f64;
            product *= 1.0 - if scaled_linear { beta * beta } else { beta };
            ((1.0 - product) / product).sqrt()
        })
        .collect()
}

/// Shifts the square roots of alpha-bar to end at zero and scales them to keep their start.
fn rescale_zero_terminal_snr(sigmas: &mut [f64]) {
    /// Stands in for the last alpha-bar, whose sigma would be infinite.
    const LAST_ALPHA_BAR: f64 = 4.897_345_189_085_343_5e-8;
    let root = |s: f64| (1.0 / (s * s + 1.0)).sqrt();
    let (Some(&first), Some(&last)) = (sigmas.first(), sigmas.last()) else {
        return;
    };
    let (first, last) = (root(first), root(last));
    let n = sigmas.len();
    for (i, s) in sigmas.iter_mut().enumerate() {
        let scaled = (root(*s) - last) * first / (first - last);
        let alpha_bar = if i + 1 == n {
            LAST_ALPHA_BAR
        } else {
            scaled * scaled
        };
        *s = ((1.0 - alpha_bar) / alpha_bar).sqrt();
    }
}
