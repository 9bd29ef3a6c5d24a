//! From a graph to a plan: every value's place in one arena, every op's steps, and what that needs.
//!
//! Lifetimes follow the order of recording, behind what stays between runs. Values that are the
//! same bytes (reshapes, in-place results) share a buffer; buffers that are never alive together
//! share memory. [`Search`] finds the quickest plan that fits a budget. `docs/words.md` explains
//! the words used here (arena, page, window, slot, ring, steady, carried, shared) with a drawing.

mod arena;
mod cut;
mod draft;
mod error;
mod homes;
mod lifetimes;
mod limits;
mod order;
mod ring;
mod search;
mod stream;
mod time;
mod window;

use crate::{Cost, Graph, Node, Use};
pub use arena::ArenaSize;
use draft::Draft;
pub use error::{Mib, PlanError};
pub use homes::Home;
use limits::Strategy;
pub use limits::{Budget, Limits};
use ring::Ring;
pub use search::{Search, Turn};
use std::ops::Range;
use std::sync::Arc;
pub use stream::{Fetch, Memory};
pub use time::{Load, Rates, Time};
pub use window::{Traffic, Transfer};

/// A piece of the arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub offset: usize,
    pub bytes: usize,
}

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Arena(Span),
    /// The value lies in the arena, over several pages of its own: rows pass through windows.
    Pages(Span),
    /// The value lies on the host: rows pass through windows.
    Host(Span),
    /// A parameter, or a view of one ([`Graph::root`] tells which).
    Param,
    /// Fused away or never used.
    Nowhere,
}

impl Place {
    /// Where a value is kept that passes through windows.
    pub fn home(self) -> Option<(Home, Span)> {
        match self {
            Place::Pages(span) => Some((Home::Pages, span)),
            Place::Host(span) => Some((Home::Host, span)),
            Place::Arena(_) | Place::Param | Place::Nowhere => None,
        }
    }
}

/// Some rows of one op; a whole op is one step unless a limit cut it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub node: Node,
    pub rows: Range<usize>,
    /// The op's last step: grouped statistics are final after it.
    pub last: bool,
}

/// A graph ready to run.
#[derive(Clone, Debug)]
pub struct Plan {
    graph: Arc<Graph>,
    steps: Vec<Step>,
    steady_steps: usize,
    places: Vec<Place>,
    scratch: Vec<Span>,
    /// The windows of each op: one per operand and one for the result; empty where it has none.
    windows: Vec<Vec<Option<Span>>>,
    size: ArenaSize,
    peak_node: Option<Node>,
    largest_binding: usize,
    weight_bytes: usize,
    /// Parameters that are not there all the time.
    ring: Ring,
    strategy: Strategy,
}

impl Plan {
    /// The quickest plan on a device with these limits, whatever memory it takes; [`Search`] keeps
    /// to a budget.
    pub fn new(graph: impl Into<Arc<Graph>>, limits: &Limits) -> Result<Plan, PlanError> {
        let how = Strategy::fastest(limits);
        let draft = Draft::new(graph.into(), &how);
        draft.plan(&how).map_err(|misfit| misfit.refusal(&how))
    }

    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Steps in the order they run.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How many of the first steps make values that stay until a kept input is written: a run may
    /// begin behind them when they ran since.
    pub fn steady_steps(&self) -> usize {
        self.steady_steps
    }

    /// Whether an input keeps its value between runs, because [`Graph::keep`] says so and
    /// there is memory for it; others are written before each run.
    pub fn keeps(&self, input: Node) -> bool {
        self.strategy.keep_steady && self.graph.kept().contains(&input)
    }

    pub fn place(&self, node: Node) -> Place {
        self.places[node.index()]
    }

    /// Where a whole value lies in the arena that steps address; `None` for parameters, values that
    /// pass through windows and values that are not there. A step finds its operands with
    /// [`Plan::locate`].
    pub fn span(&self, node: Node) -> Option<Span> {
        match self.place(node) {
            Place::Arena(span) => Some(span),
            _ => None,
        }
    }

    /// Scratch of an op during its steps; empty for most.
    pub fn scratch(&self, node: Node) -> Span {
        self.scratch[node.index()]
    }

    /// Bytes of the arena: what a session allocates for activations, no more and no less.
    pub fn arena_bytes(&self) -> usize {
        self.size.bytes()
    }

    /// Bytes of the arena that steps address: values, scratch and windows.
    pub fn direct_bytes(&self) -> usize {
        self.size.direct
    }

    /// Bytes of the arena for values larger than a page.
    pub fn pages_bytes(&self) -> usize {
        self.size.pages
    }

    /// Bytes of values kept on the host.
    pub fn host_bytes(&self) -> usize {
        self.size.host
    }

    /// Whether all values and parameters are on the device while it runs.
    pub fn is_on_device(&self) -> bool {
        self.size.host == 0 && self.fetches().is_empty()
    }

    /// Arena offset of the first byte of `used`, the `i`-th of [`Graph::uses`] of a step of `node`:
    /// the value's own place, or the window its rows were brought into. `None` for parameters.
    pub fn locate(&self, node: Node, i: usize, used: &Use) -> Option<usize> {
        match self.place(used.node) {
            Place::Arena(span) => Some(span.offset + used.bytes.start),
            Place::Pages(_) | Place::Host(_) => {
                let window = (*self.windows[node.index()].get(i)?)?;
                // Keeps the alignment the bytes have in the whole value.
                Some(window.offset + used.bytes.start % self.limits().align)
            }
            _ => None,
        }
    }

    /// Bytes of one operand of one step, at most.
    pub fn largest_binding(&self) -> usize {
        self.largest_binding
    }

    /// Bytes of all parameters, wherever they are.
    pub fn weight_bytes(&self) -> usize {
        self.weight_bytes
    }

    /// The op during which most bytes are alive.
    pub fn peak_op(&self) -> String {
        self.peak_node
            .map_or_else(|| "no op".to_owned(), |n| self.graph.op_label(n))
    }

    /// The limits of the device it is for.
    pub fn limits(&self) -> &Limits {
        &self.strategy.limits
    }

    /// The share of its op's cost that a step has.
    pub fn step_cost(&self, step: &Step) -> Cost {
        let share = step.rows.len() as f64 / self.graph.op_rows(step.node).max(1) as f64;
        let cost = self.graph.cost(step.node);
        Cost {
            flops: cost.flops * share,
            bytes: cost.bytes * share,
        }
    }
}

#[cfg(test)]
mod tests;
