//! From a graph to a plan: every value's place in one arena, every op's steps, and what that needs.
//!
//! Lifetimes follow the order of recording. Values that are the same bytes (reshapes, in-place
//! results) share a buffer; buffers that are never alive together share memory.

mod arena;
mod lifetimes;

use crate::{Cost, Graph, Node, Op};
use std::ops::Range;

/// Limits and preferences of the device a plan is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanOptions {
    /// Offsets in the arena are multiples of this.
    pub align: usize,
    /// The most bytes one operand of one step may cover.
    pub max_binding: usize,
    /// The arena is cut into pages of this size; no value crosses a page.
    pub page: usize,
    /// The most bytes for weights and arena together.
    pub budget: Option<usize>,
    /// A step does at most about this much arithmetic (driver watchdogs).
    pub max_step_flops: Option<f64>,
    /// Conv and linear may write over their residual operand.
    pub residual_in_place: bool,
}

impl Default for PlanOptions {
    fn default() -> Self {
        PlanOptions {
            align: 256,
            max_binding: usize::MAX,
            page: usize::MAX,
            budget: None,
            max_step_flops: None,
            residual_in_place: true,
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
    /// A parameter, or a view of one ([`Graph::root`] tells which).
    Param,
    /// Fused away or never used.
    Nowhere,
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
    places: Vec<Place>,
    scratch: Vec<Span>,
    arena_bytes: usize,
    peak_node: Option<Node>,
    largest_binding: usize,
    weight_bytes: usize,
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
        "the plan needs {need} bytes ({weights} of weights, {arena} of activations, most of them at {op}), the budget is {budget}"
    )]
    OverBudget {
        need: usize,
        weights: usize,
        arena: usize,
        op: String,
        budget: usize,
    },
}

impl Plan {
    pub fn new(graph: Graph, mut options: PlanOptions) -> Result<Plan, PlanError> {
        options.page -= options.page % options.align;
        let mut steps = Vec::new();
        let mut largest_binding = 0;
        for (node, op) in graph.ops() {
            if matches!(op, Op::Reshape(_)) {
                continue;
            }
            largest_binding = largest_binding.max(cut(&graph, node, &options, &mut steps)?);
        }
        let buffers = lifetimes::buffers(&graph, &options);
        if let Some(large) = buffers.iter().find(|b| b.bytes > options.page) {
            let (op, bytes) = (graph.op_label(large.owner), large.bytes);
            return Err(PlanError::ValueTooLarge {
                op,
                bytes,
                page: options.page,
            });
        }
        let packed = arena::pack(&buffers, &options);
        let weight_bytes = graph.params().map(|(_, p)| p.bytes()).sum();
        let mut plan = Plan {
            places: vec![Place::Nowhere; graph.len()],
            scratch: vec![Span::default(); graph.len()],
            arena_bytes: packed.bytes,
            peak_node: lifetimes::peak(&graph, &buffers),
            largest_binding,
            weight_bytes,
            steps,
            options,
            graph,
        };
        for (buffer, &offset) in buffers.iter().zip(&packed.offsets) {
            for &n in &buffer.values {
                let bytes = plan.graph.bytes(n);
                plan.places[n.index()] = Place::Arena(Span { offset, bytes });
            }
            if let Some(n) = buffer.scratch_of {
                plan.scratch[n.index()] = Span {
                    offset,
                    bytes: buffer.bytes,
                };
            }
        }
        for (n, _) in plan.graph.values() {
            if plan.graph.is_param(n) {
                plan.places[n.index()] = Place::Param;
            }
        }
        plan.check_budget()?;
        Ok(plan)
    }

    fn check_budget(&self) -> Result<(), PlanError> {
        let need = self.weight_bytes + self.arena_bytes;
        match self.options.budget {
            Some(budget) if need > budget => Err(PlanError::OverBudget {
                need,
                weights: self.weight_bytes,
                arena: self.arena_bytes,
                op: self.peak_op(),
                budget,
            }),
            _ => Ok(()),
        }
    }

    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Steps in the order they run.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub fn place(&self, node: Node) -> Place {
        self.places[node.index()]
    }

    /// Where a value lies in the arena; `None` for parameters and values that are not there.
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
        self.arena_bytes
    }

    /// Bytes of one operand of one step, at most.
    pub fn largest_binding(&self) -> usize {
        self.largest_binding
    }

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

/// Cuts one op into the fewest steps of equal rows that respect the limits; gives the largest binding.
fn cut(
    graph: &Graph,
    node: Node,
    options: &PlanOptions,
    steps: &mut Vec<Step>,
) -> Result<usize, PlanError> {
    let rows = graph.op_rows(node);
    let limit = options.max_binding;
    // A binding starts at an aligned offset below its first byte.
    let slack = |start: usize| start % options.align;
    let largest = |each: usize| {
        (0..rows)
            .step_by(each.max(1))
            .flat_map(|r| graph.uses(node, &(r..(r + each).min(rows))))
            .map(|u| u.bytes.len() + slack(u.bytes.start))
            .chain([graph.scratch_bytes(node)])
            .max()
            .unwrap_or(0)
    };
    let mut each = rows;
    if let Some(max) = options.max_step_flops {
        let share = (max / graph.cost(node).flops).min(1.0);
        each = ((rows as f64 * share) as usize).clamp(1, rows.max(1));
    }
    let mut bytes = largest(each);
    if bytes > limit {
        // Invariant: `fits` rows fit (once known), `each` rows do not.
        let (mut fits, mut over) = (0, each);
        while over - fits > 1 {
            let middle = fits.midpoint(over);
            if largest(middle) <= limit {
                fits = middle;
            } else {
                over = middle;
            }
        }
        if fits == 0 {
            return Err(PlanError::BindingTooLarge {
                op: graph.op_label(node),
                bytes: largest(1),
                limit,
            });
        }
        let n_steps = rows.div_ceil(fits);
        each = rows.div_ceil(n_steps);
        bytes = largest(each);
    }
    for start in (0..rows).step_by(each.max(1)) {
        let end = (start + each).min(rows);
        steps.push(Step {
            node,
            rows: start..end,
            last: end == rows,
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
