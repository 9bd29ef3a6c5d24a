//! A plan within the device's budget: whole if it fits, else with weights streamed or large values
//! kept outside.

use crate::EngineError;
use nino_graph::{Device, Graph, Plan, PlanError, PlanOptions, rewrite};
use std::sync::Arc;

/// What limits a request's plans beside the device itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    /// The most bytes for one plan.
    pub(crate) cap: Option<usize>,
    /// Bytes the request holds outside its plans: they count where the device's memory is the
    /// program's own.
    pub(crate) beside: usize,
}

impl Room {
    /// The device's options within this room.
    pub(crate) fn options(self, device: &dyn Device) -> PlanOptions {
        let own = device.plan_options();
        let reserve = match own.reserve {
            0 => 0,
            reserve => reserve + self.beside,
        };
        let cap = self.cap.map(|cap| cap.saturating_add(reserve));
        PlanOptions {
            budget: own.budget.into_iter().chain(cap).min(),
            reserve,
            ..own
        }
    }

    /// What is left for plans; `None` without a budget.
    pub(crate) fn bytes(self, device: &dyn Device) -> Option<usize> {
        let options = self.options(device);
        let budget = options.budget?;
        Some(budget.saturating_sub(options.reserve))
    }
}

/// For a graph whose weights are its own.
pub(crate) fn fit(device: &dyn Device, graph: &Graph) -> Result<Arc<Plan>, EngineError> {
    fit_within(device, graph, Room::default())
}

pub(crate) fn fit_within(
    device: &dyn Device,
    graph: &Graph,
    room: Room,
) -> Result<Arc<Plan>, EngineError> {
    let graph = rewrite(graph, device.rewrites());
    Ok(Arc::new(Plan::within(&graph, room.options(device))?))
}

/// For one of several graphs that share weights: those stay on the device.
pub(crate) fn fit_shared(
    device: &dyn Device,
    graph: &Graph,
    room: Room,
) -> Result<Arc<Plan>, EngineError> {
    let graph = rewrite(graph, device.rewrites());
    let options = room.options(device);
    let Some(left) = room.bytes(device) else {
        return Ok(Arc::new(Plan::new(graph, options)?));
    };
    let weights: usize = graph.params().map(|(_, p)| p.bytes()).sum();
    let limits = PlanOptions {
        budget: None,
        ..options
    };
    let mut plan = Plan::fit(&graph, limits, left.saturating_sub(weights));
    if let (Err(PlanError::OverBudget { budget, .. }), Some(all)) = (&mut plan, options.budget) {
        // Weights alone may be more than it.
        *budget = all;
    }
    Ok(Arc::new(plan?))
}

/// For plans of one network that run one after the other: all stream what the tightest does, so that one
/// load of weights serves them and none finds more on the device than it planned for.
pub(crate) fn share_weights(plans: &mut [&mut Arc<Plan>]) {
    let weights = |p: &Plan| p.device_bytes() - p.arena_bytes();
    let tightest = plans.iter().min_by_key(|p| weights(p));
    let Some(tightest) = tightest.map(|p| Arc::clone(p)) else {
        return;
    };
    for plan in plans.iter_mut().filter(|p| !Arc::ptr_eq(p, &tightest)) {
        **plan = Arc::new(Plan::clone(plan).streaming_like(&tightest));
    }
}
