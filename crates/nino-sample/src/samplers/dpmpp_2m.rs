//! DPM-Solver++(2M): second-order multistep on the predictions (Lu et al. 2022b, algorithm 2), and
//! its CFG++ form, which steps along the negative prompt's prediction (Chung et al. 2024).

use crate::error::Stop;
use crate::exact::Exact;
use crate::linear::mix;
use crate::sampler::Run;

pub fn dpmpp_2m(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let (mut denoised, mut old) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    for i in 0..run.steps() {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, sigma, x, &denoised)?;
        let (t, t_next) = (-sigma.exact_ln(), -next.exact_ln());
        let h = t_next - t;
        let keep = (-t_next).exact_exp() / (-t).exact_exp();
        let gain = -(-h).exact_exp_m1();
        if i == 0 || next == 0.0 {
            mix(x, keep, &[(gain, &denoised)]);
        } else {
            let r = (t + run.sigmas[i - 1].exact_ln()) / h;
            let (a, b) = (1.0 + 1.0 / (2.0 * r), 1.0 / (2.0 * r));
            let both = denoised.iter().zip(&old);
            for (x, (d, old)) in x.iter_mut().zip(both) {
                *x = keep * *x + gain * (a * d - b * old);
            }
        }
        std::mem::swap(&mut denoised, &mut old);
    }
    Ok(())
}

pub fn dpmpp_2m_cfg_pp(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let n = x.len();
    let (mut denoised, mut uncond, mut old) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    for i in 0..run.steps() {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        run.denoise_both(x, sigma, &mut denoised, &mut uncond)?;
        run.report(i, sigma, x, &denoised)?;
        let (t, t_next) = (-sigma.exact_ln(), -next.exact_ln());
        let h = t_next - t;
        let keep = (-h).exact_exp();
        let momentum = if i == 0 || next == 0.0 {
            0.0
        } else {
            let r = (t + run.sigmas[i - 1].exact_ln()) / h;
            -(-h).exact_exp_m1() * (1.0 / (2.0 * r))
        };
        for j in 0..n {
            let mix = -keep * uncond[j] + momentum * (denoised[j] - old[j]);
            x[j] = denoised[j] + mix + keep * x[j];
        }
        std::mem::swap(&mut uncond, &mut old);
    }
    Ok(())
}
