//! The search for the quickest plans that fit a budget.
//!
//! A candidate is a choice of what stays between runs, which values are kept on the host and how
//! large windows are; streamed weights take what it leaves of the budget. Which candidates there
//! are does not depend on the budget, so the least budget is the need of the smallest one.
//! Candidates are tried in the order of the least time they can take ([`Rates::time`]), until no
//! other can be much quicker than the best found.

mod candidate;

use super::limits::{Budget, Idle, Limits, Strategy};
use super::stream::Memory;
use super::time::Rates;
use super::{Plan, PlanError};
use crate::{Device, Graph};
use candidate::{Candidate, Level, MIN_HOST, Smallest, Timed, Whole};
use std::sync::Arc;

/// What to plan for.
#[derive(Clone, Debug)]
pub struct Search {
    pub limits: Limits,
    pub budget: Budget,
    pub rates: Rates,
    /// Values may be kept on the host, and weights may stream from it.
    pub allow_host: bool,
}

/// A graph that takes its turn in an arena, and about how often it runs.
#[derive(Clone, Debug)]
pub struct Turn {
    pub graph: Arc<Graph>,
    pub runs: usize,
}

impl Turn {
    pub fn new(graph: impl Into<Arc<Graph>>, runs: usize) -> Turn {
        Turn {
            graph: graph.into(),
            runs,
        }
    }
}

/// Candidates that could save less than this share of the time are not worth trying.
const WORTH: f64 = 0.05;

/// What is idle, from what is most so: what graphs share, then what lives for so many ops.
const IDLE_OPS: [usize; 3] = [usize::MAX, 100, 32];

impl Search {
    /// A search for a device, with its own budget.
    pub fn on(device: &dyn Device) -> Search {
        Search {
            limits: device.limits(),
            budget: device.budget(),
            rates: device.rates(),
            allow_host: true,
        }
    }

    /// The quickest plans for graphs of one network that run by turns in one arena; what they share
    /// ([`Graph::share`]) has one place. Where none fits, the error tells the least budget that
    /// does.
    pub fn best(&self, turns: &[Turn]) -> Result<Vec<Plan>, PlanError> {
        let fastest = Strategy::fastest(&self.limits);
        let fits = |plans: &[Plan], room: usize| Memory::of(plans).bytes() <= room;
        let room = self.budget.for_plans();
        let first = match (Whole::new(fastest, turns), room) {
            (Ok(whole), Some(room)) if !fits(&whole.plans, room) => Ok(whole),
            (Err(refusal), Some(_)) => Err(refusal),
            (whole, _) => return whole.map(|whole| whole.plans),
        };
        let (mut levels, mut refusals) = (Vec::new(), Vec::new());
        let others = frugal(fastest, turns).into_iter();
        let others = others.map(|how| Whole::new(how, turns));
        for whole in std::iter::once(first).chain(others) {
            match whole {
                Ok(whole) => levels.push(Level::new(whole, turns, self)),
                Err(refusal) => refusals.push(refusal),
            }
        }
        if levels.is_empty() {
            return Err(refusals.remove(0));
        }
        let room = room.unwrap_or(usize::MAX);
        let mut candidates = self.candidates(&levels, room);
        match quickest(&mut candidates, room) {
            Some(plans) => Ok(plans),
            None => Err(self.over_budget(smallest(candidates))),
        }
    }

    /// [`Search::best`] for one graph.
    pub fn plan(&self, graph: impl Into<Arc<Graph>>, runs: usize) -> Result<Plan, PlanError> {
        let mut plans = self.best(&[Turn::new(graph, runs)])?;
        Ok(plans.remove(0))
    }

