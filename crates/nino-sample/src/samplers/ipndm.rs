//! iPNDM (Zhang and Chen 2022): Adams-Bashforth of order up to 4 on the slopes by sigma. `ipndm`
//! uses the classic weights as if all steps were equal (after zju-pi/diff-sampler); `ipndm_v` those
//! of the actual step lengths.

use std::collections::VecDeque;

use crate::error::Stop;
use crate::linear::slope;
use crate::sampler::Run;

pub fn ipndm(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    multistep(run, x, |_, _, order| match order {
        1 => [1.0, 0.0, 0.0, 0.0],
        2 => [3.0 / 2.0, -1.0 / 2.0, 0.0, 0.0],
        3 => [23.0 / 12.0, -16.0 / 12.0, 5.0 / 12.0, 0.0],
        _ => [55.0 / 24.0, -59.0 / 24.0, 37.0 / 24.0, -9.0 / 24.0],
    })
}

pub fn ipndm_v(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    multistep(run, x, |sigmas, i, order| {
        let h = |k: usize| sigmas[i + 1 - k] - sigmas[i - k];
        match order {
            1 => [1.0, 0.0, 0.0, 0.0],
            2 => {
                let r = h(0) / h(1);
                [1.0 + r / 2.0, -r / 2.0, 0.0, 0.0]
            }
            3 => variable_3(h(0), h(1), h(2)),
            _ => variable_4(h(0), h(1), h(2), h(3)),
        }
    })
}

/// `weights(sigmas, i, order)` are those of the slopes at step `i`, newest first.
fn multistep(
    run: &mut Run<'_>,
    x: &mut [f32],
    weights: impl Fn(&[f32], usize, usize) -> [f32; 4],
) -> Result<(), Stop> {
    let max_order = run.options.order.unwrap_or(4).clamp(1, 4);
    let mut denoised = vec![0.0; x.len()];
    let mut slopes: VecDeque<Vec<f32>> = (0..max_order).map(|_| vec![0.0; x.len()]).collect();
    for i in 0..run.steps() {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, sigma, x, &denoised)?;
        slopes.rotate_right(1);
        slope(&mut slopes[0], x, sigma, &denoised);
        if next == 0.0 {
            x.copy_from_slice(&denoised);
            continue;
        }
        let order = max_order.min(i + 1);
        let w = weights(run.sigmas, i, order);
        for (j, x) in x.iter_mut().enumerate() {
            let mean: f32 = (0..order).map(|k| w[k] * slopes[k][j]).sum();
            *x += (next - sigma) * mean;
        }
    }
    Ok(())
}

/// Third-order weights for this and the last two steps' lengths, as the reference has them (its
/// leading factor is not the textbook one for uneven steps).
fn variable_3(h: f32, h1: f32, h2: f32) -> [f32; 4] {
    let t = third_term(h, h1, h2);
    let (r, r1) = (h / h1, h1 / h2);
    [1.0 + r / 2.0 + t, -r / 2.0 - (1.0 + r1) * t, t * r1, 0.0]
}

fn variable_4(h: f32, h1: f32, h2: f32, h3: f32) -> [f32; 4] {
    let t = third_term(h, h1, h2);
    let (h01, h012, h12, h23) = (h + h1, h + h1 + h2, h1 + h2, h2 + h3);
    let u = ((1.0 - h / (3.0 * h01)) / 2.0 + (1.0 - h / (2.0 * h01)) * h / (6.0 * h012))
        * (h * h01 * h012)
        / (h1 * h12 * (h12 + h3));
    let (r, r1, r2) = (h / h1, h1 / h2, h2 / h3);
    let q = h1 * h12 / (h2 * h23);
    [
        1.0 + r / 2.0 + t + u,
        -r / 2.0 - (1.0 + r1) * t - (1.0 + r1 + q) * u,
        t * r1 + (r1 + q * (1.0 + r2)) * u,
        -u * q * r1,
    ]
}

fn third_term(h: f32, h1: f32, h2: f32) -> f32 {
    (1.0 - h / (3.0 * (h + h1)) * (h * (h + h1)) / (h1 * (h1 + h2))) / 2.0
}
