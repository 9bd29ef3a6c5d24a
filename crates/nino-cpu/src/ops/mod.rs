//! Ops that are not products: norms, elementwise functions, copies and resampling.
//!
//! # Safety
//!
//! Beyond the crate's contract: shapes and sizes that go with a view are those of its tensor.
//! Buffers from a `Carver` hold the floats that were asked for. Row pointers (`src`, `dst`, `row`)
//! are valid for `n` values. An op that works in place reads a row, or a chunk of one, before it
//! writes it.

// Nearly every expression here is an unsafe operation under the contract above, so blocks around
// each would say nothing and hide the arithmetic.
#![allow(unsafe_op_in_unsafe_fn)]

pub(crate) mod elementwise;
pub(crate) mod layout;
pub(crate) mod norm;
pub(crate) mod resample;
pub(crate) mod rows;
pub(crate) mod stats;

use std::ops::Range;

use crate::team::{Carver, Team};

/// Cuts `rows` into tasks of about `1 << 14` values and runs them; the cut depends on sizes alone.
pub(crate) fn by_rows(
    team: &Team<'_>,
    rows: Range<usize>,
    row_len: usize,
    f: impl Fn(Range<usize>, Carver<'_>) + Sync,
) {
    const VALUES: usize = 1 << 14;
    let each = (VALUES / row_len.max(1)).max(1);
    let tasks = rows.len().div_ceil(each);
    team.run(tasks, rows.len() * row_len, |task, scratch| {
        let start = rows.start + task * each;
        f(start..(start + each).min(rows.end), scratch);
    });
}
