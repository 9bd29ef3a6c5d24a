//! One candidate of the search: what it takes at least, without planning it, and its plans.

use super::super::draft::{Draft, Misfit};
use super::super::homes::Home;
use super::super::limits::Strategy;
use super::super::ring::Streams;
use super::super::time::{Load, Rates, Time};
use super::super::{ArenaSize, Plan, PlanError};
use super::{Search, Turn};
use crate::{Graph, Node, Work};
use std::sync::Arc;

/// Keeping less than this on the host frees nothing worth its traffic, and smaller windows free
/// nothing worth their steps.
pub(super) const MIN_HOST: usize = 64 * 1024;

/// Windows below this share of what else is in the arena change its size by little.
const SMALLEST_WINDOW: usize = 16;

/// The graphs with one choice of what stays between runs and of scratch.
pub(super) struct Level<'a> {
    pub(super) how: Strategy,
    pub(super) turns: &'a [Turn],
    rates: &'a Rates,
    drafts: Vec<Draft>,
    streams: Streams,
    /// What each graph's ops read and write.
    uses: Vec<Vec<Used>>,
    /// Arithmetic of all runs.
    work: Work,
    /// The plans with nothing on the host that the limits do not put there.
    whole: Vec<Plan>,
}

/// Bytes of a value that an op reads or writes in so many runs.
struct Used {
    node: Node,
    bytes: usize,
}

/// The graphs by one strategy with nothing on the host that the limits do not put there.
pub(super) struct Whole {
    pub(super) how: Strategy,
    drafts: Vec<Draft>,
    pub(super) plans: Vec<Plan>,
}

impl Whole {
    pub(super) fn new(how: Strategy, turns: &[Turn]) -> Result<Whole, PlanError> {
        let draft = |t: &Turn| Draft::new(Arc::clone(&t.graph), &how);
        let drafts: Vec<Draft> = turns.iter().map(draft).collect();
        let plans = plans(&drafts, &how).map_err(|misfit| misfit.refusal(&how))?;
        Ok(Whole { how, drafts, plans })
    }
}

impl<'a> Level<'a> {
    pub(super) fn new(whole: Whole, turns: &'a [Turn], search: &'a Search) -> Level<'a> {
        let Whole { how, drafts, plans } = whole;
        let graphs: Vec<&Graph> = turns.iter().map(|t| &*t.graph).collect();
        let steady = |i: usize, node: Node| drafts[i].order.is_steady(node);
        let mut work = Work::default();
        for (plan, turn) in plans.iter().zip(turns) {
            work += plan.work(turn.runs);
        }
        let uses = turns.iter().zip(&drafts).map(|(t, d)| uses(t, d));
        let streams = Streams::new(&graphs, steady, &how.limits);
        Level {
            uses: uses.collect(),
            streams: if search.allow_host {
                streams
            } else {
                streams.none()
            },
            how,
            turns,
            rates: &search.rates,
            drafts,
            work,
            whole: plans,
        }
    }

    /// Plans with as few weights streamed as `room` allows.
    fn streamed(&self, plans: Vec<Plan>, room: usize) -> Timed {
        let left = room.saturating_sub(ArenaSize::of(&plans).bytes());
        let names = self.streams.choose(left);
        let plans: Vec<Plan> = plans
            .into_iter()
            .map(|plan| plan.streaming_named(&names))
            .collect();
        let mut load = Load::default();
        for (plan, turn) in plans.iter().zip(self.turns) {
            load += plan.load(turn.runs);
        }
        let time = self.rates.time(&load);
        load.read_bytes = 0;
        Timed {
            plans,
            time,
            waits_for_weights: self.rates.seconds(&load) < time.seconds,
        }
    }
}

fn plans(drafts: &[Draft], how: &Strategy) -> Result<Vec<Plan>, Misfit> {
    drafts.iter().map(|draft| draft.plan(how)).collect()
}

fn uses(turn: &Turn, draft: &Draft) -> Vec<Used> {
    let graph = &turn.graph;
    let of = |op: Node| {
        let runs = if draft.order.is_steady(op) {
            turn.runs.min(1)
        } else {
            turn.runs
        };
        let uses = graph.uses(op, &(0..graph.op_rows(op)));
        uses.into_iter().map(move |used| Used {
            node: used.node,
            bytes: used.bytes.len() * runs,
        })
    };
    draft.order.ops(graph).flat_map(of).collect()
}

/// Plans with their time.
pub(super) struct Timed {
    pub(super) plans: Vec<Plan>,
    pub(super) time: Time,
    /// Less streaming would make them quicker.
    waits_for_weights: bool,
}

/// The least memory that a candidate does with.
#[derive(Clone, Debug)]
pub(super) struct Smallest {
    pub(super) weights: usize,
    pub(super) arena: usize,
    pub(super) peak_op: String,
}

impl Smallest {
    pub(super) fn bytes(&self) -> usize {
        self.weights + self.arena
    }
}

/// A strategy for the graphs of a level; its windows are yet to be chosen.
pub(super) struct Candidate<'l> {
    level: &'l Level<'l>,
    how: Strategy,
    /// Where values are kept, for each graph.
    homes: Vec<Vec<Option<Home>>>,
    /// It takes at least this many bytes of the device.
    pub(super) least_bytes: usize,
    /// It takes at least this long within the budget.
    pub(super) least_time: Time,
    /// No window is smaller.
    floor: usize,
}

