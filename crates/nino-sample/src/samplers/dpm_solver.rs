//! DPM-Solver in t = -sigma.exact_ln() (Lu et al. 2022, algorithms 1 to 3), as k-diffusion runs it:
//! `dpm_fast` spends a given number of evaluations on third-order steps of equal length,
//! `dpm_adaptive` chooses its steps by the difference of a second and a third-order result. Neither
//! visits the schedule's levels, only its ends.

use crate::ancestral::AncestralStep;
use crate::error::Stop;
use crate::exact::{Exact, linspace};
use crate::linear::{mix, sum_into};
use crate::sampler::Run;

pub fn dpm_fast(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let Some((start, end)) = ends(run.sigmas) else {
        return Ok(());
    };
    let evaluations = run.steps();
    let m = evaluations / 3 + 1;
    let ts = linspace(start, end, m + 1);
    let mut orders = vec![3; m - 1];
    if evaluations.is_multiple_of(3) {
        orders.pop();
        orders.extend([2, 1]);
    } else {
        orders.push(evaluations % 3);
    }
    let eta = run.options.eta.unwrap_or(0.0);
    let mut noise = run.fresh_noise(x.len());
    let mut solver = Solver::new(x.len());
    for (i, &order) in orders.iter().enumerate() {
        let (t, t_next) = (ts[i], ts[i + 1]);
        let (t_down, up) = down(t, t_next, end, eta);
        solver.eps(run, x, t)?;
        run.report(i, sigma(t), x, &solver.denoised)?;
        match order {
            1 => solver.first(x, t, t_down),
            2 => solver.second(run, x, t, t_down, 0.5)?,
            _ => solver.third(run, x, t, t_down)?,
        }
        x.copy_from_slice(&solver.out);
        if up != 0.0 {
            mix(
                x,
                1.0,
                &[(
                    up * run.options.s_noise,
                    noise.draw(sigma(t), sigma(t_next)),
                )],
            );
        }
    }
    Ok(())
}

pub fn dpm_adaptive(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let Some((start, end)) = ends(run.sigmas) else {
        return Ok(());
    };
    let settings = run.options.adaptive;
    let order = if run.options.order == Some(2) { 2 } else { 3 };
    let eta = run.options.eta.unwrap_or(0.0);
    let mut noise = run.fresh_noise(x.len());
    let mut solver = Solver::new(x.len());
    let mut previous = x.to_vec();
    let mut pid = StepSize::new(run, if eta == 0.0 { order as f64 } else { 1.5 });
    let mut s = start;
    let mut steps = 0;
    while s < end - 1e-5 {
        let t = end.min(s + pid.h as f32);
        let (t_down, up) = down(s, t, end, eta);
        solver.eps(run, x, s)?;
        if order == 2 {
            solver.first(x, s, t_down);
            std::mem::swap(&mut solver.out, &mut solver.x_low);
            solver.second(run, x, s, t_down, 0.5)?;
        } else {
            solver.second(run, x, s, t_down, 1.0 / 3.0)?;
            std::mem::swap(&mut solver.out, &mut solver.x_low);
            solver.third(run, x, s, t_down)?;
        }
        let error = solver.error(&previous, settings.atol, settings.rtol);
        if !error.is_finite() {
            // The error is not finite, so that no step size would ever be accepted.
            x.copy_from_slice(&solver.out);
            return Ok(());
        }
        if pid.propose(error) {
            std::mem::swap(&mut previous, &mut solver.x_low);
            x.copy_from_slice(&solver.out);
            if up != 0.0 {
                mix(
                    x,
                    1.0,
                    &[(up * run.options.s_noise, noise.draw(sigma(s), sigma(t)))],
                );
            }
            s = t;
        }
        run.report(steps, sigma(s), x, &solver.denoised)?;
        steps += 1;
    }
    Ok(())
}

/// The run's span in t; a last level of 0 is replaced by the one before it.
fn ends(sigmas: &[f32]) -> Option<(f32, f32)> {
    let last = match sigmas {
        [.., before, 0.0] => *before,
        [_, .., last] => *last,
        _ => return None,
    };
    (sigmas[0] > 0.0 && last > 0.0).then(|| (-sigmas[0].exact_ln(), -last.exact_ln()))
}

fn sigma(t: f32) -> f32 {
    (-t).exact_exp()
}

/// Gives the time at which the deterministic part of a step ends, and the deviation of the noise
/// added after it.
fn down(t: f32, t_next: f32, end: f32, eta: f32) -> (f32, f32) {
    if eta == 0.0 {
        return (t_next, 0.0);
    }
    let level = AncestralStep::in_sigma(sigma(t), sigma(t_next), eta).down;
    let t_down = end.min(-level.exact_ln());
    (
        t_down,
        (sigma(t_next) * sigma(t_next) - sigma(t_down) * sigma(t_down)).sqrt(),
    )
}

/// Buffers of one step. `eps` is the noise predicted at the step's start, `eps_r1` one third of the
/// way.
struct Solver {
    eps: Vec<f32>,
    eps_r1: Vec<f32>,
    eps_r2: Vec<f32>,
    /// Whether `eps_r1` belongs to the current step: the second and third-order results share it.
    r1_known: bool,
    denoised: Vec<f32>,
    u: Vec<f32>,
    out: Vec<f32>,
    /// The lower-order result, for the error estimate.
    x_low: Vec<f32>,
}

impl Solver {
    fn new(n: usize) -> Self {
        let zeros = || vec![0.0; n];
        Self {
            eps: zeros(),
            eps_r1: zeros(),
            eps_r2: zeros(),
            r1_known: false,
            denoised: zeros(),
            u: zeros(),
            out: zeros(),
            x_low: zeros(),
        }
    }

