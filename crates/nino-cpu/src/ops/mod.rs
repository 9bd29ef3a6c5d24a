//! Ops that are no products: norms, elementwise functions, copies and resampling.

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
