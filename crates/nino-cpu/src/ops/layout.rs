//! Copies that only move values: concat, slice, pad, permute and gather. Sizes are in bytes, so
//! that every plain storage type is the same code.

use std::ops::Range;

use nino_dtype::DType;
use nino_graph::{PadMode, Shape};

use super::by_rows;
use crate::memory::View;
use crate::team::Team;

/// A shape seen from one axis: `[outer, size, inner]`.
fn around(shape: Shape, axis: usize) -> [usize; 3] {
    let (outer, inner) = (
        shape[..axis].iter().product(),
        shape[axis + 1..].iter().product(),
    );
    [outer, shape[axis], inner]
}

/// Copies one operand into `rows` of the output: `n` places of the axis, from `start` on.
pub(crate) unsafe fn concat_part(
    team: &Team<'_>,
    (part, n): (View, usize),
    (out, shape): (View, Shape),
    (axis, start): (usize, usize),
    rows: Range<usize>,
) {
    let size = out.dtype.block_bytes();
    let [_, total, inner] = around(shape, axis);
    let row_len = shape.last_dim();
    by_rows(team, rows, row_len, |rows, _| {
        if axis + 1 == shape.rank() {
            for row in rows {
                let to = out.at(row * row_len + start);
                std::ptr::copy_nonoverlapping(part.at(row * n), to, n * size);
            }
            return;
        }
        let per_step = inner / row_len;
        for row in rows {
            let (outer, at) = (row / (total * per_step), row % (total * per_step));
            let (i, rest) = (at / per_step, at % per_step);
            if (start..start + n).contains(&i) {
                let from = ((outer * n + i - start) * per_step + rest) * row_len;
                let to = out.at(row * row_len);
                std::ptr::copy_nonoverlapping(part.at(from), to, row_len * size);
            }
        }
    });
}

/// Copies `start..` of one axis.
pub(crate) unsafe fn slice(
    team: &Team<'_>,
    (x, x_shape): (View, Shape),
    (out, shape): (View, Shape),
    (axis, start): (usize, usize),
    rows: Range<usize>,
) {
    let size = out.dtype.block_bytes();
    let (row_len, x_len) = (shape.last_dim(), x_shape.last_dim());
    let [_, total, inner] = around(shape, axis);
    by_rows(team, rows, row_len, |rows, _| {
        for row in rows {
            let from = if axis + 1 == shape.rank() {
                row * x_len + start
            } else {
                let per_step = inner / row_len;
                let (outer, at) = (row / (total * per_step), row % (total * per_step));
                ((outer * x_shape[axis] + start) * per_step + at) * row_len
            };
            std::ptr::copy_nonoverlapping(x.at(from), out.at(row * row_len), row_len * size);
        }
    });
}

/// Enlarges one axis at both ends.
pub(crate) unsafe fn pad(
    team: &Team<'_>,
    (x, x_shape): (View, Shape),
    (out, shape): (View, Shape),
    (axis, before, mode): (usize, usize, PadMode),
    rows: Range<usize>,
) {
    let level = team.level;
    let n = x_shape[axis] as isize;
    // Index on the input's axis, or `None` for the constant.
    let source = |i: usize| -> Option<usize> {
        let i = i as isize - before as isize;
        match mode {
            _ if (0..n).contains(&i) => Some(i as usize),
            PadMode::Constant(_) => None,
            PadMode::Replicate => Some(i.clamp(0, n - 1) as usize),
            PadMode::Reflect => Some(if i < 0 { -i } else { 2 * (n - 1) - i } as usize),
        }
    };
    let value = if let PadMode::Constant(v) = mode {
        v
    } else {
        0.0
    };
    let row_len = shape.last_dim();
    let size = out.dtype.block_bytes();
    let [_, total, inner] = around(shape, axis);
    let last = axis + 1 == shape.rank();
    by_rows(team, rows, row_len, |rows, mut scratch| {
        let constant = scratch.floats(row_len);
        std::slice::from_raw_parts_mut(constant, row_len).fill(value);
        for row in rows {
            let to = row * row_len;
            if last {
                for i in 0..row_len {
                    match source(i) {
                        Some(j) => {
                            let from = x.at(row * x_shape[axis] + j);
                            std::ptr::copy_nonoverlapping(from, out.at(to + i), size);
                        }
                        None => out.store(level, to + i, 1, constant),
                    }
                }
                continue;
            }
            let per_step = inner / row_len;
            let (outer, at) = (row / (total * per_step), row % (total * per_step));
            match source(at / per_step) {
                Some(j) => {
                    let from = ((outer * x_shape[axis] + j) * per_step + at % per_step) * row_len;
                    std::ptr::copy_nonoverlapping(x.at(from), out.at(to), row_len * size);
                }
                None => out.store(level, to, row_len, constant),
            }
        }
    });
}

