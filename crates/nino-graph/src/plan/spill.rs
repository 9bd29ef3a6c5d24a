//! Values kept outside the arena (host memory, or a file on a CPU) or across its pages: the windows their
//! rows pass through, and the search for how much must stay outside to fit a budget.

use super::lifetimes::Buffer;
use super::order::Order;
use super::{ArenaSize, Idle, Plan, PlanError, PlanOptions, Step};
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

    /// Bytes that the steps of a run bring in from there, and take out.
    pub fn moved_bytes(&self, outside: Outside) -> usize {
        let moved = |step: &Step| {
            let (operands, out) = self.transfers(step);
            let there = operands.into_iter().chain(out);
            let there = there.filter(|t| t.outside == outside);
            there.map(|t| t.bytes.len()).sum::<usize>()
        };
        self.steps.iter().map(moved).sum()
    }

    /// The plan whose arena takes at most `arena` bytes and keeps as little as possible outside. The error
    /// tells the least that would do.
    pub fn fit(graph: &Graph, options: PlanOptions, arena: usize) -> Result<Plan, PlanError> {
        Plan::fit_all(std::slice::from_ref(graph), options, arena).map(|mut plans| plans.remove(0))
    }

    /// [`Plan::fit`] for graphs that run by turns in one arena. What is outside in one of them is so in all:
    /// what they share ([`Graph::share`]) has one place.
    pub fn fit_all(
        graphs: &[Graph],
        options: PlanOptions,
        arena: usize,
    ) -> Result<Vec<Plan>, PlanError> {
        let mut search = Search::new(graphs, options, arena)?;
        if arena_of(&search.whole) <= arena {
            return Ok(search.whole);
        }
        if let Some(plans) = search.with_large_windows() {
            return Ok(plans);
        }
        let least = search.with_least_windows();
        within_arena(least, arena)
    }

    /// [`Plan::fit_all`] with nothing outside: the search it leaves out takes a while.
    pub fn fit_inside(
        graphs: &[Graph],
        options: PlanOptions,
        arena: usize,
    ) -> Result<Vec<Plan>, PlanError> {
        within_arena(Search::new(graphs, options, arena)?.whole, arena)
    }

    /// [`Plan::fit`] where that takes steps of a good size.
    pub(super) fn fit_well(graph: &Graph, options: PlanOptions, arena: usize) -> Option<Plan> {
        let mut search = Search::new(std::slice::from_ref(graph), options, arena).ok()?;
        if arena_of(&search.whole) <= arena {
            return search.whole.pop();
        }
        search.with_large_windows()?.pop()
    }
}

fn arena_of(plans: &[Plan]) -> usize {
    ArenaSize::of(plans).bytes()
}

fn within_arena(plans: Vec<Plan>, arena: usize) -> Result<Vec<Plan>, PlanError> {
    match plans.iter().max_by_key(|p| p.arena_bytes()) {
        Some(largest) if arena_of(&plans) > arena => {
            let budget = largest.weight_bytes() + arena + largest.options.reserve;
            Err(largest.over_budget(budget))
        }
        _ => Ok(plans),
    }
}

/// Sizes from which values are outside: all of them, and idle ones.
#[derive(Clone, Copy)]
struct Above {
    all: Option<usize>,
    idle: Option<Idle>,
}

/// The different ones that are worth keeping outside.
fn from_the_largest(sizes: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut sizes: Vec<usize> = sizes.filter(|&bytes| bytes >= MIN_SPILL).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    sizes
}

/// How much must stay outside so that an arena suffices.
struct Search<'a> {
    graphs: &'a [Graph],
    options: PlanOptions,
    arena: usize,
    /// With nothing outside.
    whole: Vec<Plan>,
    /// Of values worth keeping outside, from the largest down.
    sizes: Vec<usize>,
    /// Of those among them that graphs share.
    shared: Vec<usize>,
    /// No window below this does: what tries that failed have told.
    least_window: usize,
}

