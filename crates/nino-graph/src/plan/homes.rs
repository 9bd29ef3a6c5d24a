//! Which buffers lie in the arena's pages, which across pages, and which outside.

use super::lifetimes::Buffer;
use super::{Idle, PlanOptions};
use crate::Graph;

/// Buffers by where they are kept.
pub(super) struct Homes {
    pub(super) paged: Vec<Buffer>,
    /// Larger than a page.
    pub(super) across: Vec<Buffer>,
    pub(super) host: Vec<Buffer>,
    /// Values whose rows pass through windows, by node.
    pub(super) passes: Vec<bool>,
}

/// See [`Idle::ops`].
fn ops(buffer: &Buffer) -> usize {
    match buffer.shared {
        Some(_) => usize::MAX,
        None => buffer.end - buffer.start,
    }
}

impl Homes {
    pub(super) fn new(graph: &Graph, buffers: Vec<Buffer>, options: &PlanOptions) -> Homes {
        let is_outside = |b: &Buffer| {
            let idle = |idle: Idle| b.bytes >= idle.above && ops(b) >= idle.ops;
            options.spill_above.is_some_and(|above| b.bytes >= above)
                || options.spill_idle.is_some_and(idle)
        };
        let mut homes = Homes {
            paged: Vec::new(),
            across: Vec::new(),
            host: Vec::new(),
            passes: vec![false; graph.len()],
        };
        for buffer in buffers {
            let home = if buffer.scratch_of.is_some() {
                &mut homes.paged
            } else if is_outside(&buffer) {
                &mut homes.host
            } else if buffer.bytes > options.page {
                &mut homes.across
            } else {
                &mut homes.paged
            };
            home.push(buffer);
        }
        for node in homes
            .across
            .iter()
            .chain(&homes.host)
            .flat_map(|b| &b.values)
        {
            homes.passes[node.index()] = true;
        }
        homes
    }
}
