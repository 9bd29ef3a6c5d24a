//! Values kept outside the arena (host memory, or a file on a CPU) or across its pages: the windows their
//! rows pass through, and the search for how much must stay outside to fit a budget.

use super::lifetimes::Buffer;
use super::order::Order;
use super::{Plan, PlanError, PlanOptions, Step};
use crate::{Graph, Node};
use std::ops::Range;

/// Where values that pass through windows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// In the arena, across pages.
    Across,
    Host,
}

/// Rows of a value on their way in or out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub outside: Outside,
    /// Which bytes of what is kept there.
    pub bytes: Range<usize>,
    /// Where they are in the arena during the step.
    pub arena: usize,
}

impl Plan {
    /// What to bring into the arena before a step, and what to take out after it.
    pub fn transfers(&self, step: &Step) -> (Vec<Transfer>, Option<Transfer>) {
        let uses = self.graph.uses(step.node, &step.rows);
        let mut transfers: Vec<Option<Transfer>> = uses
            .iter()
            .enumerate()
            .map(|(i, used)| {
                let (outside, span) = self.place(used.node).outside()?;
                Some(Transfer {
                    outside,
                    bytes: span.offset + used.bytes.start..span.offset + used.bytes.end,
                    arena: self.locate(step.node, i, used)?,
                })
            })
            .collect();
        let out = transfers.pop().flatten();
        (transfers.into_iter().flatten().collect(), out)
    }

    /// The plan whose arena takes at most `arena` bytes and keeps as little as possible outside.
    pub fn fit(graph: &Graph, options: PlanOptions, arena: usize) -> Result<Plan, PlanError> {
        let whole = Plan::new(graph.clone(), options)?;
        if whole.arena_bytes() <= arena {
            return Ok(whole);
        }
        if let Some(frugal) = options.frugal(graph) {
            return Plan::fit(graph, frugal, arena);
        }
        let mut sizes: Vec<usize> = graph.ops().map(|(n, _)| graph.bytes(n)).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes.dedup();
        let mut smallest = whole;
        for size in sizes.into_iter().filter(|&s| s >= MIN_SPILL) {
            // Large windows mean few, efficient steps: take what the values inside leave. Attention
            // wants all keys and values at once, which may be more than half.
            for sixteenths in [8, 12, 4, 2, 1] {
                let spill = PlanOptions {
                    spill_above: Some(size),
                    window: arena / 16 * sixteenths,
                    ..options
                };
                let Ok(plan) = Plan::new(graph.clone(), spill) else {
                    continue;
                };
                if plan.arena_bytes() <= arena {
                    return Ok(plan);
                }
                if plan.arena_bytes() < smallest.arena_bytes() {
                    smallest = plan;
                }
            }
        }
        Err(smallest.over_budget(smallest.weight_bytes() + arena + options.reserve))
    }
}

/// Keeping less than this outside frees nothing worth its traffic.
const MIN_SPILL: usize = 64 * 1024;

/// Bytes of the window for each use of each op, 0 where its value is inside. Indexed by node.
pub(super) fn windows(
    graph: &Graph,
    steps: &[Step],
    spilled: &[bool],
    align: usize,
) -> Vec<Vec<usize>> {
    let mut windows = vec![Vec::new(); graph.len()];
    for step in steps {
        let uses = graph.uses(step.node, &step.rows);
        let sizes: &mut Vec<usize> = &mut windows[step.node.index()];
        sizes.resize(uses.len(), 0);
        for (size, used) in sizes.iter_mut().zip(&uses) {
            if spilled[used.node.index()] {
                *size = (*size).max(used.bytes.start % align + used.bytes.len());
            }
        }
    }
    windows
}

pub(super) fn window_buffers(
    order: &Order,
    windows: &[Vec<usize>],
) -> impl Iterator<Item = Buffer> {
    windows.iter().enumerate().flat_map(|(node, sizes)| {
        let node = Node(node as u32);
        let at = order.at(node);
        let with_bytes = sizes.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
        with_bytes.map(move |(i, &bytes)| Buffer {
            bytes,
            start: at,
            end: at,
            owner: node,
            values: Vec::new(),
            scratch_of: None,
            gap: None,
            window_of: Some((node, i)),
        })
    })
}
