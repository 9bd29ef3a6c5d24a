//! UniPC (Zhao et al. 2023), predictor and corrector of order up to 3 with B1(h) = h (`uni_pc`) or
//! B2(h) = e^h - 1 (`uni_pc_bh2`), in the VP form x / sqrt(1 + sigma^2). Runs on a schedule without its
//! penultimate level.

use std::collections::VecDeque;

use super::solve::solve;
use crate::error::Stop;
use crate::linear::{mix, sum_into};
use crate::sampler::Run;

/// The VP form has no half log-SNR at level 0; a schedule's final 0 counts as this.
pub const LAST_LEVEL: f32 = 0.001;

#[derive(Clone, Copy, PartialEq)]
enum Variant {
    B1,
    B2,
}

pub fn uni_pc(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    solve_unified(run, x, Variant::B1)
}

pub fn uni_pc_bh2(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    solve_unified(run, x, Variant::B2)
}

fn solve_unified(run: &mut Run<'_>, x: &mut [f32], variant: Variant) -> Result<(), Stop> {
    let mut levels = run.sigmas.to_vec();
    let (Some(&first), Some(last)) = (run.sigmas.first(), levels.last_mut()) else {
        return Ok(());
    };
    if *last == 0.0 {
        *last = LAST_LEVEL;
    }
    let levels: Vec<Level> = levels.into_iter().map(Level::new).collect();
    let steps = run.steps();
    let order = steps.saturating_sub(1).min(3);
    let shrink = (1.0 + first * first).sqrt();
    x.iter_mut().for_each(|x| *x /= shrink);
    let mut solver = UniPc {
        variant,
        seen: VecDeque::new(),
        order,
    };

    for i in 0..steps {
        if i == 0 {
            let model = evaluate(run, x, &levels[0])?;
            solver.remember(0, model);
        } else {
            let step_order = if i < order {
                i
            } else {
                order.min(steps + 1 - i)
            };
            let model = solver.step(run, x, &levels, i, step_order, true)?;
            solver.remember(i, model);
        }
        if i + 1 == steps && order > 0 && i >= order {
            solver.step(run, x, &levels, steps, order.min(1), false)?;
        }
        let denoised = std::mem::take(&mut solver.seen[0].1);
        run.report(i, run.sigmas[i], x, &denoised)?;
        solver.seen[0].1 = denoised;
    }
    let alpha = levels[steps].log_alpha.exp();
    x.iter_mut().for_each(|x| *x /= alpha);
    Ok(())
}

/// A noise level in the VP form.
struct Level {
    sigma: f32,
    log_alpha: f32,
    std: f32,
    lambda: f32,
}

impl Level {
    fn new(sigma: f32) -> Self {
        let log_alpha = 0.5 * (1.0 / (sigma * sigma + 1.0)).ln();
        let variance = 1.0 - (2.0 * log_alpha).exp();
        let lambda = log_alpha - 0.5 * variance.ln();
        Self {
            sigma,
            log_alpha,
            std: variance.sqrt(),
            lambda,
        }
    }
}

struct UniPc {
    variant: Variant,
    order: usize,
    /// Level and prediction of the last steps, newest first.
    seen: VecDeque<(usize, Vec<f32>)>,
}

impl UniPc {
    fn remember(&mut self, level: usize, model: Vec<f32>) {
        self.seen.push_front((level, model));
        self.seen.truncate(self.order.max(1));
    }

    /// Moves `x` to level `i`; returns the prediction there when it is `correct`ed by it.
    fn step(
        &self,
        run: &mut Run<'_>,
        x: &mut [f32],
        levels: &[Level],
        i: usize,
        order: usize,
        correct: bool,
    ) -> Result<Vec<f32>, Stop> {
        let n = x.len();
        let (newest, model_0) = &self.seen[0];
        let (from, to) = (&levels[*newest], &levels[i]);
        let h = to.lambda - from.lambda;
        let ratio = |k: usize| (levels[self.seen[k].0].lambda - from.lambda) / h;
        let ratios: Vec<f32> = (1..order).map(ratio).chain([1.0]).collect();
        let differences: Vec<Vec<f32>> = (1..order)
            .map(|k| {
                let both = self.seen[k].1.iter().zip(model_0);
                both.map(|(m, m_0)| (m - m_0) / ratios[k - 1]).collect()
            })
            .collect();

        let hh = -h;
        let phi_1 = hh.exp_m1();
        let b_h = if self.variant == Variant::B1 {
            hh
        } else {
            phi_1
        };
        let (rows, right) = system(&ratios, hh, b_h);
        let predictor = match order {
            1 => Vec::new(),
            2 => vec![0.5],
            _ => {
                let inner = rows[..order - 1]
                    .iter()
                    .map(|r| r[..order - 1].to_vec())
                    .collect();
                solve(inner, right[..order - 1].to_vec())
            }
        };
        let alpha = to.log_alpha.exp();
        let mut base = vec![0.0; n];
        sum_into(
            &mut base,
            &[(to.std / from.std, x), (-(alpha * phi_1), model_0)],
        );
        let apply = |weights: &[f32], last: Option<(f32, &[f32])>, x: &mut [f32]| {
            let terms = weights
                .iter()
                .zip(&differences)
                .map(|(&w, d)| (w, d.as_slice()));
            let terms: Vec<(f32, &[f32])> = terms.chain(last).collect();
            let mut sum = vec![0.0; n];
            sum_into(&mut sum, &terms);
            x.copy_from_slice(&base);
            mix(x, 1.0, &[(-(alpha * b_h), &sum)]);
        };
        apply(&predictor, None, x);
        if !correct {
            return Ok(Vec::new());
        }
        let corrector = if order == 1 {
            vec![0.5]
        } else {
            solve(rows, right)
        };
        let model = evaluate(run, x, to)?;
        let change: Vec<f32> = model.iter().zip(model_0).map(|(m, m_0)| m - m_0).collect();
        apply(
            &corrector[..order - 1],
            Some((corrector[order - 1], &change)),
            x,
        );
        Ok(model)
    }
}

/// The prediction for a state in VP form, by way of the noise it stands for as the reference goes.
fn evaluate(run: &mut Run<'_>, x: &[f32], level: &Level) -> Result<Vec<f32>, Stop> {
    let grow = (level.sigma * level.sigma + 1.0).sqrt();
    let input: Vec<f32> = x.iter().map(|x| x * grow).collect();
    let mut model = vec![0.0; x.len()];
    run.denoise(&input, level.sigma, &mut model)?;
    let alpha = level.log_alpha.exp();
    for (i, m) in model.iter_mut().enumerate() {
        let noise = (input[i] - *m) / level.sigma;
        *m = (x[i] - level.std * noise) / alpha;
    }
    Ok(model)
}

/// The conditions of UniPC's theorem 3.1: powers of the ratios on the left, phi functions on the right.
fn system(ratios: &[f32], hh: f32, b_h: f32) -> (Vec<Vec<f32>>, Vec<f32>) {
    let mut rows = Vec::new();
    let mut right = Vec::new();
    let mut phi = hh.exp_m1() / hh - 1.0;
    let mut factorial = 1.0f32;
    for i in 1..=ratios.len() {
        rows.push(ratios.iter().map(|r| r.powi(i as i32 - 1)).collect());
        right.push(phi * factorial / b_h);
        factorial *= (i + 1) as f32;
        phi = phi / hh - 1.0 / factorial;
    }
    (rows, right)
}
