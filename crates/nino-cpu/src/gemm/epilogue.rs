//! The end of a product: finished sums become `post(act(acc * scale + bias) + residual)` and are
//! stored.

use nino_dtype::DType;
use nino_graph::Act;

use crate::act::{self, Activation, VectorFn, with_act};
use crate::memory::View;
use crate::simd::{Level, Simd, dispatch};

#[derive(Clone, Copy)]
pub(crate) struct Epilogue {
    /// `[cout]` f32 or null.
    pub scale: *const f32,
    /// `[cout]` f32 or null.
    pub bias: *const f32,
    pub act: Option<Act>,
    pub residual: Option<View>,
    pub post: Option<Act>,
    pub out: View,
    /// Elements between two rows of the output and of the residual.
    pub ld: usize,
}

// SAFETY: scale and bias are only read, views are Sync.
unsafe impl Sync for Epilogue {}
// SAFETY: as above.
unsafe impl Send for Epilogue {}

/// One piece of scratch to finish: `rows x cols` sums, which belong at element `at` of the output
/// and column `col` of the bias.
#[derive(Clone, Copy)]
pub(crate) struct Sums {
    pub c: *mut f32,
    pub ldc: usize,
    pub rows: usize,
    pub cols: usize,
    pub at: usize,
    pub col: usize,
}

impl Epilogue {
    /// Prefetches what `n` values at element `at` are stored to, and what is added to them. Values
    /// of f32 fill whole cache lines, with which it was measured to gain nothing.
    pub(crate) fn prefetch(&self, at: usize, n: usize) {
        if self.out.is_f32() {
            return;
        }
        self.out.prefetch(at, n);
        if let Some(residual) = self.residual {
            residual.prefetch(at, n);
        }
    }

    /// Finishes the sums `s` and stores them; their scratch is overwritten.
    pub(crate) unsafe fn apply(&self, level: Level, s: Sums) {
        let from_column = |vector: *const f32| {
            if vector.is_null() {
                vector
            } else {
                vector.add(s.col)
            }
        };
        let columns = Columns {
            scale: from_column(self.scale),
            bias: from_column(self.bias),
        };
        let act = |act: Option<Act>| Activation::of(act, self.out.dtype);
        let same = self.residual.is_none_or(|r| r.dtype == self.out.dtype);
        let whole = same && self.post.is_none();
        let target = if whole {
            Target {
                residual: self.residual,
                out: self.out,
                at: s.at,
                ld: self.ld,
            }
        } else {
            Target::scratch(&s)
        };
        finish(level, &s, columns, act(self.act), target);
        if !whole {
            self.store(level, &s);
        }
    }

    /// Adds the residual to finished sums in scratch, applies what follows, and stores them.
    unsafe fn store(&self, level: Level, s: &Sums) {
        for row in 0..s.rows {
            let (c, at) = (s.c.add(row * s.ldc), s.at + row * self.ld);
            if let Some(residual) = self.residual {
                let mut buf = [0.0; 64];
                let mut i = 0;
                while i < s.cols {
                    let n = (s.cols - i).min(buf.len());
                    residual.load(level, at + i, n, buf.as_mut_ptr());
                    for (j, r) in buf.iter().enumerate().take(n) {
                        *c.add(i + j) += r;
                    }
                    i += n;
                }
            }
            if self.post.is_some() {
                let post = Activation::of(self.post, self.out.dtype);
                act::map(level, post, c, c, s.cols);
            }
            self.out.store(level, at, s.cols, c);
        }
    }
}

/// What belongs to each column of the sums: f32 or null.
#[derive(Clone, Copy)]
struct Columns {
    scale: *const f32,
    bias: *const f32,
}

/// Where finished sums go.
#[derive(Clone, Copy)]
struct Target {
    /// What is added, with the same distance of rows.
    residual: Option<View>,
    out: View,
    /// The first element.
    at: usize,
    /// Elements between two rows.
    ld: usize,
}

impl Target {
    /// The scratch that the sums lie in.
    fn scratch(s: &Sums) -> Target {
        Target {
            residual: None,
            out: View {
                ptr: s.c.cast(),
                dtype: DType::F32,
            },
            at: 0,
            ld: s.ldc,
        }
    }
}

dispatch! {
    fn finish(s: &Sums, columns: Columns, act: Activation, target: Target) = finish_impl
}

#[inline(always)]
unsafe fn finish_impl<S: Simd>(s: &Sums, columns: Columns, act: Activation, target: Target) {
    with_act!(act, |f| finish_with::<S, _>(s, columns, f, target));
}

#[inline(always)]
unsafe fn finish_with<S: Simd, F: VectorFn>(s: &Sums, columns: Columns, f: F, target: Target) {
    let Columns { scale, bias } = columns;
    for row in 0..s.rows {
        let (c, at) = (s.c.add(row * s.ldc), target.at + row * target.ld);
        let mut i = 0;
        while i + S::LANES <= s.cols {
            let mut v = S::load(c.add(i));
            if !scale.is_null() {
                v = S::mul(v, S::load(scale.add(i)));
            }
            if !bias.is_null() {
                v = S::add(v, S::load(bias.add(i)));
            }
            v = f.apply::<S>(v);
            if let Some(residual) = target.residual {
                v = S::add(v, residual.load_vector::<S>(at + i, S::LANES));
            }
            target.out.store_vector::<S>(at + i, S::LANES, v);
            i += S::LANES;
        }
        if i < s.cols {
            let n = s.cols - i;
            let mut v = S::load_n(c.add(i), n);
            if !scale.is_null() {
                v = S::mul(v, S::load_n(scale.add(i), n));
            }
            if !bias.is_null() {
                v = S::add(v, S::load_n(bias.add(i), n));
            }
            v = f.apply::<S>(v);
            if let Some(residual) = target.residual {
                v = S::add(v, residual.load_vector::<S>(at + i, n));
            }
            target.out.store_vector::<S>(at + i, n, v);
        }
    }
}