impl<'a> Search<'a> {
    fn new(
        graphs: &'a [Graph],
        options: PlanOptions,
        arena: usize,
    ) -> Result<Search<'a>, PlanError> {
        let whole = graphs.iter().map(|g| Plan::new(g.clone(), options));
        let whole = whole.collect::<Result<Vec<_>, _>>()?;
        if arena_of(&whole) > arena
            && let Some(frugal) = graphs.iter().find_map(|g| options.frugal(g))
        {
            return Search::new(graphs, frugal, arena);
        }
        let bytes = |g: &Graph| g.ops().map(|(n, _)| g.bytes(n)).collect::<Vec<_>>();
        let sizes = from_the_largest(graphs.iter().flat_map(bytes));
        let shared = graphs.iter().flat_map(Graph::shared);
        let shared = from_the_largest(shared.map(|s| s.bytes));
        Ok(Search {
            graphs,
            options,
            arena,
            whole,
            sizes,
            shared,
            least_window: 1,
        })
    }

    /// The plans with values of these sizes and more outside; `None` where a window is too small, and then it
    /// is known what one has to be at least. More values outside never need less.
    fn spilling(&mut self, above: Above, window: usize) -> Option<Vec<Plan>> {
        let options = PlanOptions {
            spill_above: above.all,
            spill_idle: above.idle,
            window,
            ..self.options
        };
        let plans = self.graphs.iter().map(|g| Plan::new(g.clone(), options));
        match plans.collect() {
            Ok(plans) => Some(plans),
            Err(PlanError::BindingTooLarge { bytes, limit, .. }) if limit == window => {
                self.least_window = self.least_window.max(bytes);
                None
            }
            Err(_) => None,
        }
    }

    /// Large windows mean few, efficient steps: they take what the values inside leave. Idle values go first:
    /// that frees most for its traffic.
    fn with_large_windows(&mut self) -> Option<Vec<Plan>> {
        let smallest = self.shared.last().copied();
        for ops in IDLE_OPS {
            let idle = |above| Above {
                all: None,
                idle: Some(Idle { ops, above }),
            };
            if smallest.is_some_and(|size| self.with_one_of(idle(size), &[1]).is_some()) {
                let mut sizes = self.shared.clone().into_iter();
                return sizes.find_map(|size| self.with_one_of(idle(size), &[4, 1]));
            }
        }
        let idle = self.all_idle();
        self.sizes.clone().into_iter().find_map(|size| {
            let all = Some(size);
            // Attention wants all keys and values at once, which may be more than half.
            self.with_one_of(Above { all, idle }, &[8, 12, 4, 2, 1])
        })
    }

    /// In graphs that share values; others have few that are idle, and what they have are not the largest.
    fn all_idle(&self) -> Option<Idle> {
        let (ops, above) = (IDLE_OPS[IDLE_OPS.len() - 1], *self.shared.last()?);
        Some(Idle { ops, above })
    }

    /// With the first of these windows that does, in sixteenths of the arena.
    fn with_one_of(&mut self, above: Above, windows: &[usize]) -> Option<Vec<Plan>> {
        windows.iter().find_map(|sixteenths| {
            let window = self.arena / 16 * sixteenths;
            if window < self.least_window {
                return None;
            }
            let plans = self.spilling(above, window)?;
            (arena_of(&plans) <= self.arena).then_some(plans)
        })
    }

    /// The smallest plans: all that can be outside is, and windows hold the rows of one step.
    fn with_least_windows(mut self) -> Vec<Plan> {
        let smallest = self.sizes.last().copied();
        while let Some(size) = smallest {
            let window = self.least_window.max(MIN_SPILL);
            let above = Above {
                all: Some(size),
                idle: self.all_idle(),
            };
            if let Some(plans) = self.spilling(above, window) {
                let is_smaller = arena_of(&plans) < arena_of(&self.whole);
                return if is_smaller { plans } else { self.whole };
            }
            if self.least_window <= window {
                break;
            }
        }
        self.whole
    }
}

/// What is idle, from what is most so.
const IDLE_OPS: [usize; 3] = [usize::MAX, 100, 32];

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
            shared: None,
        })
    })
}

#[cfg(test)]
mod tests;
