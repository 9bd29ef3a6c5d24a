//! Norms and softmax.

use super::Eval;
use super::elementwise::activated;
use crate::Tensor;
use nino_graph::{Node, NormKind, Normalize, Over, Prologue, RowNorm, Softmax, Stats};

impl Eval<'_> {
    pub(super) fn stats(&self, o: &Stats) -> Tensor {
        let (x, out) = (self.get(o.x), self.out);
        let c = x.shape.last_dim();
        let mut values = Vec::with_capacity(out.numel());
        let mut push = |members: &[f64]| {
            let (mean, rstd) = moments(members, o.kind, f64::from(o.eps));
            values.extend([mean, rstd]);
        };
        match o.over {
            Over::Rows => (0..x.shape.rows()).for_each(|r| push(x.row(r))),
            Over::Groups(groups) => {
                let (b, each) = (x.shape[0], c / groups);
                let per_batch = x.shape.numel() / b;
                for batch in x.values.chunks(per_batch) {
                    for g in 0..groups {
                        let members: Vec<f64> = batch
                            .chunks(c)
                            .flat_map(|p| &p[g * each..(g + 1) * each])
                            .copied()
                            .collect();
                        push(&members);
                    }
                }
            }
        }
        Tensor::new(out, values)
    }

    pub(super) fn normalize(&self, o: &Normalize) -> Tensor {
        self.prologue(o.x, Some(&o.norm))
    }

    /// `act((x − mean) · rstd · weight + bias)`, or x itself without a prologue.
    pub(super) fn prologue(&self, x: Node, p: Option<&Prologue>) -> Tensor {
        let x = self.get(x);
        let Some(p) = p else { return x.clone() };
        let stats = self.get(p.stats);
        let c = x.shape.last_dim();
        let rows_per_batch = x.shape.rows() / x.shape[0].max(1);
        let mut out = x.clone();
        for (i, v) in out.values.iter_mut().enumerate() {
            let (row, channel) = (i / c, i % c);
            let entry = match *stats.shape {
                [_, groups, 2] => row / rows_per_batch * groups + channel / (c / groups),
                _ => row,
            };
            *v = (*v - stats.values[entry * 2]) * stats.values[entry * 2 + 1];
            *v *= p.weight.map_or(1.0, |w| self.get(w).values[channel]);
            *v += p.bias.map_or(0.0, |b| self.get(b).values[channel]);
        }
        match p.act {
            Some(act) => activated(out, act),
            None => out,
        }
    }

    pub(super) fn row_norm(&self, o: &RowNorm) -> Tensor {
        let x = self.get(o.x);
        let d = x.shape.last_dim();
        let rows_per_batch = x.shape.rows() / x.shape[0].max(1);
        let [weight, bias, scale, shift] =
            [o.weight, o.bias, o.scale, o.shift].map(|n| n.map(|n| self.get(n)));
        let mut out = x.clone();
        for (r, row) in out.values.chunks_mut(d).enumerate() {
            let (mean, rstd) = moments(row, o.kind, f64::from(o.eps));
            let batch = r / rows_per_batch;
            for (i, v) in row.iter_mut().enumerate() {
                let w = weight.map_or(1.0, |w| w.values[i]);
                let b = bias.map_or(0.0, |b| b.values[i]);
                let scale = scale.map_or(0.0, |s| s.values[batch * d + i]);
                let shift = shift.map_or(0.0, |s| s.values[batch * d + i]);
                *v = ((*v - mean) * rstd * w + b) * (1.0 + scale) + shift;
            }
        }
        if let Some(act) = o.act {
            out = activated(out, act);
        }
        if let Some(gate) = o.gate.map(|n| self.get(n)) {
            for (i, v) in out.values.iter_mut().enumerate() {
                *v *= gate.values[i / d / rows_per_batch * d + i % d];
            }
        }
        if let Some(residual) = o.residual.map(|n| self.get(n)) {
            let both = out.values.iter_mut().zip(&residual.values);
            both.for_each(|(v, r)| *v += r);
        }
        out
    }

    pub(super) fn softmax(&self, o: &Softmax) -> Tensor {
        let x = self.get(o.x);
        let mut out = x.clone();
        for row in out.values.chunks_mut(x.shape.last_dim()) {
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            row.iter_mut().for_each(|v| *v = (*v - top).exp());
            let total: f64 = row.iter().sum();
            row.iter_mut().for_each(|v| *v /= total);
        }
        out
    }
}

fn moments(members: &[f64], kind: NormKind, eps: f64) -> (f64, f64) {
    let n = members.len() as f64;
    let mean = if kind.centers() {
        members.iter().sum::<f64>() / n
    } else {
        0.0
    };
    let var = members.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    (mean, 1.0 / (var + eps).sqrt())
}
