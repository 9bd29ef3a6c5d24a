//! Windows: pieces of the arena through which rows of values pass that are kept elsewhere. Before a
//! step the rows it reads are brought in, after it the rows it made are taken out.

use super::homes::Home;
use super::lifetimes::{Buffer, Holds};
use super::order::Order;
use super::{Plan, Step};
use crate::{Graph, Node};
use std::ops::Range;

/// Rows of a value on their way in or out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Where the value is kept.
    pub home: Home,
    /// Which bytes of what is kept there.
    pub bytes: Range<usize>,
    /// Where they are in the arena during the step.
    pub arena: usize,
}

/// Bytes moved by a plan's runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that steady steps move: they are moved in the first run alone.
    pub once: usize,
    /// Bytes that all other steps move, in every run.
    pub each_run: usize,
}

impl Traffic {
    /// Bytes of so many runs.
    pub fn in_runs(self, runs: usize) -> usize {
        self.once * runs.min(1) + self.each_run * runs
    }
}

impl Plan {
    /// What to bring into the arena before a step, and what to take out after it.
    pub fn transfers(&self, step: &Step) -> (Vec<Transfer>, Option<Transfer>) {
        let uses = self.graph.uses(step.node, &step.rows);
        let mut transfers: Vec<Option<Transfer>> = uses
            .iter()
            .enumerate()
            .map(|(i, used)| {
                let (home, span) = self.place(used.node).home()?;
                Some(Transfer {
                    home,
                    bytes: span.offset + used.bytes.start..span.offset + used.bytes.end,
                    arena: self.locate(step.node, i, used)?,
                })
            })
            .collect();
        let out = transfers.pop().flatten();
        (transfers.into_iter().flatten().collect(), out)
    }

    /// Bytes that steps bring in from `home` and take out to it.
    pub fn moved(&self, home: Home) -> Traffic {
        let moved = |step: &Step| {
            let (operands, out) = self.transfers(step);
            let there = operands.into_iter().chain(out);
            let there = there.filter(|t| t.home == home);
            there.map(|t| t.bytes.len()).sum::<usize>()
        };
        if self.windows.iter().all(Vec::is_empty) {
            return Traffic::default();
        }
        let (steady, others) = self.steps.split_at(self.steady_steps);
        Traffic {
            once: steady.iter().map(moved).sum(),
            each_run: others.iter().map(moved).sum(),
        }
    }
}

/// Bytes of the window for each use of each op, 0 where its value is directly in the arena. Indexed
/// by node; empty for ops without windows.
pub(super) fn windows(
    graph: &Graph,
    steps: &[Step],
    windowed: &[bool],
    align: usize,
) -> Vec<Vec<usize>> {
    let mut windows = vec![Vec::new(); graph.len()];
    if !windowed.contains(&true) {
        return windows;
    }
    for step in steps {
        let uses = graph.uses(step.node, &step.rows);
        let sizes: &mut Vec<usize> = &mut windows[step.node.index()];
        sizes.resize(uses.len(), 0);
        for (size, used) in sizes.iter_mut().zip(&uses) {
            if windowed[used.node.index()] {
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
        let op = Node(node as u32);
        let at = order.at(op);
        let with_bytes = sizes.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
        with_bytes.map(move |(operand, &bytes)| Buffer {
            bytes,
            start: at,
            end: at,
            holds: Holds::Window { op, operand },
        })
    })
}