    fn candidates<'l>(&self, levels: &'l [Level<'l>], room: usize) -> Vec<Candidate<'l>> {
        let mut candidates: Vec<Candidate<'l>> = Vec::new();
        for level in levels {
            let from = candidates.len();
            candidates.push(Candidate::whole(level, room));
            let strategies = self.allow_host.then(|| on_host(level));
            for how in strategies.into_iter().flatten() {
                let candidate = Candidate::new(level, how, room);
                // Another threshold may sort values in the same way.
                if candidates[from..].iter().all(|c| !c.is_like(&candidate)) {
                    candidates.push(candidate);
                }
            }
        }
        candidates
    }

    fn over_budget(&self, least: Smallest) -> PlanError {
        let outside_plans = self.budget.outside_plans();
        PlanError::OverBudget {
            need: least.bytes() + outside_plans,
            weights: least.weights,
            arena: least.arena,
            op: least.peak_op,
            outside_plans,
            budget: self.budget.total.unwrap_or(usize::MAX),
        }
    }
}

/// The plans that take the least time of those that fit.
fn quickest(candidates: &mut [Candidate<'_>], room: usize) -> Option<Vec<Plan>> {
    candidates.sort_by_key(|c| c.least_time);
    let mut best: Option<Timed> = None;
    for candidate in candidates {
        let worth = |best: &Timed| candidate.least_time.seconds < best.time.seconds * (1.0 - WORTH);
        if !best.as_ref().is_none_or(worth) {
            break;
        }
        if let Some(found) = candidate.quickest(room)
            && best.as_ref().is_none_or(|best| found.time < best.time)
        {
            best = Some(found);
        }
    }
    best.map(|best| best.plans)
}

/// What the smallest of all candidates needs.
fn smallest(mut candidates: Vec<Candidate<'_>>) -> Smallest {
    candidates.sort_by_key(|c| c.least_bytes);
    let mut least: Option<Smallest> = None;
    for candidate in &candidates {
        let known = least.as_ref().map_or(usize::MAX, Smallest::bytes);
        if candidate.least_bytes >= known {
            break;
        }
        let found = candidate.smallest(known);
        least = found.filter(|s| s.bytes() < known).or(least);
    }
    least.expect("every level has its whole plans")
}

/// Strategies that do without memory that only saves time; what saves least goes first.
fn frugal(fastest: Strategy, turns: &[Turn]) -> Vec<Strategy> {
    let mut strategies = Vec::new();
    let mut how = fastest;
    if how.keep_steady && turns.iter().any(|t| !t.graph.kept().is_empty()) {
        how.keep_steady = false;
        strategies.push(how);
    }
    let expands = |rows: usize| {
        let mut graphs = turns.iter().map(|t| &t.graph);
        let limits = &fastest.limits;
        graphs.any(|g| g.ops().any(|(n, _)| g.prepared_bytes(n, rows, limits) > 0))
    };
    if how.expand_rows.is_some_and(expands) {
        how.expand_rows = None;
        strategies.push(how);
    }
    strategies
}

/// Strategies that keep values on the host: idle ones, or all from some size on.
fn on_host(level: &Level<'_>) -> Vec<Strategy> {
    let graphs = || level.turns.iter().map(|t| &*t.graph);
    let sizes = |g: &Graph| g.ops().map(|(n, _)| g.bytes(n)).collect::<Vec<_>>();
    let sizes = from_the_largest(graphs().flat_map(sizes));
    let shared = graphs().flat_map(Graph::shared);
    let shared = from_the_largest(shared.map(|s| s.bytes));
    let idle = |(ops, above)| Strategy {
        host_idle: Some(Idle { ops, above }),
        ..level.how
    };
    let some_idle = IDLE_OPS.into_iter();
    let some_idle = some_idle.flat_map(|ops| shared.iter().map(move |&above| (ops, above)));
    // Graphs that share nothing have few idle values, and not the largest.
    let all_idle = shared.last().map(|&above| Idle {
        ops: IDLE_OPS[IDLE_OPS.len() - 1],
        above,
    });
    let from_size = sizes.into_iter().map(|size| Strategy {
        host_above: size.min(level.how.host_above),
        host_idle: all_idle,
        ..level.how
    });
    some_idle.map(idle).chain(from_size).collect()
}

/// The different sizes that are worth keeping on the host.
fn from_the_largest(sizes: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut sizes: Vec<usize> = sizes.filter(|&bytes| bytes >= MIN_HOST).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests;
