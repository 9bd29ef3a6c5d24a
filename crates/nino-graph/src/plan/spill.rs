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

    /// The plan whose arena takes at most `arena` bytes and keeps as little as possible outside. The error
    /// tells the least that would do.
    pub fn fit(graph: &Graph, options: PlanOptions, arena: usize) -> Result<Plan, PlanError> {
        let mut search = Search::new(graph, options, arena)?;
        if search.whole.arena_bytes() <= arena {
            return Ok(search.whole);
        }
        if let Some(plan) = search.with_large_windows() {
            return Ok(plan);
        }
        let least = search.with_least_windows();
        let budget = least.weight_bytes() + arena + options.reserve;
        if least.arena_bytes() <= arena {
            return Ok(least);
        }
        Err(least.over_budget(budget))
    }

    /// [`Plan::fit`] where that takes steps of a good size.
    pub(super) fn fit_well(graph: &Graph, options: PlanOptions, arena: usize) -> Option<Plan> {
        let mut search = Search::new(graph, options, arena).ok()?;
        if search.whole.arena_bytes() <= arena {
            return Some(search.whole);
        }
        search.with_large_windows()
    }
}

/// How much must stay outside so that an arena suffices.
struct Search<'a> {
    graph: &'a Graph,
    options: PlanOptions,
    arena: usize,
    /// With nothing outside.
    whole: Plan,
    /// Of values worth keeping outside, from the largest down.
    sizes: Vec<usize>,
    /// No window below this does: what tries that failed have told.
    least_window: usize,
}

impl<'a> Search<'a> {
    fn new(graph: &'a Graph, options: PlanOptions, arena: usize) -> Result<Search<'a>, PlanError> {
        let whole = Plan::new(graph.clone(), options)?;
        if whole.arena_bytes() > arena
            && let Some(frugal) = options.frugal(graph)
        {
            return Search::new(graph, frugal, arena);
        }
        let bytes = graph.ops().map(|(n, _)| graph.bytes(n));
        let mut sizes: Vec<usize> = bytes.filter(|&b| b >= MIN_SPILL).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes.dedup();
        Ok(Search {
            graph,
            options,
            arena,
            whole,
            sizes,
            least_window: 1,
        })
    }

    /// The plan with values of `size` and more outside; `None` where a window is too small, and then it is
    /// known what one has to be at least. More values outside never need less.
    fn spilling(&mut self, size: usize, window: usize) -> Option<Plan> {
        let options = PlanOptions {
            spill_above: Some(size),
            window,
            ..self.options
        };
        match Plan::new(self.graph.clone(), options) {
            Ok(plan) => Some(plan),
            Err(PlanError::BindingTooLarge { bytes, limit, .. }) if limit == window => {
                self.least_window = self.least_window.max(bytes);
                None
            }
            Err(_) => None,
        }
    }

    /// Large windows mean few, efficient steps: they take what the values inside leave.
    fn with_large_windows(&mut self) -> Option<Plan> {
        for size in self.sizes.clone() {
            // Attention wants all keys and values at once, which may be more than half.
            for sixteenths in [8, 12, 4, 2, 1] {
                let window = self.arena / 16 * sixteenths;
                if window < self.least_window {
                    continue;
                }
                let plan = self.spilling(size, window);
                if let Some(plan) = plan.filter(|p| p.arena_bytes() <= self.arena) {
                    return Some(plan);
                }
            }
        }
        None
    }

    /// The smallest plan: all that can be outside is, and windows hold the rows of one step.
    fn with_least_windows(mut self) -> Plan {
        let smallest = self.sizes.last().copied();
        while let Some(size) = smallest {
            let window = self.least_window.max(MIN_SPILL);
            if let Some(plan) = self.spilling(size, window) {
                let is_smaller = plan.arena_bytes() < self.whole.arena_bytes();
                return if is_smaller { plan } else { self.whole };
            }
            if self.least_window <= window {
                break;
            }
        }
        self.whole
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

#[cfg(test)]
mod tests;
