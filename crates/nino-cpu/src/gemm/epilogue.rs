//! The end of a product: finished sums become `post(act(acc * scale + bias) + residual)` and are
//! stored.

use nino_graph::Act;

use crate::act::{self, VectorFn, with_act};
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
        let act = if direct || self.residual.is_none() {
            self.act
        } else {
            None
        };
        finish(level, &s, columns, act, residual, out, ld);
        if direct {
            return;
        }
        for row in 0..s.rows {
            let (c, at) = (s.c.add(row * s.ldc), s.at + row * self.ld);
            if let Some(residual) = self.residual {
                act::map(level, self.act, c, c, s.cols);
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
                act::map(level, self.post, c, c, s.cols);
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

dispatch! {
    fn finish(s: &Sums, columns: Columns, act: Option<Act>, residual: *const f32, out: *mut f32, ld: usize) = finish_impl
}

#[inline(always)]
unsafe fn finish_impl<S: Simd>(
    s: &Sums,
    columns: Columns,
    act: Option<Act>,
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
