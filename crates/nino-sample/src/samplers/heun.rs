//! Heun's second-order method (Karras et al. 2022, algorithm 2), and Heun++ (Carzit,
//! sd-webui-samplers-scheduler), which averages the slopes of up to three levels, weighted by
//! level.

use crate::error::Stop;
use crate::linear::{mix, slope, sum_into};
use crate::sampler::Run;

pub fn heun(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let n = x.len();
    let (mut denoised, mut d, mut d_2, mut x_2) =
        (vec![0.0; n], vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    for i in 0..run.steps() {
        let next = run.sigmas[i + 1];
        let sigma = run.churn(i, x, &mut d);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, run.sigmas[i], x, &denoised)?;
        slope(&mut d, x, sigma, &denoised);
        let dt = next - sigma;
        if next == 0.0 {
            mix(x, 1.0, &[(dt, &d)]);
            continue;
        }
        sum_into(&mut x_2, &[(1.0, x), (dt, &d)]);
        run.denoise(&x_2, next, &mut denoised)?;
        slope(&mut d_2, &x_2, next, &denoised);
        d.iter_mut()
            .zip(&d_2)
            .for_each(|(d, d_2)| *d = (*d + d_2) / 2.0);
        mix(x, 1.0, &[(dt, &d)]);
    }
    Ok(())
}

pub fn heunpp2(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let n = x.len();
    let mut denoised = vec![0.0; n];
    let mut d = [vec![0.0; n], vec![0.0; n], vec![0.0; n]];
    let mut ahead = vec![0.0; n];
    let (first, last) = match run.sigmas {
        [first, .., last] => (*first, *last),
        _ => return Ok(()),
    };
    for i in 0..run.steps() {
        let next = run.sigmas[i + 1];
        let sigma = run.churn(i, x, &mut ahead);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, run.sigmas[i], x, &denoised)?;
        slope(&mut d[0], x, sigma, &denoised);
        let dt = next - sigma;

        // Looks up to two levels ahead, but never at the last one.
        #[expect(clippy::float_cmp, reason = "compares entries of one list")]
        let levels = run.sigmas[i + 1..]
            .iter()
            .take(2)
            .take_while(|&&s| s != last)
            .count();
        ahead.copy_from_slice(x);
        let mut from = sigma;
        for k in 0..levels {
            let to = run.sigmas[i + 1 + k];
            mix(&mut ahead, 1.0, &[(to - from, &d[k])]);
            run.denoise(&ahead, to, &mut denoised)?;
            slope(&mut d[k + 1], &ahead, to, &denoised);
            from = to;
        }
        let total = (levels + 1) as f32 * first;
        let w_2 = if levels > 0 { next / total } else { 0.0 };
        let w_3 = if levels > 1 {
            run.sigmas[i + 2] / total
        } else {
            0.0
        };
        let w_1 = 1.0 - w_2 - w_3;
        for j in 0..n {
            let mut mean = w_1 * d[0][j];
            if levels > 0 {
                mean += w_2 * d[1][j];
            }
            if levels > 1 {
                mean += w_3 * d[2][j];
            }
            x[j] += mean * dt;
        }
    }
    Ok(())
}
