//! Ancestral steps: a deterministic step that goes below the next noise level, and fresh noise that
//! brings the latent back up to it. How far down, and what the signal is multiplied by, depends on
//! how a model mixes signal and noise; [`Prediction`] chooses the form.

use crate::exact::Exact;
use crate::prediction::Prediction;

/// One ancestral step: go to level `down`, multiply the latent by `rescale`, then add noise of
/// deviation `up`.
pub(crate) struct AncestralStep {
    pub(crate) down: f32,
    pub(crate) rescale: f32,
    pub(crate) up: f32,
    /// The deterministic step ends at the clean latent.
    pub(crate) to_clean: bool,
}

impl AncestralStep {
    /// For x = x0 + sigma * noise, where down^2 + up^2 = to^2.
    pub(crate) fn in_sigma(from: f32, to: f32, eta: f32) -> Self {
        if eta == 0.0 {
            return Self::without_noise(to);
        }
        let up = to.min(eta * (to * to * (from * from - to * to) / (from * from)).sqrt());
        let down = (to * to - up * up).sqrt();
        Self {
            down,
            rescale: 1.0,
            up,
            to_clean: down == 0.0,
        }
    }

    /// For x = (1 - sigma) * x0 + sigma * noise, whose signal shrinks as noise grows.
    fn in_flow(from: f32, to: f32, eta: f32) -> Self {
        if eta == 0.0 {
            return Self::without_noise(to);
        }
        let down = to * (1.0 + (to / from - 1.0) * eta);
        let (alpha, alpha_down) = (1.0 - to, 1.0 - down);
        let up = (to * to - down * down * (alpha * alpha) / (alpha_down * alpha_down)).sqrt();
        Self {
            down,
            rescale: alpha / alpha_down,
            up,
            to_clean: to == 0.0,
        }
    }

    fn without_noise(to: f32) -> Self {
        Self {
            down: to,
            rescale: 1.0,
            up: 0.0,
            to_clean: to == 0.0,
        }
    }
}

/// Factors of a second-order step from one level to another: `middle` is the level half-way in log
/// SNR, and each half is keep * x + gain * denoised.
pub(crate) struct HalfStep {
    pub(crate) middle: f32,
    pub(crate) keep_half: f32,
    pub(crate) gain_half: f32,
    pub(crate) keep: f32,
    pub(crate) gain: f32,
}

impl HalfStep {
    pub(crate) fn in_sigma(from: f32, to: f32) -> Self {
        let (t, t_next) = (-from.exact_ln(), -to.exact_ln());
        let h = t_next - t;
        let middle = (-(t + 0.5 * h)).exact_exp();
        let start = (-t).exact_exp();
        Self {
            middle,
            keep_half: middle / start,
            gain_half: -(-h * 0.5).exact_exp_m1(),
            keep: (-t_next).exact_exp() / start,
            gain: -(-h).exact_exp_m1(),
        }
    }

    fn in_flow(from: f32, to: f32) -> Self {
        /// Stands in for the middle of a step from pure noise, whose log SNR is infinite.
        const NEAR_NOISE: f32 = 0.9999;
        let lambda = |sigma: f32| ((1.0 - sigma) / sigma).exact_ln();
        let middle = if from >= 1.0 {
            NEAR_NOISE
        } else {
            let (start, end) = (lambda(from), lambda(to));
            1.0 / ((start + 0.5 * (end - start)).exact_exp() + 1.0)
        };
        let (keep_half, keep) = (middle / from, to / from);
        Self {
            middle,
            keep_half,
            gain_half: 1.0 - keep_half,
            keep,
            gain: 1.0 - keep,
        }
    }
}

impl Prediction {
    /// Splits the step between two levels; `eta` 0 gives a step without noise.
    pub(crate) fn ancestral_step(self, from: f32, to: f32, eta: f32) -> AncestralStep {
        match self {
            Self::Flow { .. } => AncestralStep::in_flow(from, to, eta),
            _ => AncestralStep::in_sigma(from, to, eta),
        }
    }

    pub(crate) fn half_step(self, from: f32, to: f32) -> HalfStep {
        match self {
            Self::Flow { .. } => HalfStep::in_flow(from, to),
            _ => HalfStep::in_sigma(from, to),
        }
    }

    /// Moves `x` at level `from` along the line to `denoised`, to level `to`. The two forms differ
    /// in rounding alone, and each is the one ComfyUI has for its family.
    pub(crate) fn euler_step(self, x: &mut [f32], denoised: &[f32], from: f32, to: f32) {
        let pairs = x.iter_mut().zip(denoised);
        match self {
            Self::Flow { .. } => {
                let ratio = to / from;
                pairs.for_each(|(x, d)| *x = ratio * *x + (1.0 - ratio) * d);
            }
            _ => pairs.for_each(|(x, d)| *x += (to - from) * ((*x - d) / from)),
        }
    }
}
