//! From a graph to a plan: every value's place in one arena, every op's steps, and what that needs.
//!
//! Lifetimes follow the order of recording, behind what stays between runs. Values that are the same bytes (reshapes, in-place
//! results) share a buffer; buffers that are never alive together share memory.

mod arena;
mod cut;
mod homes;
mod lifetimes;
mod order;
mod ring;
mod spill;
mod stream;

use crate::{Cost, Graph, Node, Use};
pub use arena::ArenaSize;
use arena::Packed;
use cut::Need;
use homes::Homes;
use lifetimes::Buffer;
use order::Order;
use ring::{Ring, SLOTS};
pub use spill::{Outside, Transfer};
use std::ops::Range;
pub use stream::Fetch;

/// Limits and preferences of the device a plan is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanOptions {
    /// Offsets in the arena are multiples of this.
    pub align: usize,
    /// The most bytes one operand of one step may cover.
    pub max_binding: usize,
    /// The arena is cut into pages of this size. A value that is larger lies across pages of its own and
    /// passes through the others by rows.
    pub page: usize,
    /// The most bytes for weights, arena and `reserve` together; [`Plan::within`] searches for a plan
    /// that fits.
    pub budget: Option<usize>,
    /// Bytes of the budget that are in no plan: the program itself, where its memory is the device's.
    pub reserve: usize,
    /// A step does at most about this much arithmetic (driver watchdogs).
    pub max_step_flops: Option<f64>,
    /// Conv and linear may write over their residual operand.
    pub residual_in_place: bool,
    /// Values of at least this many bytes stay outside the arena and pass through it by rows.
    pub spill_above: Option<usize>,
    /// The same for values that are idle.
    pub spill_idle: Option<Idle>,
    /// The most bytes one step may bring from outside, or from across pages.
    pub window: usize,
    /// How many times the largest fetch of streamed parameters takes memory at once: its two slots,
    /// and what it needs on its way there.
    pub fetch_copies: usize,
    /// Block weights are expanded to f16 in scratch before the product that wants them, where at least
    /// this many 16-bit rows or pixels share them.
    pub expand_rows: Option<usize>,
    /// What is computed from kept inputs and parameters alone has its place for the whole plan, and later
    /// runs find it there.
    pub keep_steady: bool,
}

/// Values that take their place for long and are seldom used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// From a value's first op to its last. What graphs share ([`Graph::share`]) is there all the time.
    pub ops: usize,
    /// Of at least this many bytes.
    pub above: usize,
}

impl PlanOptions {
    /// Bytes an op needs beside its operands and result.
    fn scratch_bytes(&self, graph: &Graph, node: Node) -> usize {
        let expanded = self
            .expand_rows
            .map_or(0, |least| graph.expanded_bytes(node, least));
        graph.scratch_bytes(node).max(expanded)
    }

    /// The same with less memory that only saves time, if there is any of it: what saves least goes
    /// first.
    fn frugal(self, graph: &Graph) -> Option<PlanOptions> {
        if self.keep_steady && !graph.kept().is_empty() {
            return Some(PlanOptions {
                keep_steady: false,
                ..self
            });
        }
        self.expand_rows.map(|_| PlanOptions {
            expand_rows: None,
            ..self
        })
    }
}

impl Default for PlanOptions {
    fn default() -> Self {
        PlanOptions {
            align: 256,
            max_binding: usize::MAX,
            page: usize::MAX,
            budget: None,
            reserve: 0,
            max_step_flops: None,
            residual_in_place: true,
            spill_above: None,
            spill_idle: None,
            window: usize::MAX,
            fetch_copies: SLOTS,
            expand_rows: None,
            keep_steady: true,
        }
    }
}

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
    /// In the arena, across pages that are for such values: each step brings in the rows it needs.
    Across(Span),
    /// Outside the arena: each step brings in the rows it needs.
    Host(Span),
    /// A parameter, or a view of one ([`Graph::root`] tells which).
    Param,
    /// Fused away or never used.
    Nowhere,
}