impl<'l> Candidate<'l> {
    /// A plan with nothing on the host that the limits do not put there.
    pub(super) fn whole(level: &'l Level<'l>, room: usize) -> Candidate<'l> {
        let arena = ArenaSize::of(&level.whole);
        Candidate::within(level, level.how, arena, room)
    }

    /// A plan with some values on the host; see [`Strategy`].
    pub(super) fn new(level: &'l Level<'l>, how: Strategy, room: usize) -> Candidate<'l> {
        let each = level.drafts.iter().map(|draft| draft.least_arena(&how));
        let arena = each.fold(ArenaSize::default(), ArenaSize::max);
        Candidate::within(level, how, arena, room)
    }

    /// `arena` is the least it can be.
    fn within(level: &'l Level<'l>, how: Strategy, arena: ArenaSize, room: usize) -> Candidate<'l> {
        let homes: Vec<_> = level.drafts.iter().map(|d| d.homes(&how)).collect();
        let moved = |home: Home| -> usize {
            let uses = level.uses.iter().zip(&homes);
            let there = uses.flat_map(|(uses, homes)| {
                let kept = move |u: &&Used| homes[u.node.index()] == Some(home);
                uses.iter().filter(kept)
            });
            there.map(|u| u.bytes).sum()
        };
        let left = room.saturating_sub(arena.bytes());
        let load = Load {
            work: level.work.clone(),
            host_bytes: moved(Home::Host),
            pages_bytes: moved(Home::Pages),
            read_bytes: {
                let (graph, traffic) = level.streams.traffic(left);
                traffic.in_runs(level.turns.get(graph).map_or(0, |t| t.runs))
            },
            steps: 0,
        };
        Candidate {
            level,
            how,
            least_bytes: arena.bytes() + level.streams.least_bytes(),
            least_time: level.rates.time(&load),
            floor: MIN_HOST.max(arena.direct / SMALLEST_WINDOW),
            homes,
        }
    }

    /// Whether both keep all values at the same places.
    pub(super) fn is_like(&self, other: &Candidate<'_>) -> bool {
        self.homes == other.homes
    }

    fn is_whole(&self) -> bool {
        self.how == self.level.how
    }

    /// Its quickest plans that fit.
    pub(super) fn quickest(&self, room: usize) -> Option<Timed> {
        if self.least_bytes > room {
            return None;
        }
        let weights = self.level.streams.least_bytes();
        let mut best: Option<Timed> = None;
        self.each_plans(room, |plans| {
            if ArenaSize::of(&plans).bytes() + weights > room {
                return true;
            }
            let timed = self.level.streamed(plans, room);
            let better = best.as_ref().is_none_or(|best| timed.time < best.time);
            // Smaller windows mean more steps, and only leave more room for weights.
            let go_on = better && timed.waits_for_weights;
            if better {
                best = Some(timed);
            }
            go_on
        });
        best
    }

    /// What the smallest of its plans takes, where that is less than `most`.
    pub(super) fn smallest(&self, most: usize) -> Option<Smallest> {
        let weights = self.level.streams.least_bytes();
        let mut least: Option<Smallest> = None;
        self.each_plans(most, |plans| {
            let arena = ArenaSize::of(&plans).bytes();
            if least.as_ref().is_none_or(|least| arena < least.arena) {
                let largest = plans.iter().max_by_key(|p| p.arena_bytes());
                least = Some(Smallest {
                    weights,
                    arena,
                    peak_op: largest.map_or_else(String::new, Plan::peak_op),
                });
            }
            true
        });
        least
    }

    /// Gives its plans, from the largest windows to the smallest that do, until told to stop.
    /// Windows are halves, quarters and so on of the whole arena. Those that are much larger than
    /// `room` are left out: where their plans fit it, they are the plans of smaller windows.
    fn each_plans(&self, room: usize, mut on_plans: impl FnMut(Vec<Plan>) -> bool) {
        if self.is_whole() {
            on_plans(self.level.whole.clone());
            return;
        }
        let whole = ArenaSize::of(&self.level.whole).bytes();
        let halves = std::iter::successors(Some(whole / 2), |w| Some(w / 2));
        let halves = halves.take_while(|&w| w > self.floor);
        let mut windows: Vec<usize> = halves.filter(|&w| w / 2 < room).collect();
        windows.push(self.floor);
        let mut least = self.floor;
        for window in windows {
            if window < least {
                continue;
            }
            match self.plans(window) {
                Ok(plans) => {
                    if !on_plans(plans) {
                        return;
                    }
                }
                Err(Misfit::Window { need, .. }) => least = least.max(need),
                Err(Misfit::Limit(_)) => {}
            }
        }
        // An op needs more than the floor at once: the least window that is enough for all.
        while least > self.floor {
            match self.plans(least) {
                Ok(plans) => {
                    on_plans(plans);
                    return;
                }
                Err(Misfit::Window { need, .. }) if need > least => least = need,
                Err(_) => return,
            }
        }
    }

    fn plans(&self, window: usize) -> Result<Vec<Plan>, Misfit> {
        let how = Strategy { window, ..self.how };
        plans(&self.level.drafts, &how)
    }
}
