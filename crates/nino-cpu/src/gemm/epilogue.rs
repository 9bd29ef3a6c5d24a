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
        let direct =
            self.out.is_f32() && self.residual.is_none_or(View::is_f32) && self.post.is_none();
        let (residual, out, ld) = if direct {
            let residual = self
                .residual
                .map_or(std::ptr::null(), |r| r.f32_at(s.at).cast_const());
            (residual, self.out.f32_at(s.at), self.ld)
        } else {
            (std::ptr::null(), s.c, s.ldc)
        };
        let act = |act: Option<Act>| Activation::of(act, self.out.dtype);
        finish(level, &s, columns, act(self.act), residual, out, ld);
        if direct {
            return;
        }
        let same = self.residual.is_none_or(|r| r.dtype == self.out.dtype);
        if same && self.post.is_none() && matches!(self.out.dtype, DType::F16 | DType::BF16) {
            let residual = self.residual.map_or(std::ptr::null_mut(), |r| r.at(s.at));
            let rows = Narrow {
                residual: residual.cast_const().cast(),
                out: self.out.at(s.at).cast(),
                ld: self.ld,
                brain: self.out.dtype == DType::BF16,
            };
            return narrow(level, &s, &rows);
        }
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
                act::map(level, act(self.post), c, c, s.cols);
            }
            self.out.store(level, at, s.cols, c);
        }
    }
}

/// Rows of 16 bits a value that finished sums go to.
struct Narrow {
    /// What is added, or null.
    residual: *const u16,
    out: *mut u16,
    ld: usize,
    /// Whether they are bf16; else f16.
    brain: bool,
}

dispatch! {
    /// Adds the residual to finished sums and stores them.
    fn narrow(s: &Sums, to: &Narrow) = narrow_impl
}

#[inline(always)]
unsafe fn narrow_impl<S: Simd>(s: &Sums, to: &Narrow) {
    for row in 0..s.rows {
        let c = s.c.add(row * s.ldc);
        let mut i = 0;
        while i < s.cols {
            let (at, n) = (row * to.ld + i, (s.cols - i).min(S::LANES));
            let (residual, out) = (to.residual.wrapping_add(at), to.out.add(at));
            if n == S::LANES {
                narrow_vector::<S>(S::load(c.add(i)), to, residual, out);
            } else {
                let (mut from, mut into) = ([0u16; 16], [0u16; 16]);
                if !to.residual.is_null() {
                    from.as_mut_ptr().copy_from_nonoverlapping(residual, n);
                }
                let v = S::load_n(c.add(i), n);
                narrow_vector::<S>(v, to, from.as_ptr(), into.as_mut_ptr());
                out.copy_from_nonoverlapping(into.as_ptr(), n);
            }
            i += n;
        }
    }
}

#[inline(always)]
unsafe fn narrow_vector<S: Simd>(v: S::V, to: &Narrow, residual: *const u16, out: *mut u16) {
    let v = match (to.residual.is_null(), to.brain) {
        (true, _) => v,
        (false, true) => S::add(v, S::load_bf16(residual)),
        (false, false) => S::add(v, S::load_f16(residual)),
    };
    if to.brain {
        S::store_bf16(out, v);
    } else {
        S::store_f16(out, v);
    }
}

/// What belongs to each column of the sums: f32 or null.
#[derive(Clone, Copy)]
struct Columns {
    scale: *const f32,
    bias: *const f32,
}

dispatch! {
    fn finish(s: &Sums, columns: Columns, act: Activation, residual: *const f32, out: *mut f32, ld: usize) = finish_impl
}

#[inline(always)]
unsafe fn finish_impl<S: Simd>(
    s: &Sums,
    columns: Columns,
    act: Activation,
    residual: *const f32,
    out: *mut f32,
    ld: usize,
) {
    with_act!(act, |f| finish_with::<S, _>(
        s, columns, f, residual, out, ld
    ));
}

#[inline(always)]
unsafe fn finish_with<S: Simd, F: VectorFn>(
    s: &Sums,
    columns: Columns,
    f: F,
    residual: *const f32,
    out: *mut f32,
    ld: usize,
) {
    let Columns { scale, bias } = columns;
    for row in 0..s.rows {
        let (c, out) = (s.c.add(row * s.ldc), out.add(row * ld));
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
            if !residual.is_null() {
                v = S::add(v, S::load(residual.add(row * ld + i)));
            }
            S::store(out.add(i), v);
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
            if !residual.is_null() {
                v = S::add(v, S::load_n(residual.add(row * ld + i), n));
            }
            S::store_n(out.add(i), v, n);
        }
    }
}