    /// Begins a step: `eps` at `x`, and the prediction it stands for.
    fn eps(&mut self, run: &mut Run<'_>, x: &[f32], t: f32) -> Result<(), Stop> {
        self.r1_known = false;
        evaluate(run, x, t, &mut self.eps)?;
        sum_into(&mut self.denoised, &[(1.0, x), (-sigma(t), &self.eps)]);
        Ok(())
    }

    fn eps_r1(&mut self, run: &mut Run<'_>, t: f32) -> Result<(), Stop> {
        if !self.r1_known {
            evaluate(run, &self.u, t, &mut self.eps_r1)?;
            self.r1_known = true;
        }
        Ok(())
    }

    fn first(&mut self, x: &[f32], t: f32, t_next: f32) {
        let h = t_next - t;
        sum_into(
            &mut self.out,
            &[(1.0, x), (-sigma(t_next) * h.exact_exp_m1(), &self.eps)],
        );
    }

    fn second(
        &mut self,
        run: &mut Run<'_>,
        x: &[f32],
        t: f32,
        t_next: f32,
        r1: f32,
    ) -> Result<(), Stop> {
        let h = t_next - t;
        let s1 = t + r1 * h;
        sum_into(
            &mut self.u,
            &[(1.0, x), (-sigma(s1) * (r1 * h).exact_exp_m1(), &self.eps)],
        );
        self.eps_r1(run, s1)?;
        let whole = sigma(t_next) * h.exact_exp_m1();
        let extra = sigma(t_next) / (2.0 * r1) * h.exact_exp_m1();
        extrapolate(&mut self.out, x, &self.eps, &self.eps_r1, whole, extra);
        Ok(())
    }

    fn third(&mut self, run: &mut Run<'_>, x: &[f32], t: f32, t_next: f32) -> Result<(), Stop> {
        let (r1, r2) = (1.0 / 3.0, 2.0 / 3.0);
        let h = t_next - t;
        let (s1, s2) = (t + r1 * h, t + r2 * h);
        sum_into(
            &mut self.u,
            &[(1.0, x), (-sigma(s1) * (r1 * h).exact_exp_m1(), &self.eps)],
        );
        self.eps_r1(run, s1)?;
        let whole = sigma(s2) * (r2 * h).exact_exp_m1();
        let extra = sigma(s2) * (r2 / r1) * ((r2 * h).exact_exp_m1() / (r2 * h) - 1.0);
        extrapolate(&mut self.u, x, &self.eps, &self.eps_r1, whole, extra);
        evaluate(run, &self.u, s2, &mut self.eps_r2)?;
        let whole = sigma(t_next) * h.exact_exp_m1();
        let extra = sigma(t_next) / r2 * (h.exact_exp_m1() / h - 1.0);
        extrapolate(&mut self.out, x, &self.eps, &self.eps_r2, whole, extra);
        Ok(())
    }

    /// The root mean square of the two orders' difference in units of the tolerance.
    fn error(&self, previous: &[f32], atol: f32, rtol: f32) -> f64 {
        let square = |((low, high), prev): ((&f32, &f32), &f32)| {
            let delta = atol.max(rtol * low.abs().max(prev.abs()));
            f64::from((low - high) / delta).powi(2)
        };
        let sum: f64 = self
            .x_low
            .iter()
            .zip(&self.out)
            .zip(previous)
            .map(square)
            .sum();
        (sum / previous.len().max(1) as f64).sqrt()
    }
}

/// `out` = x - whole * eps - extra * (later - eps).
fn extrapolate(out: &mut [f32], x: &[f32], eps: &[f32], later: &[f32], whole: f32, extra: f32) {
    let noises = eps.iter().zip(later);
    for ((o, x), (eps, later)) in out.iter_mut().zip(x).zip(noises) {
        *o = x - whole * eps - extra * (later - eps);
    }
}

/// The noise predicted in `x` at time `t`.
fn evaluate(run: &mut Run<'_>, x: &[f32], t: f32, eps: &mut [f32]) -> Result<(), Stop> {
    let level = sigma(t);
    run.denoise(x, level, eps)?;
    eps.iter_mut()
        .zip(x)
        .for_each(|(e, x)| *e = (x - *e) / level);
    Ok(())
}

/// A PID controller of step size, acting on the inverse error.
struct StepSize {
    h: f64,
    exponents: [f64; 3],
    errors: Option<[f64; 3]>,
    accept_safety: f64,
}

impl StepSize {
    fn new(run: &Run<'_>, order: f64) -> Self {
        let a = run.options.adaptive;
        Self {
            h: a.h_init.abs(),
            exponents: [
                (a.pcoeff + a.icoeff + a.dcoeff) / order,
                -(a.pcoeff + 2.0 * a.dcoeff) / order,
                a.dcoeff / order,
            ],
            errors: None,
            accept_safety: a.accept_safety,
        }
    }

    /// Whether a step with this error is good enough; sets the size of the next.
    fn propose(&mut self, error: f64) -> bool {
        let inverse = 1.0 / (error + 1e-8);
        let errors = self.errors.get_or_insert([inverse; 3]);
        errors[0] = inverse;
        let factor: f64 = errors
            .iter()
            .zip(self.exponents)
            .map(|(e, b)| e.powf(b))
            .product();
        let factor = 1.0 + (factor - 1.0).atan();
        let accept = factor >= self.accept_safety;
        if accept {
            errors[2] = errors[1];
            errors[1] = errors[0];
        }
        self.h *= factor;
        accept
    }
}
