//! UniPC (Zhao et al. 2023), predictor and corrector of order up to 3 with B1(h) = h (`uni_pc`) or
//! B2(h) = e^h - 1 (`uni_pc_bh2`), in the VP form x / sqrt(1 + sigma^2). Runs on a schedule without
//! its penultimate level.

use std::collections::VecDeque;

use super::solve::solve;
use crate::error::Stop;
use crate::exact::Exact;
use crate::linear::sum_into;
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
    let mut solver = UniPc::new(variant, order, x.len());
    for i in 0..steps {
        if i == 0 {
            solver.evaluate(run, x, &levels[0])?;
        } else {
            let step_order = if i < order {
                i
            } else {
                order.min(steps + 1 - i)
            };
            solver.step(run, x, &levels, i, step_order)?;
        }
        solver.remember(i);
        if i + 1 == steps && order > 0 && i >= order {
            solver.finish(x, &levels, steps);
        }
        run.report(i, run.sigmas[i], x, &solver.seen[0].model)?;
    }
    let alpha = levels[steps].log_alpha.exact_exp();
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
        let log_alpha = 0.5 * (1.0 / (sigma * sigma + 1.0)).exact_ln();
        let variance = 1.0 - (2.0 * log_alpha).exact_exp();
        let lambda = log_alpha - 0.5 * variance.exact_ln();
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
    /// The earlier predictions, newest first.
    seen: VecDeque<Seen>,
    /// The prediction at the level being stepped to.
    coming: Vec<f32>,
    base: Vec<f32>,
    input: Vec<f32>,
}

struct Seen {
    level: usize,
    model: Vec<f32>,
}

/// The values that the predictor and the corrector of one step share.
struct Step {
    /// Places of the earlier predictions in units of the step, and 1 for the coming one.
    ratios: Vec<f32>,
    rows: Vec<Vec<f32>>,
    right: Vec<f32>,
    /// The weight of the differences.
    scale: f32,
}

impl UniPc {
    fn new(variant: Variant, order: usize, n: usize) -> Self {
        let zeros = || vec![0.0; n];
        Self {
            variant,
            order,
            seen: VecDeque::new(),
            coming: zeros(),
            base: zeros(),
            input: zeros(),
        }
    }

    /// Moves `x` to level `i`, predicts there, and corrects `x` by it.
    fn step(
        &mut self,
        run: &mut Run<'_>,
        x: &mut [f32],
        levels: &[Level],
        i: usize,
        order: usize,
    ) -> Result<(), Stop> {
        let step = self.begin(x, levels, i, order);
        let weights = match order {
            1 => Vec::new(),
            2 => vec![0.5],
            _ => {
                let inner = step.rows[..order - 1]
                    .iter()
                    .map(|r| r[..order - 1].to_vec());
                solve(inner.collect(), step.right[..order - 1].to_vec())
            }
        };
        self.apply(x, &step, &weights, 0.0);
        self.evaluate(run, x, &levels[i])?;
        let mut weights = if order == 1 {
            vec![0.5]
        } else {
            solve(step.rows.clone(), step.right.clone())
        };
        let last = weights.pop().expect("a weight for every ratio");
        self.apply(x, &step, &weights, last);
        Ok(())
    }

    /// Takes the last step, which is of first order and is not corrected.
    fn finish(&mut self, x: &mut [f32], levels: &[Level], i: usize) {
        let step = self.begin(x, levels, i, 1);
        self.apply(x, &step, &[], 0.0);
    }

    /// Sets `base` to the first-order result.
    fn begin(&mut self, x: &[f32], levels: &[Level], i: usize, order: usize) -> Step {
        let (from, to) = (&levels[self.seen[0].level], &levels[i]);
        let h = to.lambda - from.lambda;
        let ratio = |k: usize| (levels[self.seen[k].level].lambda - from.lambda) / h;
        let ratios: Vec<f32> = (1..order).map(ratio).chain([1.0]).collect();
        let hh = -h;
        let phi_1 = hh.exact_exp_m1();
        let b_h = if self.variant == Variant::B1 {
            hh
        } else {
            phi_1
        };
        let (rows, right) = system(&ratios, hh, b_h);
        let alpha = to.log_alpha.exact_exp();
        let terms = [
            (to.std / from.std, x),
            (-(alpha * phi_1), &self.seen[0].model),
        ];
        sum_into(&mut self.base, &terms);
        Step {
            ratios,
            rows,
            right,
            scale: alpha * b_h,
        }
    }

    /// x = base - scale * (weighted slopes of the earlier predictions + `last` * change of the
    /// coming one).
    fn apply(&self, x: &mut [f32], step: &Step, weights: &[f32], last: f32) {
        let newest = &self.seen[0].model;
        for (j, x) in x.iter_mut().enumerate() {
            let earlier: f32 = (1..=weights.len())
                .map(|k| {
                    weights[k - 1] * ((self.seen[k].model[j] - newest[j]) / step.ratios[k - 1])
                })
                .sum();
            *x = self.base[j] - step.scale * (earlier + last * (self.coming[j] - newest[j]));
        }
    }

    /// The prediction for a state in VP form, by way of the noise it stands for as the reference
    /// goes.
    fn evaluate(&mut self, run: &mut Run<'_>, x: &[f32], level: &Level) -> Result<(), Stop> {
        let grow = (level.sigma * level.sigma + 1.0).sqrt();
        self.input
            .iter_mut()
            .zip(x)
            .for_each(|(i, x)| *i = x * grow);
        run.denoise(&self.input, level.sigma, &mut self.coming)?;
        let alpha = level.log_alpha.exact_exp();
        for (m, (input, x)) in self.coming.iter_mut().zip(self.input.iter().zip(x)) {
            let noise = (input - *m) / level.sigma;
            *m = (x - level.std * noise) / alpha;
        }
        Ok(())
    }

    /// Keeps the coming prediction as that of `level`.
    fn remember(&mut self, level: usize) {
        let oldest = if self.seen.len() >= self.order.max(1) {
            self.seen.pop_back()
        } else {
            None
        };
        let buffer = oldest.map_or_else(|| vec![0.0; self.coming.len()], |s| s.model);
        let model = std::mem::replace(&mut self.coming, buffer);
        self.seen.push_front(Seen { level, model });
    }
}

/// The conditions of UniPC's theorem 3.1: powers of the ratios on the left, phi functions on the
/// right.
fn system(ratios: &[f32], hh: f32, b_h: f32) -> (Vec<Vec<f32>>, Vec<f32>) {
    let mut rows = Vec::new();
    let mut right = Vec::new();
    let mut phi = hh.exact_exp_m1() / hh - 1.0;
    let mut factorial = 1.0f32;
    for i in 1..=ratios.len() {
        rows.push(ratios.iter().map(|r| r.powi(i as i32 - 1)).collect());
        right.push(phi * factorial / b_h);
        factorial *= (i + 1) as f32;
        phi = phi / hh - 1.0 / factorial;
    }
    (rows, right)
}
