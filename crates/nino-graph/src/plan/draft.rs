//! From a graph to a plan by one strategy: buffers, their homes, steps, and offsets in the arena.

use super::arena::{self, ArenaSize, Packed};
use super::cut::{self, MAX_STEPS, Need, Steps};
use super::homes::{Home, Homes};
use super::lifetimes::{self, Buffer, Holds, alive};
use super::limits::{Limits, Strategy};
use super::order::Order;
use super::ring::Ring;
use super::window::{window_buffers, windows};
use super::{Place, Plan, PlanError, Span, Step};
use crate::{Graph, Node, Op};
use std::sync::Arc;

/// A graph's order and buffers. They depend on what stays between runs and on scratch, not on where
/// a strategy keeps values: one draft serves several plans.
pub(super) struct Draft {
    pub(super) graph: Arc<Graph>,
    pub(super) order: Order,
    buffers: Vec<Buffer>,
}

/// Why a strategy gives no plan.
#[derive(Debug)]
pub(super) enum Misfit {
    /// The strategy's windows are too small: an op needs so many bytes.
    Window { op: String, need: usize },
    /// No strategy helps.
    Limit(PlanError),
}

impl Misfit {
    /// The refusal, where no other strategy is tried.
    pub(super) fn refusal(self, how: &Strategy) -> PlanError {
        match self {
            Misfit::Window { op, need } => PlanError::BindingTooLarge {
                op,
                bytes: need,
                limit: how.window,
            },
            Misfit::Limit(error) => error,
        }
    }
}

/// A graph's ops cut into steps.
struct Cuts {
    homes: Homes,
    steps: Vec<Step>,
    largest_binding: usize,
}

/// Why ops could not be cut enough.
enum TooLarge {
    /// Attentions that can still be cut by keys.
    Keys(Vec<Node>),
    Op(Misfit),
}

impl Draft {
    pub(super) fn new(graph: Arc<Graph>, how: &Strategy) -> Draft {
        let order = Order::new(&graph, how);
        Draft {
            buffers: lifetimes::buffers(&graph, &order, how),
            order,
            graph,
        }
    }

    /// No plan by this strategy has a smaller arena: what is alive at one time, without windows.
    pub(super) fn least_arena(&self, how: &Strategy) -> ArenaSize {
        let most = |home: Option<Home>| {
            let there = self.buffers.iter().filter(|b| how.home(b) == home);
            let shared: usize = there
                .clone()
                .filter_map(|b| b.shared().map(|_| b.bytes))
                .sum();
            let alive = alive(there, self.graph.len());
            alive.into_iter().max().unwrap_or(0).max(shared)
        };
        ArenaSize {
            direct: most(None),
            pages: most(Some(Home::Pages)),
            host: most(Some(Home::Host)),
        }
    }

    /// Which values are kept elsewhere, and where.
    pub(super) fn homes(&self, how: &Strategy) -> Vec<Option<Home>> {
        let mut homes = vec![None; self.graph.len()];
        for buffer in &self.buffers {
            let home = how.home(buffer);
            buffer.nodes().iter().for_each(|n| homes[n.index()] = home);
        }
        homes
    }

    pub(super) fn plan(&self, how: &Strategy) -> Result<Plan, Misfit> {
        let mut graph = Arc::clone(&self.graph);
        let mut by_keys: Option<Draft> = None;
        loop {
            let draft = by_keys.as_ref().unwrap_or(self);
            match draft.cut(how) {
                Ok(cuts) => return draft.pack(cuts, how),
                Err(TooLarge::Op(misfit)) => return Err(misfit),
                // All keys at once are too many for these.
                Err(TooLarge::Keys(nodes)) => {
                    let cut = Arc::make_mut(&mut graph);
                    for node in nodes {
                        cut.cut_keys(node);
                    }
                    by_keys = Some(Draft::new(Arc::clone(&graph), how));
                }
            }
        }
    }

