//! Ops that move, repeat or resample values.

use super::{Eval, each_index};
use crate::Tensor;
use nino_graph::{AvgPool, Concat, Gather, Pad, PadMode, Permute, Reshape, Shape, Slice};
use nino_graph::{Upsample, UpsampleMode};

impl Eval<'_> {
    pub(super) fn upsample(&self, o: &Upsample) -> Tensor {
        let (x, out) = (self.get(o.x), self.out);
        let r = out.rank();
        let (h, w) = (x.shape[r - 3], x.shape[r - 2]);
        from_index(out, |index| {
            let mut at = index.to_vec();
            let (py, px) = (index[r - 3], index[r - 2]);
            match o.mode {
                UpsampleMode::Nearest => {
                    at[r - 3] = py / o.factor[0];
                    at[r - 2] = px / o.factor[1];
                    x.at(&at)
                }
                UpsampleMode::Bilinear => {
                    let mut sum = 0.0;
                    for (y, wy) in taps(py, o.factor[0], h) {
                        for (px, wx) in taps(px, o.factor[1], w) {
                            at[r - 3] = y;
                            at[r - 2] = px;
                            sum += wy * wx * x.at(&at);
                        }
                    }
                    sum
                }
            }
        })
    }

    pub(super) fn avg_pool(&self, o: &AvgPool) -> Tensor {
        let (x, size, out) = (self.get(o.x), o.size, self.out);
        let r = out.rank();
        from_index(out, |index| {
            let mut at = index.to_vec();
            let mut sum = 0.0;
            for i in 0..size * size {
                at[r - 3] = index[r - 3] * size + i / size;
                at[r - 2] = index[r - 2] * size + i % size;
                sum += x.at(&at);
            }
            sum / (size * size) as f64
        })
    }

    pub(super) fn concat(&self, o: &Concat) -> Tensor {
        let xs: Vec<&Tensor> = o.xs.iter().map(|&x| self.get(x)).collect();
        from_index(self.out, |index| {
            let mut at = index.to_vec();
            for x in &xs {
                if at[o.axis] < x.shape[o.axis] {
                    return x.at(&at);
                }
                at[o.axis] -= x.shape[o.axis];
            }
            f64::NAN
        })
    }

    pub(super) fn slice(&self, o: &Slice) -> Tensor {
        let x = self.get(o.x);
        from_index(self.out, |index| {
            let mut at = index.to_vec();
            at[o.axis] += o.start;
            x.at(&at)
        })
    }

    pub(super) fn permute(&self, o: &Permute) -> Tensor {
        let x = self.get(o.x);
        from_index(self.out, |index| {
            let mut at = vec![0; index.len()];
            for (i, &p) in o.perm.iter().enumerate() {
                at[p] = index[i];
            }
            x.at(&at)
        })
    }

    pub(super) fn reshape(&self, o: &Reshape) -> Tensor {
        Tensor::new(self.out, self.get(o.x).values.clone())
    }

    pub(super) fn pad(&self, o: &Pad) -> Tensor {
        let x = self.get(o.x);
        let n = x.shape[o.axis] as isize;
        from_index(self.out, |index| {
            let mut at = index.to_vec();
            let mut i = index[o.axis] as isize - o.before as isize;
            match o.mode {
                PadMode::Constant(value) if i < 0 || i >= n => return f64::from(value),
                PadMode::Constant(_) => {}
                PadMode::Replicate => i = i.clamp(0, n - 1),
                PadMode::Reflect if i < 0 => i = -i,
                PadMode::Reflect if i >= n => i = 2 * (n - 1) - i,
                PadMode::Reflect => {}
            }
            at[o.axis] = i as usize;
            x.at(&at)
        })
    }

    pub(super) fn gather(&self, o: &Gather) -> Tensor {
        let (table, ids) = (self.get(o.table), self.get(o.ids));
        let values = ids
            .values
            .iter()
            .flat_map(|&id| table.row(id as usize))
            .copied()
            .collect();
        Tensor::new(self.out, values)
    }
}

/// Builds a tensor from a function of the output index.
fn from_index(out: Shape, mut f: impl FnMut(&[usize]) -> f64) -> Tensor {
    let mut values = Vec::with_capacity(out.numel());
    each_index(out, |index| values.push(f(index)));
    Tensor::new(out, values)
}

/// Gives the two source positions of a bilinear sample with their weights. Pixel centers lie at one
/// half.
fn taps(at: usize, factor: usize, n: usize) -> [(usize, f64); 2] {
    let source = ((at as f64 + 0.5) / factor as f64 - 0.5).max(0.0);
    let low = source.floor() as usize;
    let share = source - low as f64;
    [(low.min(n - 1), 1.0 - share), ((low + 1).min(n - 1), share)]
}
