//! ER-SDE-Solver-3 (Cui et al. 2023, "Elucidating the solution space of extended reverse-time SDE
//! for diffusion models", VP form), with the paper's noise scale h(l) = l (exp(l^0.3) + 10) and its
//! integrals as sums over 200 points. l = sigma / alpha.

use super::snr;
use crate::error::Stop;
use crate::exact::Exact;
use crate::linear::mix;
use crate::sampler::Run;

const POINTS: usize = 200;

pub fn er_sde(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let n = x.len();
    let zeros = || vec![0.0f32; n];
    let (mut denoised, mut old, mut rate, mut old_rate) = (zeros(), zeros(), zeros(), zeros());
    let mut noise = run.fresh_noise(n);
    let s_noise = run.s_noise();
    let max_stage = run.options.order.unwrap_or(3).clamp(1, 3);
    let sigmas = snr::finite(run.model, run.sigmas);
    let ls: Vec<f32> = sigmas
        .iter()
        .map(|&s| (-snr::lambda(run.model, s)).exact_exp())
        .collect();
    for i in 0..run.steps() {
        let (sigma, next) = (sigmas[i], sigmas[i + 1]);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, sigma, x, &denoised)?;
        if next == 0.0 {
            x.copy_from_slice(&denoised);
            continue;
        }
        let stage = max_stage.min(i + 1);
        let (l, l_next) = (ls[i], ls[i + 1]);
        let (alpha, alpha_next) = (sigma / l, next / l_next);
        let r = noise_scale(l_next) / noise_scale(l);
        mix(
            x,
            alpha_next / alpha * r,
            &[(alpha_next * (1.0 - r), &denoised)],
        );
        if stage >= 2 {
            let dt = l_next - l;
            let (s, s_u) = integrals(l, l_next);
            let (scale, span) = (noise_scale(l_next), l - ls[i - 1]);
            for j in 0..n {
                rate[j] = (denoised[j] - old[j]) / span;
            }
            mix(x, 1.0, &[(alpha_next * (dt + s * scale), &rate)]);
            if stage >= 3 {
                let weight = alpha_next * (dt * dt / 2.0 + s_u * scale);
                let span = (l - ls[i - 2]) / 2.0;
                for j in 0..n {
                    x[j] += weight * ((rate[j] - old_rate[j]) / span);
                }
            }
            std::mem::swap(&mut rate, &mut old_rate);
        }
        if s_noise > 0.0 {
            let deviation = (l_next * l_next - l * l * (r * r)).sqrt();
            let deviation = if deviation.is_nan() { 0.0 } else { deviation };
            mix(
                x,
                1.0,
                &[(alpha_next * s_noise * deviation, noise.draw(sigma, next))],
            );
        }
        std::mem::swap(&mut denoised, &mut old);
    }
    Ok(())
}

fn noise_scale(l: f32) -> f32 {
    l * (l.exact_pow(0.3).exact_exp() + 10.0)
}

/// The integrals from `l_next` to `l` of 1/h and of (t - l)/h, as left Riemann sums.
fn integrals(l: f32, l_next: f32) -> (f32, f32) {
    let step = (l - l_next) / POINTS as f32;
    let (mut s, mut s_u) = (0.0f64, 0.0f64);
    for k in 0..POINTS {
        let at = l_next + k as f32 * step;
        let scaled = noise_scale(at);
        s += f64::from(1.0 / scaled);
        s_u += f64::from((at - l) / scaled);
    }
    (s as f32 * step, s_u as f32 * step)
}
