//! DPM-Solver++(2M) SDE, with a midpoint or Heun correction, and DPM-Solver++(3M) SDE (Lu et al.
//! 2022b, section 5; k-diffusion), in half log-SNR so that they also serve rectified flow. Noise
//! comes from one Brownian path.

use super::snr;
use crate::error::Stop;
use crate::exact::Exact;
use crate::linear::mix;
use crate::sampler::{Run, Solver};

pub fn dpmpp_2m_sde(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    two_steps(run, x, run.options.solver.unwrap_or(Solver::Midpoint))
}

pub fn dpmpp_2m_sde_heun(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    two_steps(run, x, run.options.solver.unwrap_or(Solver::Heun))
}

fn two_steps(run: &mut Run<'_>, x: &mut [f32], solver: Solver) -> Result<(), Stop> {
    multistep(run, x, |x, step, [denoised, old, _]| {
        let Some(r) = step.r[0] else { return };
        let gain = match solver {
            Solver::Heun => step.alpha * (-(-step.h_eta).exact_exp_m1() / -step.h_eta + 1.0),
            _ => 0.5 * step.alpha * -(-step.h_eta).exact_exp_m1(),
        };
        let weight = gain * (1.0 / r);
        let both = denoised.iter().zip(old);
        x.iter_mut()
            .zip(both)
            .for_each(|(x, (d, old))| *x += weight * (d - old));
    })
}

pub fn dpmpp_3m_sde(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    multistep(run, x, |x, step, [denoised, old, older]| {
        let phi_2 = (-step.h_eta).exact_exp_m1() / step.h_eta + 1.0;
        match step.r {
            [Some(r0), Some(r1)] => {
                let phi_3 = phi_2 / step.h_eta - 0.5;
                let (a_2, a_3) = (step.alpha * phi_2, step.alpha * phi_3);
                for (i, x) in x.iter_mut().enumerate() {
                    let slope_0 = (denoised[i] - old[i]) / r0;
                    let slope_1 = (old[i] - older[i]) / r1;
                    let d_1 = slope_0 + (slope_0 - slope_1) * r0 / (r0 + r1);
                    let d_2 = (slope_0 - slope_1) / (r0 + r1);
                    *x = *x + a_2 * d_1 - a_3 * d_2;
                }
            }
            [Some(r), None] => {
                let weight = step.alpha * phi_2;
                let both = denoised.iter().zip(old);
                x.iter_mut()
                    .zip(both)
                    .for_each(|(x, (d, old))| *x += weight * ((d - old) / r));
            }
            _ => {}
        }
    })
}

struct Multistep {
    alpha: f32,
    h_eta: f32,
    /// Earlier steps' lengths in units of this one's, nearest first.
    r: [Option<f32>; 2],
}

/// The first-order SDE step, `correct`ed by what the last predictions (newest first) tell.
fn multistep(
    run: &mut Run<'_>,
    x: &mut [f32],
    correct: impl Fn(&mut [f32], &Multistep, [&[f32]; 3]),
) -> Result<(), Stop> {
    let n = x.len();
    let mut seen = [vec![0.0; n], vec![0.0; n], vec![0.0; n]];
    let mut noise = run.brownian_noise(n);
    let sigmas = snr::finite(run.model, run.sigmas);
    let (eta, s_noise) = (run.eta(), run.s_noise());
    let mut lengths: [Option<f32>; 2] = [None, None];
    for i in 0..run.steps() {
        let (sigma, next) = (sigmas[i], sigmas[i + 1]);
        run.denoise(x, sigma, &mut seen[0])?;
        run.report(i, sigma, x, &seen[0])?;
        if next == 0.0 {
            x.copy_from_slice(&seen[0]);
            continue;
        }
        let to = snr::lambda(run.model, next);
        let h = to - snr::lambda(run.model, sigma);
        let h_eta = h * (eta + 1.0);
        let alpha = next * to.exact_exp();
        let keep = next / sigma * (-h * eta).exact_exp();
        mix(x, keep, &[(alpha * -(-h_eta).exact_exp_m1(), &seen[0])]);
        let step = Multistep {
            alpha,
            h_eta,
            r: lengths.map(|l| l.map(|l| l / h)),
        };
        correct(x, &step, [&seen[0], &seen[1], &seen[2]]);
        if eta > 0.0 && s_noise > 0.0 {
            let deviation = next * (-(-2.0 * h * eta).exact_exp_m1()).sqrt();
            mix(x, 1.0, &[(deviation * s_noise, noise.draw(sigma, next))]);
        }
        seen.rotate_right(1);
        lengths = [Some(h), lengths[0]];
    }
    Ok(())
}