impl Place {
    /// Where a value is kept that passes through windows.
    pub fn outside(self) -> Option<(Outside, Span)> {
        match self {
            Place::Across(span) => Some((Outside::Across, span)),
            Place::Host(span) => Some((Outside::Host, span)),
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
    graph: Graph,
    steps: Vec<Step>,
    steady_steps: usize,
    places: Vec<Place>,
    scratch: Vec<Span>,
    /// For each op, a window per operand and one for the result; empty where nothing is outside.
    windows: Vec<Vec<Option<Span>>>,
    paged_bytes: usize,
    across_bytes: usize,
    host_bytes: usize,
    peak_node: Option<Node>,
    largest_binding: usize,
    weight_bytes: usize,
    /// Parameters that are not there all the time.
    ring: Ring,
    options: PlanOptions,
}

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(
        "{op} must bind {bytes} bytes at once and cannot be cut further; the device binds at most {limit}"
    )]
    BindingTooLarge {
        op: String,
        bytes: usize,
        limit: usize,
    },
    #[error("{op} makes a value of {bytes} bytes; one buffer of the device holds at most {page}")]
    ValueTooLarge {
        op: String,
        bytes: usize,
        page: usize,
    },
    #[error(
        "the plan needs {need} bytes ({weights} of weights, {arena} of activations, most of them at {op}{}), the budget is {budget}",
        beside(*reserve)
    )]
    OverBudget {
        need: usize,
        weights: usize,
        arena: usize,
        op: String,
        reserve: usize,
        budget: usize,
    },
}

fn beside(reserve: usize) -> String {
    match reserve {
        0 => String::new(),
        bytes => format!(", and {bytes} for the program itself"),
    }
}

/// A graph's ops in order, cut into steps, and what that was decided by.
struct Cuts {
    order: Order,
    homes: Homes,
    steps: Vec<Step>,
    largest_binding: usize,
}

impl Cuts {
    /// Or the op that cannot be cut enough, and what it needs.
    fn new(graph: &Graph, options: &PlanOptions) -> Result<Cuts, (Node, Need)> {
        let order = Order::new(graph, options);
        let buffers = lifetimes::buffers(graph, &order, options);
        let homes = Homes::new(graph, buffers, options);
        let mut steps = Vec::new();
        let mut largest_binding = 0;
        for node in order.ops(graph) {
            let binding = cut::steps(graph, node, options, &homes.passes, &mut steps);
            largest_binding = largest_binding.max(binding.map_err(|need| (node, need))?);
        }
        Ok(Cuts {
            order,
            homes,
            steps,
            largest_binding,
        })
    }
}

impl Plan {
    pub fn new(mut graph: Graph, mut options: PlanOptions) -> Result<Plan, PlanError> {
        options.page -= options.page % options.align;
        let Cuts {
            order,
            homes,
            steps,
            largest_binding,
        } = loop {
            match Cuts::new(&graph, &options) {
                Ok(cuts) => break cuts,
                // All keys at once are too many for an attention that was not cut by them yet.
                Err((node, _)) if graph.cut_keys(node) => {}
                Err((node, need)) => return Err(need.too_large(graph.op_label(node), &options)),
            }
        };
        let windows = spill::windows(&graph, &steps, &homes.passes, options.align);
        let Homes {
            mut paged,
            across,
            host,
            ..
        } = homes;
        paged.extend(spill::window_buffers(&order, &windows));
        if let Some(large) = paged.iter().find(|b| b.bytes > options.page) {
            let (op, bytes) = (graph.op_label(large.owner), large.bytes);
            return Err(PlanError::ValueTooLarge {
                op,
                bytes,
                page: options.page,
            });
        }
        let packed = arena::pack(&paged, &options);
        let one_page = PlanOptions {
            page: usize::MAX,
            ..options
        };
        let [packed_across, packed_host] = [&across, &host].map(|b| arena::pack(b, &one_page));
        let weight_bytes = graph.params().map(|(_, p)| p.bytes()).sum();
        let mut plan = Plan {
            places: vec![Place::Nowhere; graph.len()],
            scratch: vec![Span::default(); graph.len()],
            windows: windows.iter().map(|w| vec![None; w.len()]).collect(),
            paged_bytes: packed.bytes,
            across_bytes: packed_across.bytes,
            host_bytes: packed_host.bytes,
            peak_node: lifetimes::peak(&graph, &order, [&paged, &across]),
            largest_binding,
            weight_bytes,
            ring: Ring::default(),
            steady_steps: steps.iter().filter(|s| order.is_steady(s.node)).count(),
            steps,
            options,
            graph,
        };
        for (buffer, &offset) in paged.iter().zip(&packed.offsets) {
            let span = Span {
                offset,
                bytes: buffer.bytes,
            };
            if let Some(n) = buffer.scratch_of {
                plan.scratch[n.index()] = span;
            }
            if let Some((n, i)) = buffer.window_of {
                plan.windows[n.index()][i] = Some(span);
            }
        }
        plan.put(&paged, &packed, Place::Arena);
        plan.put(&across, &packed_across, Place::Across);
        plan.put(&host, &packed_host, Place::Host);
        for (n, _) in plan.graph.values() {
            if plan.graph.is_param(n) {
                plan.places[n.index()] = Place::Param;
            }
        }
        plan.check_budget()?;
        Ok(plan)
    }