    fn cut(&self, how: &Strategy) -> Result<Cuts, TooLarge> {
        let graph = &self.graph;
        let homes = Homes::new(&self.buffers, graph.len(), how);
        let mut steps = Steps::default();
        let mut largest_binding = 0;
        let mut keys = Vec::new();
        let mut window: Option<(usize, Node)> = None;
        for node in self.order.ops(graph) {
            match cut::steps(graph, node, how, &homes.windowed, &mut steps) {
                Ok(need) => largest_binding = largest_binding.max(need.binding),
                Err(_) if matches!(graph.op(node), Some(Op::Attention(o)) if !o.by_keys) => {
                    keys.push(node);
                }
                Err(Need { binding, .. }) if binding > how.limits.max_binding => {
                    return Err(TooLarge::Op(Misfit::Limit(PlanError::BindingTooLarge {
                        op: graph.op_label(node),
                        bytes: binding,
                        limit: how.limits.max_binding,
                    })));
                }
                Err(need) => window = window.max(Some((need.window, node))),
            }
        }
        match window {
            _ if !keys.is_empty() => Err(TooLarge::Keys(keys)),
            Some((need, node)) => Err(TooLarge::Op(Misfit::Window {
                op: graph.op_label(node),
                need,
            })),
            None if steps.count > MAX_STEPS => Err(TooLarge::Op(too_many(steps.count, how))),
            None => Ok(Cuts {
                homes,
                steps: steps.made,
                largest_binding,
            }),
        }
    }

    fn pack(&self, cuts: Cuts, how: &Strategy) -> Result<Plan, Misfit> {
        let (graph, limits) = (&self.graph, how.limits);
        let Cuts {
            homes,
            steps,
            largest_binding,
        } = cuts;
        let windows = windows(graph, &steps, &homes.windowed, limits.align);
        let mut direct = homes.direct;
        direct.extend(window_buffers(&self.order, &windows));
        if let Some(error) = larger_than_a_page(graph, &direct, limits.page) {
            return Err(Misfit::Limit(error));
        }
        let one_page = Limits {
            page: usize::MAX,
            ..limits
        };
        let packed = arena::pack(&direct, &limits);
        let [pages, host] = [&homes.pages, &homes.host].map(|b| arena::pack(b, &one_page));
        let alive = alive(direct.iter().chain(&homes.pages), graph.len());
        let mut plan = Plan {
            places: vec![Place::Nowhere; graph.len()],
            scratch: vec![Span::default(); graph.len()],
            windows: windows.iter().map(|w| vec![None; w.len()]).collect(),
            size: ArenaSize {
                direct: packed.bytes,
                pages: pages.bytes,
                host: host.bytes,
            },
            peak_node: lifetimes::peak(graph, &self.order, &alive),
            largest_binding,
            weight_bytes: graph.params().map(|(_, p)| p.bytes()).sum(),
            ring: Ring::default(),
            steady_steps: steps
                .iter()
                .filter(|s| self.order.is_steady(s.node))
                .count(),
            steps,
            strategy: *how,
            graph: Arc::clone(graph),
        };
        plan.put(&direct, &packed, Place::Arena);
        plan.put(&homes.pages, &pages, Place::Pages);
        plan.put(&homes.host, &host, Place::Host);
        for (n, _) in graph.values().filter(|(n, _)| graph.is_param(*n)) {
            plan.places[n.index()] = Place::Param;
        }
        Ok(plan)
    }
}

/// Larger windows mean fewer steps, where there are windows at all.
fn too_many(steps: usize, how: &Strategy) -> Misfit {
    if how.window < how.limits.window {
        let need = how.window.saturating_mul(2);
        return Misfit::Window {
            op: "all ops together".to_owned(),
            need,
        };
    }
    Misfit::Limit(PlanError::TooManySteps {
        steps,
        most: MAX_STEPS,
    })
}

/// Scratch and windows are each within one page.
fn larger_than_a_page(graph: &Graph, buffers: &[Buffer], page: usize) -> Option<PlanError> {
    buffers.iter().find(|b| b.bytes > page).map(|b| {
        let op = match b.holds {
            Holds::Scratch(op) | Holds::Window { op, .. } => graph.op_label(op),
            Holds::Values(_) | Holds::Foreign(_) => "a value".to_owned(),
        };
        PlanError::ValueTooLarge {
            op,
            bytes: b.bytes,
            page,
        }
    })
}

impl Plan {
    fn put(&mut self, buffers: &[Buffer], packed: &Packed, place: fn(Span) -> Place) {
        for (buffer, &offset) in buffers.iter().zip(&packed.offsets) {
            let span = |bytes| Span { offset, bytes };
            match &buffer.holds {
                Holds::Values(values) => {
                    for n in &values.nodes {
                        self.places[n.index()] = place(span(self.graph.bytes(*n)));
                    }
                }
                Holds::Scratch(op) => self.scratch[op.index()] = span(buffer.bytes),
                Holds::Window { op, operand } => {
                    self.windows[op.index()][*operand] = Some(span(buffer.bytes));
                }
                Holds::Foreign(_) => {}
            }
        }
    }
}
