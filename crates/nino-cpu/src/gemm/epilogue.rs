//! The end of a product: finished sums become `post(act(acc * scale + bias) + residual)` and are
//! stored. Those of a gated layer become `(acc * scale + bias) * act(acc' * scale' + bias')`, where
//! the sums with a dash are those half of the weight's rows further on.

use nino_dtype::DType;
use nino_graph::Act;

use super::micro::PANEL;
use crate::act::{self, Activation, VectorFn, with_act};
use crate::memory::View;
use crate::simd::{Level, Simd, dispatch};

#[derive(Clone, Copy)]
pub(crate) struct Epilogue {
    /// `[cout]` f32 or null.
    pub scale: *const f32,
    /// `[cout]` f32 or null.
    pub bias: *const f32,
    /// Two sums make one value. Nothing else but scale and bias goes with it.
    pub gate: Option<Gate>,
    pub act: Option<Act>,
    pub residual: Option<View>,
    pub post: Option<Act>,
    pub out: View,
    /// Elements between two rows of the output and of the residual.
    pub ld: usize,
}

/// The columns of the second half of a weight, activated, as factors of those of the first.
#[derive(Clone, Copy)]
pub(crate) struct Gate {
    pub act: Act,
    /// Columns of each half: whole panels.
    pub half: usize,
}

// SAFETY: scale and bias are only read, views are Sync.
unsafe impl Sync for Epilogue {}
// SAFETY: as above.
unsafe impl Send for Epilogue {}

/// One piece of scratch to finish: `rows x cols` sums, which belong at element `at` of the output
/// and column `col` of the bias. With a gate it is one panel, and the factors' sums follow it.
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

    /// Gives the number of the weight's panels that make one panel of the output.
    pub(crate) fn panels(&self) -> usize {
        if self.gate.is_some() { 2 } else { 1 }
    }

    /// Finishes the sums `s` and stores them; their scratch is overwritten.
    pub(crate) unsafe fn apply(&self, level: Level, s: Sums) {
        let columns = self.columns(s.col);
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
        if let Some(gate) = self.gate {
            let factors = self.columns(s.col + gate.half);
            gated(level, &s, [columns, factors], act(Some(gate.act)), target);
        } else {
            finish(level, &s, columns, act(self.act), target);
        }
        if !whole {
            self.store(level, &s);
        }
    }

    /// Gives what belongs to columns from `col` on.
    unsafe fn columns(&self, col: usize) -> Columns {
        let from = |vector: *const f32| {
            if vector.is_null() {
                vector
            } else {
                vector.add(col)
            }
        };
        Columns {
            scale: from(self.scale),
            bias: from(self.bias),
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

impl Columns {
    /// Gives `n` sums of columns from `i` on, scaled and with the bias.
    #[inline(always)]
    unsafe fn finished<S: Simd>(self, c: *const f32, i: usize, n: usize) -> S::V {
        let mut v = load::<S>(c.add(i), n);
        if !self.scale.is_null() {
            v = S::mul(v, load::<S>(self.scale.add(i), n));
        }
        if !self.bias.is_null() {
            v = S::add(v, load::<S>(self.bias.add(i), n));
        }
        v
    }
}

#[inline(always)]
unsafe fn load<S: Simd>(from: *const f32, n: usize) -> S::V {
    if n == S::LANES {
        S::load(from)
    } else {
        S::load_n(from, n)
    }
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
    for row in 0..s.rows {
        let (c, at) = (s.c.add(row * s.ldc), target.at + row * target.ld);
        let mut i = 0;
        while i + S::LANES <= s.cols {
            finish_vector::<S, F>(c, i, S::LANES, columns, f, (target, at));
            i += S::LANES;
        }
        if i < s.cols {
            finish_vector::<S, F>(c, i, s.cols - i, columns, f, (target, at));
        }
    }
}

/// Finishes `n` sums from column `i` on; the row begins at element `at` of the target. It is a
/// function, as a closure would not be compiled for the level's instructions.
#[inline(always)]
unsafe fn finish_vector<S: Simd, F: VectorFn>(
    c: *const f32,
    i: usize,
    n: usize,
    columns: Columns,
    f: F,
    (target, at): (Target, usize),
) {
    let mut v = f.apply::<S>(columns.finished::<S>(c, i, n));
    if let Some(residual) = target.residual {
        v = S::add(v, residual.load_vector::<S>(at + i, n));
    }
    target.out.store_vector::<S>(at + i, n, v);
}

dispatch! {
    fn gated(s: &Sums, columns: [Columns; 2], act: Activation, target: Target) = gated_impl
}

#[inline(always)]
unsafe fn gated_impl<S: Simd>(s: &Sums, columns: [Columns; 2], act: Activation, target: Target) {
    with_act!(act, |f| gated_with::<S, _>(s, columns, f, target));
}

#[inline(always)]
unsafe fn gated_with<S: Simd, F: VectorFn>(
    s: &Sums,
    [columns, factors]: [Columns; 2],
    f: F,
    target: Target,
) {
    for row in 0..s.rows {
        let (c, at) = (s.c.add(row * s.ldc), target.at + row * target.ld);
        for i in (0..PANEL).step_by(S::LANES) {
            let value = columns.finished::<S>(c, i, S::LANES);
            let factor = f.apply::<S>(factors.finished::<S>(c.add(PANEL), i, S::LANES));
            target
                .out
                .store_vector::<S>(at + i, S::LANES, S::mul(value, factor));
        }
    }
}
