//! Functions of one value, of two values with broadcasting, and casts.

use std::ops::Range;

use nino_graph::{Act, BinaryFn, Shape};

use super::by_rows;
use crate::act::{self, Activation, VectorFn, with_act};
use crate::memory::View;
use crate::simd::{Simd, dispatch};
use crate::team::Team;

/// Values converted at a time when a row is not stored as f32.
const CHUNK: usize = 1024;

/// Computes out = act(x) over elements. `None` copies, which between dtypes is a cast.
pub(crate) unsafe fn unary(
    team: &Team<'_>,
    act: Option<Act>,
    x: View,
    out: View,
    elements: Range<usize>,
) {
    let (level, act) = (team.level, Activation::of(act, out.dtype));
    let start = elements.start;
    let chunks = elements.len().div_ceil(CHUNK);
    by_rows(team, 0..chunks, CHUNK, |chunks, mut scratch| {
        let buf = scratch.floats(CHUNK);
        for chunk in chunks {
            let at = start + chunk * CHUNK;
            let n = CHUNK.min(elements.end - at);
            let src = x.row(level, at, n, buf);
            act::map(level, act, src, out.target(at, buf), n);
            out.commit(level, at, n, buf);
        }
    });
}

/// Computes rows of `n`: the first half of x's row times the activated second half.
pub(crate) unsafe fn gate(
    team: &Team<'_>,
    act: Act,
    x: View,
    (out, n): (View, usize),
    rows: Range<usize>,
) {
    let (level, act) = (team.level, Activation::of(Some(act), out.dtype));
    by_rows(team, rows, n, |rows, _| {
        for row in rows {
            gate_row(level, act, (x, row * 2 * n), (out, row * n), n);
        }
    });
}

dispatch! {
    /// Computes `n` values from `at` on: as many of x times the activated ones that follow them.
    fn gate_row(act: Activation, x: (View, usize), out: (View, usize), n: usize) = gate_row_impl
}

#[inline(always)]
unsafe fn gate_row_impl<S: Simd>(act: Activation, x: (View, usize), out: (View, usize), n: usize) {
    with_act!(act, |f| gate_row_with::<S, _>(f, x, out, n));
}

#[inline(always)]
unsafe fn gate_row_with<S: Simd, F: VectorFn>(
    f: F,
    (x, from): (View, usize),
    (out, to): (View, usize),
    n: usize,
) {
    let mut i = 0;
    while i < n {
        let len = S::LANES.min(n - i);
        let gate = f.apply::<S>(x.load_vector::<S>(from + n + i, len));
        let value = x.load_vector::<S>(from + i, len);
        out.store_vector::<S>(to + i, len, S::mul(value, gate));
        i += S::LANES;
    }
}

/// One operand of a binary op, walked along the output's rows.
#[derive(Clone, Copy)]
struct Walk {
    view: View,
    /// Element strides over the output's dimensions; 0 where broadcast.
    strides: [usize; 6],
}

impl Walk {
    fn new(view: View, shape: Shape, out: Shape) -> Walk {
        let mut strides = [0; 6];
        let own = shape.strides();
        let missing = out.rank() - shape.rank();
        for i in 0..shape.rank() {
            strides[missing + i] = if shape[i] == 1 { 0 } else { own[i] };
        }
        Walk { view, strides }
    }

    fn at(&self, index: &[usize]) -> usize {
        index.iter().zip(self.strides).map(|(i, s)| i * s).sum()
    }
}

/// Computes out = f(a, b) with broadcasting. Rows are those of the output's last dimension.
pub(crate) unsafe fn binary(
    team: &Team<'_>,
    f: BinaryFn,
    (a, a_shape): (View, Shape),
    (b, b_shape): (View, Shape),
    (out, shape): (View, Shape),
    rows: Range<usize>,
) {
    let level = team.level;
    // Without broadcasting, all elements are one long row, walked in chunks.
    let n = shape.last_dim();
    if a_shape == b_shape {
        let elements = rows.start * n..rows.end * n;
        let chunks = elements.len().div_ceil(CHUNK);
        by_rows(team, 0..chunks, CHUNK, |chunks, mut scratch| {
            let (x, y) = (scratch.floats(CHUNK), scratch.floats(CHUNK));
            for chunk in chunks {
                let at = elements.start + chunk * CHUNK;
                let n = CHUNK.min(elements.end - at);
                let (a, b) = (a.row(level, at, n, x), b.row(level, at, n, y));
                pair(level, f, (a, 1), (b, 1), out.target(at, x), n);
                out.commit(level, at, n, x);
            }
        });
        return;
    }
    let (a, b) = (Walk::new(a, a_shape, shape), Walk::new(b, b_shape, shape));
    let last = shape.rank().max(1) - 1;
    by_rows(team, rows, n, |rows, mut scratch| {
        let (x, y) = (scratch.floats(CHUNK), scratch.floats(CHUNK));
        for row in rows {
            let mut index = [0; 6];
            let mut rest = row;
            for d in (0..last).rev() {
                (index[d], rest) = (rest % shape[d], rest / shape[d]);
            }
            let (a_at, b_at) = (a.at(&index[..last]), b.at(&index[..last]));
            let (a_step, b_step) = (a.strides[last].min(1), b.strides[last].min(1));
            for i in (0..n).step_by(CHUNK) {
                let len = (n - i).min(CHUNK);
                let count = |step: usize| if step == 0 { 1 } else { len };
                let p = a.view.row(level, a_at + i * a_step, count(a_step), x);
                let q = b.view.row(level, b_at + i * b_step, count(b_step), y);
                // The result goes to `x` when it is not f32; a single value there is read first.
                pair(
                    level,
                    f,
                    (p, a_step),
                    (q, b_step),
                    out.target(row * n + i, x),
                    len,
                );
                out.commit(level, row * n + i, len, x);
            }
        }
    });
}

pub(crate) fn scratch_bytes() -> usize {
    2 * crate::team::floats_bytes(CHUNK)
}

dispatch! {
    /// Computes out = f(a, b) for `n` values. An operand's step is 1, or 0 for one value against
    /// all.
    fn pair(f: BinaryFn, a: (*const f32, usize), b: (*const f32, usize), out: *mut f32, n: usize) = pair_impl
}

#[inline(always)]
unsafe fn pair_impl<S: Simd>(
    f: BinaryFn,
    (a, a_step): (*const f32, usize),
    (b, b_step): (*const f32, usize),
    out: *mut f32,
    n: usize,
) {
    let (a0, b0) = (S::splat(*a), S::splat(*b));
    let mut i = 0;
    while i + S::LANES <= n {
        let x = if a_step == 0 { a0 } else { S::load(a.add(i)) };
        let y = if b_step == 0 { b0 } else { S::load(b.add(i)) };
        S::store(out.add(i), combine::<S>(f, x, y));
        i += S::LANES;
    }
    if i < n {
        let x = if a_step == 0 {
            a0
        } else {
            S::load_n(a.add(i), n - i)
        };
        let y = if b_step == 0 {
            b0
        } else {
            S::load_n(b.add(i), n - i)
        };
        S::store_n(out.add(i), combine::<S>(f, x, y), n - i);
    }
}

#[inline(always)]
unsafe fn combine<S: Simd>(f: BinaryFn, x: S::V, y: S::V) -> S::V {
    match f {
        BinaryFn::Add => S::add(x, y),
        BinaryFn::Sub => S::sub(x, y),
        BinaryFn::Mul => S::mul(x, y),
        BinaryFn::Div => S::div(x, y),
    }
}
