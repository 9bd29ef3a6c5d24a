//! SEEDS, stochastic exponential solvers in data prediction (Gonzalez et al. 2023), with two and
//! three stages, and exponential Heun, which is SEEDS-2 with its stage at the step's end. Noise of
//! the stages of one step belongs to one path: a later stage decays what an earlier one drew and
//! adds its own share.

use super::snr;
use crate::error::Stop;
use crate::exact::Exact;
use crate::linear::{lerp, mix, sum_into};
use crate::sampler::{Run, Solver};

pub fn seeds_2(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let solver = run.options.solver.unwrap_or(Solver::Phi1);
    two_stages(run, x, run.eta(), run.options.r, solver)
}

pub fn exp_heun_2_x0(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    two_stages(run, x, 0.0, 1.0, run.options.solver.unwrap_or(Solver::Phi2))
}

pub fn exp_heun_2_x0_sde(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let solver = run.options.solver.unwrap_or(Solver::Phi2);
    two_stages(run, x, run.eta(), 1.0, solver)
}

fn two_stages(
    run: &mut Run<'_>,
    x: &mut [f32],
    eta: f32,
    r: f32,
    solver: Solver,
) -> Result<(), Stop> {
    let n = x.len();
    let (mut denoised, mut denoised_2, mut x_2) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let mut noise = PathNoise::new(run, n, eta);
    let sigmas = snr::finite(run.model, run.sigmas);
    for i in 0..run.steps() {
        let (sigma, next) = (sigmas[i], sigmas[i + 1]);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, sigma, x, &denoised)?;
        if next == 0.0 {
            x.copy_from_slice(&denoised);
            continue;
        }
        let step = Stages::new(run, sigma, next, eta);
        let (middle, alpha) = step.at(run, r);
        let keep = middle / sigma * (-r * step.h * eta).exact_exp();
        sum_into(
            &mut x_2,
            &[(keep, x), (-alpha * phi_1(-r * step.h_eta), &denoised)],
        );
        noise.add(&mut x_2, 0.0, r, sigma, middle, step.h);
        run.denoise(&x_2, middle, &mut denoised_2)?;

        let alpha = next * step.to.exact_exp();
        let keep = next / sigma * (-step.h * eta).exact_exp();
        let whole = phi_1(-step.h_eta);
        let b2 = if solver == Solver::Phi2 {
            phi_2(-step.h_eta) / r
        } else {
            whole / (2.0 * r)
        };
        let b1 = whole - b2;
        mix(
            x,
            keep,
            &[(-alpha * b1, &denoised), (-alpha * b2, &denoised_2)],
        );
        noise.add(x, r, 1.0, middle, next, step.h);
    }
    Ok(())
}

pub fn seeds_3(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let n = x.len();
    let (mut denoised, mut denoised_2, mut denoised_3, mut stage) =
        (vec![0.0; n], vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let eta = run.eta();
    let [r_1, r_2] = run.options.r_3;
    let mut noise = PathNoise::new(run, n, eta);
    let sigmas = snr::finite(run.model, run.sigmas);
    for i in 0..run.steps() {
        let (sigma, next) = (sigmas[i], sigmas[i + 1]);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, sigma, x, &denoised)?;
        if next == 0.0 {
            x.copy_from_slice(&denoised);
            continue;
        }
        let step = Stages::new(run, sigma, next, eta);
        let (sigma_1, alpha_1) = step.at(run, r_1);
        let (sigma_2, alpha_2) = step.at(run, r_2);

        let keep = sigma_1 / sigma * (-r_1 * step.h * eta).exact_exp();
        sum_into(
            &mut stage,
            &[(keep, x), (-alpha_1 * phi_1(-r_1 * step.h_eta), &denoised)],
        );
        noise.add(&mut stage, 0.0, r_1, sigma, sigma_1, step.h);
        run.denoise(&stage, sigma_1, &mut denoised_2)?;

        let a_2 = r_2 / r_1 * phi_2(-r_2 * step.h_eta);
        let a_1 = phi_1(-r_2 * step.h_eta) - a_2;
        let keep = sigma_2 / sigma * (-r_2 * step.h * eta).exact_exp();
        let terms = [
            (keep, &*x),
            (-alpha_2 * a_1, &denoised),
            (-alpha_2 * a_2, &denoised_2),
        ];
        sum_into(&mut stage, &terms);
        noise.add(&mut stage, r_1, r_2, sigma_1, sigma_2, step.h);
        run.denoise(&stage, sigma_2, &mut denoised_3)?;

        let b_3 = phi_2(-step.h_eta) / r_2;
        let b_1 = phi_1(-step.h_eta) - b_3;
        let alpha = next * step.to.exact_exp();
        let keep = next / sigma * (-step.h * eta).exact_exp();
        mix(
            x,
            keep,
            &[(-alpha * b_1, &denoised), (-alpha * b_3, &denoised_3)],
        );
        noise.add(x, r_2, 1.0, sigma_2, next, step.h);
    }
    Ok(())
}

/// h * phi_1(h).
fn phi_1(h: f32) -> f32 {
    h.exact_exp_m1()
}

/// h * phi_2(h).
fn phi_2(h: f32) -> f32 {
    (h.exact_exp_m1() - h) / h
}

/// A step in half log-SNR.
struct Stages {
    from: f32,
    to: f32,
    h: f32,
    h_eta: f32,
}

impl Stages {
    fn new(run: &Run<'_>, sigma: f32, next: f32, eta: f32) -> Self {
        let (from, to) = (snr::lambda(run.model, sigma), snr::lambda(run.model, next));
        Self {
            from,
            to,
            h: to - from,
            h_eta: (to - from) * (eta + 1.0),
        }
    }

    /// Noise level and signal scale at a fraction `r` of the step.
    fn at(&self, run: &Run<'_>, r: f32) -> (f32, f32) {
        let lambda = lerp(self.from, self.to, r);
        let sigma = snr::sigma(run.model, lambda);
        (sigma, sigma * lambda.exact_exp())
    }
}

/// The noise gathered since the step began, in units of the current level.
struct PathNoise {
    source: Option<crate::noise::StepNoise>,
    gathered: Vec<f32>,
    eta: f32,
    s_noise: f32,
}

impl PathNoise {
    fn new(run: &Run<'_>, n: usize, eta: f32) -> Self {
        let s_noise = run.s_noise();
        let source = (eta > 0.0 && s_noise > 0.0).then(|| run.fresh_noise(n));
        Self {
            source,
            gathered: vec![0.0; n],
            eta,
            s_noise,
        }
    }

    /// Moves on from fraction `r` of the step (level `from`) to fraction `r_to` (level `to`), and
    /// adds to `x`.
    fn add(&mut self, x: &mut [f32], r: f32, r_to: f32, from: f32, to: f32, h: f32) {
        let Some(source) = &mut self.source else {
            return;
        };
        let decay = (r - r_to) * h * self.eta;
        let keep = if r == 0.0 { 0.0 } else { decay.exact_exp() };
        let fresh = (-(decay * 2.0).exact_exp_m1()).sqrt();
        mix(&mut self.gathered, keep, &[(fresh, source.draw(from, to))]);
        mix(x, 1.0, &[(to * self.s_noise, &self.gathered)]);
    }
}