    fn put(&mut self, buffers: &[Buffer], packed: &Packed, place: fn(Span) -> Place) {
        for (buffer, &offset) in buffers.iter().zip(&packed.offsets) {
            for &n in &buffer.values {
                let bytes = self.graph.bytes(n);
                self.places[n.index()] = place(Span { offset, bytes });
            }
        }
    }

    fn check_budget(&self) -> Result<(), PlanError> {
        match self.options.budget {
            Some(budget) if self.needed_bytes() > budget => Err(self.over_budget(budget)),
            _ => Ok(()),
        }
    }

    fn over_budget(&self, budget: usize) -> PlanError {
        PlanError::OverBudget {
            need: self.needed_bytes(),
            weights: self.weight_bytes,
            arena: self.arena_bytes(),
            op: self.peak_op(),
            reserve: self.options.reserve,
            budget,
        }
    }

    fn needed_bytes(&self) -> usize {
        self.weight_bytes + self.arena_bytes() + self.options.reserve
    }

    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Steps in the order they run.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How many of the first steps make values that stay until a kept input is written: a run may begin
    /// behind them when they ran since.
    pub fn steady_steps(&self) -> usize {
        self.steady_steps
    }

    /// Whether an input keeps its value between runs, because [`Graph::keep`] says so and
    /// there is memory for it; others are written before each run.
    pub fn keeps(&self, input: Node) -> bool {
        self.options.keep_steady && self.graph.kept().contains(&input)
    }

    pub fn place(&self, node: Node) -> Place {
        self.places[node.index()]
    }

    /// Where a whole value lies in the arena's pages; `None` for parameters, values that pass through them
    /// and values that are not there. A step finds its operands with [`Plan::locate`].
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
        self.paged_bytes + self.across_bytes
    }

    /// Bytes of the arena's pages that values do not cross.
    pub fn paged_bytes(&self) -> usize {
        self.paged_bytes
    }

    /// Bytes of the arena for values larger than a page.
    pub fn across_bytes(&self) -> usize {
        self.across_bytes
    }

    /// Bytes kept outside the arena.
    pub fn host_bytes(&self) -> usize {
        self.host_bytes
    }

    /// Arena offset of the first byte of `used`, the `i`-th of [`Graph::uses`] of a step of `node`:
    /// the value's own place, or the window its rows were brought into. `None` for parameters.
    pub fn locate(&self, node: Node, i: usize, used: &Use) -> Option<usize> {
        match self.place(used.node) {
            Place::Arena(span) => Some(span.offset + used.bytes.start),
            Place::Across(_) | Place::Host(_) => {
                let window = (*self.windows[node.index()].get(i)?)?;
                // Keeps the alignment the bytes have in the whole value.
                Some(window.offset + used.bytes.start % self.options.align)
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

    pub fn options(&self) -> &PlanOptions {
        &self.options
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
