//! Functions of one or two values, rotary and sinusoidal embeddings, reductions.

use super::{Eval, each_index};
use crate::Tensor;
use nino_graph::{Act, Binary, BinaryFn, Cast, Gate, Reduce, ReduceFn, Rope, RopeLayout, Shape};
use nino_graph::{TimestepEmbed, Unary};

impl Eval<'_> {
    pub(super) fn unary(&self, o: &Unary) -> Tensor {
        activated(self.get(o.x).clone(), o.act)
    }

    pub(super) fn gate(&self, o: &Gate) -> Tensor {
        gated(self.get(o.x), o.act, self.out)
    }

    /// The values as they are; rounding is the device's part.
    pub(super) fn cast(&self, o: &Cast) -> Tensor {
        self.get(o.x).clone()
    }

    pub(super) fn binary(&self, o: &Binary) -> Tensor {
        let (a, b, out) = (self.get(o.a), self.get(o.b), self.out);
        let mut values = Vec::with_capacity(out.numel());
        let own = |t: &Tensor, index: &[usize]| {
            let tail = &index[index.len() - t.shape.rank()..];
            let index: Vec<usize> = tail
                .iter()
                .zip(t.shape.iter())
                .map(|(&i, &d)| if d == 1 { 0 } else { i })
                .collect();
            t.at(&index)
        };
        each_index(out, |index| {
            let (a, b) = (own(a, index), own(b, index));
            values.push(match o.f {
                BinaryFn::Add => a + b,
                BinaryFn::Sub => a - b,
                BinaryFn::Mul => a * b,
                BinaryFn::Div => a / b,
            });
        });
        Tensor::new(out, values)
    }

    pub(super) fn rope(&self, o: &Rope) -> Tensor {
        let (x, table) = (self.get(o.x), self.get(o.table));
        let (n, heads, hd) = (x.shape[1], x.shape[2], x.shape[3]);
        let half = hd / 2;
        let mut out = x.clone();
        for (row, values) in out.values.chunks_mut(hd).enumerate() {
            let token = row / heads % n;
            let source = x.row(row);
            for i in 0..half {
                let (first, second) = match o.layout {
                    RopeLayout::Interleaved => (2 * i, 2 * i + 1),
                    RopeLayout::Halves => (i, i + half),
                };
                let (cos, sin) = (table.at(&[token, i, 0]), table.at(&[token, i, 1]));
                values[first] = source[first] * cos - source[second] * sin;
                values[second] = source[first] * sin + source[second] * cos;
            }
        }
        out
    }

    pub(super) fn timestep_embed(&self, o: &TimestepEmbed) -> Tensor {
        let half = o.dim / 2;
        let mut values = Vec::with_capacity(self.out.numel());
        for &t in &self.get(o.t).values {
            let angle = |i: usize| {
                t * (-f64::from(o.max_period).ln() * i as f64 / (half as f64 - f64::from(o.shift)))
                    .exp()
            };
            let cos = (0..half).map(|i| angle(i).cos());
            let sin = (0..half).map(|i| angle(i).sin());
            if o.cos_first {
                values.extend(cos.chain(sin));
            } else {
                values.extend(sin.chain(cos));
            }
        }
        Tensor::new(self.out, values)
    }

    pub(super) fn reduce(&self, o: &Reduce) -> Tensor {
        let (x, out) = (self.get(o.x), self.out);
        let mut values = Vec::with_capacity(out.numel());
        let n = x.shape[o.axis];
        each_index(out, |index| {
            let mut index = index.to_vec();
            let members = (0..n).map(|i| {
                index[o.axis] = i;
                x.at(&index)
            });
            values.push(match o.f {
                ReduceFn::Sum => members.sum(),
                ReduceFn::Mean => members.sum::<f64>() / n as f64,
                ReduceFn::Max => members.fold(f64::NEG_INFINITY, f64::max),
            });
        });
        Tensor::new(out, values)
    }
}

pub(super) fn activated(mut x: Tensor, act: Act) -> Tensor {
    x.values.iter_mut().for_each(|v| *v = apply(act, *v));
    x
}

pub(super) fn gated(x: &Tensor, act: Act, out: Shape) -> Tensor {
    let rows = x.values.chunks_exact(2 * out.last_dim());
    let gated = rows.flat_map(|row| {
        let (first, second) = row.split_at(out.last_dim());
        first.iter().zip(second).map(|(v, g)| v * apply(act, *g))
    });
    Tensor::new(out, gated.collect())
}

fn apply(act: Act, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match act {
        Act::Silu => x * sigmoid(x),
        Act::Gelu => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
        Act::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
        Act::QuickGelu => x * sigmoid(1.702 * x),
        Act::Relu => x.max(0.0),
        Act::LeakyRelu { slope } if x < 0.0 => x * f64::from(slope),
        Act::LeakyRelu { .. } => x,
        Act::Sigmoid => sigmoid(x),
        Act::Tanh => x.tanh(),
        Act::Clamp { lo, hi } => x.clamp(f64::from(lo), f64::from(hi)),
        Act::Affine { mul, add } => x * f64::from(mul) + f64::from(add),
    }
}

/// The error function: its Maclaurin series near zero, and the continued fraction of erfc beyond.
/// Both are good to 1e-15.
fn erf(x: f64) -> f64 {
    let z = x.abs();
    if z > 6.0 {
        return x.signum();
    }
    if z < 2.5 {
        let (mut term, mut sum, mut n) = (z, z, 0.0);
        while term.abs() > 1e-17 * sum.abs() && n < 200.0 {
            n += 1.0;
            term *= -z * z / n;
            sum += term / (2.0 * n + 1.0);
        }
        return x.signum() * 2.0 / std::f64::consts::PI.sqrt() * sum;
    }
    // erfc(z) = exp(-z²)/√π · 1/(z + (1/2)/(z + 1/(z + (3/2)/(z + …))))
    let tail = (1..=120)
        .rev()
        .fold(0.0, |tail, i| f64::from(i) / 2.0 / (z + tail));
    x.signum() * (1.0 - (-z * z).exp() / std::f64::consts::PI.sqrt() / (z + tail))
}