/// Columns that a transposing copy takes at a time.
const COLUMNS: usize = 64;

/// Output dimension `i` is input dimension `perm[i]`.
pub(crate) unsafe fn permute(
    team: &Team<'_>,
    (x, x_shape): (View, Shape),
    (out, shape): (View, Shape),
    perm: &[usize],
    rows: Range<usize>,
) {
    let own = x_shape.strides();
    let mut strides = [0; 6];
    for (i, &p) in perm.iter().enumerate() {
        strides[i] = own[p];
    }
    let last = shape.rank().max(1) - 1;
    let (n, step) = (
        shape.last_dim(),
        if shape.rank() == 0 { 1 } else { strides[last] },
    );
    let size = out.dtype.block_bytes();
    let from = |row: usize| {
        let (mut rest, mut at) = (row, 0);
        for d in (0..last).rev() {
            at += rest % shape[d] * strides[d];
            rest /= shape[d];
        }
        at
    };
    by_rows(team, rows, n, |rows, _| {
        if step == 1 {
            for row in rows {
                std::ptr::copy_nonoverlapping(x.at(from(row)), out.at(row * n), n * size);
            }
            return;
        }
        // Neighboring rows read neighboring values, so a block of columns at a time stays in cache.
        for c0 in (0..n).step_by(COLUMNS) {
            let columns = c0..(c0 + COLUMNS).min(n);
            for row in rows.clone() {
                let (src, dst) = (x.at(from(row)), out.at(row * n));
                match size {
                    4 => strided::<4>(src, step, dst, columns.clone()),
                    2 => strided::<2>(src, step, dst, columns.clone()),
                    8 => strided::<8>(src, step, dst, columns.clone()),
                    _ => strided::<1>(src, step, dst, columns.clone()),
                }
            }
        }
    });
}

unsafe fn strided<const SIZE: usize>(
    src: *const u8,
    step: usize,
    dst: *mut u8,
    columns: Range<usize>,
) {
    let (src, dst) = (src.cast::<[u8; SIZE]>(), dst.cast::<[u8; SIZE]>());
    for c in columns {
        *dst.add(c) = *src.add(c * step);
    }
}

/// Gathers rows of a table `[v, d]` by id. An id outside the table gives NaN.
pub(crate) unsafe fn gather(
    team: &Team<'_>,
    (table, dtype, [v, d]): (&[u8], DType, [usize; 2]),
    ids: View,
    out: View,
    rows: Range<usize>,
) {
    let row_bytes = dtype.bytes_for(d).unwrap_or(0);
    by_rows(team, rows, d, |rows, mut scratch| {
        let buf = scratch.floats(d);
        let values = std::slice::from_raw_parts_mut(buf, d);
        for row in rows {
            let id = ids.at(row).cast::<i32>().read_unaligned();
            match usize::try_from(id) {
                Ok(id) if id < v => {
                    nino_dtype::decode(dtype, &table[id * row_bytes..][..row_bytes], values)
                        .expect("a row is whole blocks");
                }
                _ => values.fill(f32::NAN),
            }
            out.store(team.level, row * d, d, buf);
        }
    });
}
