//! Products: linear, matmul, convolution, attention.

use super::Eval;
use super::elementwise::{activated, gated};
use crate::Tensor;
use nino_graph::{Attention, Conv, Epilogue, Linear, MatMul, Shape, WeightRows};

impl Eval<'_> {
    pub(super) fn linear(&self, o: &Linear) -> Tensor {
        let (x, w) = (self.prologue(o.x, o.pre.as_ref()), self.get(o.w));
        let used = o.rows.unwrap_or(WeightRows {
            first: 0,
            count: w.shape[0],
        });
        let (rows, n) = (x.shape.rows(), used.count);
        let sums = (0..rows * n).map(|i| dot(x.row(i / n), w.row(used.first + i % n)));
        let product = Tensor::new(x.shape.with_last(n), sums.collect());
        let all = self.epilogue(product, &o.epi, used.first);
        match o.gate {
            Some(act) => gated(&all, act, self.out),
            None => all,
        }
    }

    pub(super) fn matmul(&self, o: &MatMul) -> Tensor {
        let (a, b, out) = (self.get(o.a), self.get(o.b), self.out);
        let r = out.rank();
        let (m, n, k) = (out[r - 2], out[r - 1], a.shape.last_dim());
        let mut values = Vec::with_capacity(out.numel());
        for batch in 0..out[..r - 2].iter().product() {
            let b = &b.values[batch * n * k..(batch + 1) * n * k];
            for i in 0..m {
                let a = a.row(batch * m + i);
                for j in 0..n {
                    let at = |p: usize| {
                        if o.b_transposed {
                            b[j * k + p]
                        } else {
                            b[p * n + j]
                        }
                    };
                    let sum: f64 = (0..k).map(|p| a[p] * at(p)).sum();
                    values.push(sum * f64::from(o.scale));
                }
            }
        }
        Tensor::new(out, values)
    }

    pub(super) fn conv(&self, o: &Conv) -> Tensor {
        let (x, w, out) = (self.prologue(o.x, o.pre.as_ref()), self.get(o.w), self.out);
        let video = |s: Shape| s.as_video().expect("the graph checked the rank");
        let [b, t_in, h_in, w_in, cin] = video(x.shape);
        let [cout, kt, kh, kw, _] = video(w.shape);
        let [_, t_out, h_out, w_out, _] = video(out);
        let mut values = vec![0.0; out.numel()];
        for (at, pixel) in values.chunks_mut(cout).enumerate() {
            let (px, rest) = (at % w_out, at / w_out);
            let (py, rest) = (rest % h_out, rest / h_out);
            let (pt, pb) = (rest % t_out, rest / t_out);
            debug_assert!(pb < b);
            for dt in 0..kt {
                let t = pt * o.stride[0] + dt;
                for dy in 0..kh {
                    let y = (py * o.stride[1] + dy * o.dilation[0]).checked_sub(o.pad[0]);
                    let Some(y) = y.map(|y| y / o.upsample).filter(|&y| y < h_in) else {
                        continue;
                    };
                    for dx in 0..kw {
                        let x_at = (px * o.stride[2] + dx * o.dilation[1]).checked_sub(o.pad[2]);
                        let Some(x_at) = x_at.map(|x| x / o.upsample).filter(|&x| x < w_in) else {
                            continue;
                        };
                        let from = x.row(((pb * t_in + t) * h_in + y) * w_in + x_at);
                        for (c, sum) in pixel.iter_mut().enumerate() {
                            let tap = ((c * kt + dt) * kh + dy) * kw + dx;
                            *sum += dot(from, &w.values[tap * cin..(tap + 1) * cin]);
                        }
                    }
                }
            }
        }
        self.epilogue(Tensor::new(out, values), &o.epi, 0)
    }

    pub(super) fn attention(&self, o: &Attention) -> Tensor {
        let (q, k, v) = (self.get(o.q), self.get(o.k), self.get(o.v));
        let mask = o.mask.map(|mask| self.get(mask));
        let scale = f64::from(o.scale);
        let (b, n, heads, hd) = (q.shape[0], q.shape[1], q.shape[2], q.shape[3]);
        let m = k.shape[1];
        let mut out = Tensor::zeros(q.shape);
        for (bi, hi, ni) in (0..b * heads * n).map(|i| (i / (heads * n), i / n % heads, i % n)) {
            let at = |len: usize, token: usize| (bi * len + token) * heads + hi;
            let mut scores: Vec<f64> = (0..m)
                .map(|mi| dot(q.row(at(n, ni)), k.row(at(m, mi))) * scale)
                .collect();
            if let Some(mask) = mask {
                let own = |axis: usize, i: usize| if mask.shape[axis] == 1 { 0 } else { i };
                for (mi, score) in scores.iter_mut().enumerate() {
                    *score += mask.at(&[own(0, bi), own(1, hi), own(2, ni), mi]);
                }
            }
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().map(|s| (s - top).exp()).sum();
            let row = at(n, ni);
            for (mi, score) in scores.iter().enumerate() {
                let weight = (score - top).exp() / total;
                for (d, value) in v.row(at(m, mi)).iter().enumerate() {
                    out.values[row * hd + d] += weight * value;
                }
            }
        }
        out
    }

    /// `first` is the entry of scale and bias that the first column has.
    fn epilogue(&self, mut out: Tensor, e: &Epilogue, first: usize) -> Tensor {
        let n = out.shape.last_dim();
        if let Some(scale) = e.scale {
            let scale = self.get(scale);
            out.values
                .iter_mut()
                .enumerate()
                .for_each(|(i, v)| *v *= scale.values[first + i % n]);
        }
        if let Some(bias) = e.bias {
            let bias = self.get(bias);
            out.values
                .iter_mut()
                .enumerate()
                .for_each(|(i, v)| *v += bias.values[first + i % n]);
        }
        if let Some(act) = e.act {
            out = activated(out, act);
        }
        if let Some(factor) = e.factor {
            let factor = self.get(factor);
            out.values
                .iter_mut()
                .enumerate()
                .for_each(|(i, v)| *v *= factor.values[i % n]);
        }
        if let Some(residual) = e.residual {
            out.values
                .iter_mut()
                .zip(&self.get(residual).values)
                .for_each(|(v, r)| *v += r);
        }
        if let Some(multiplier) = e.multiplier {
            let both = out.values.iter_mut().zip(&self.get(multiplier).values);
            both.for_each(|(v, m)| *v *= m);
        }
        match e.post {
            Some(post) => activated(out, post),
            None => out,
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
