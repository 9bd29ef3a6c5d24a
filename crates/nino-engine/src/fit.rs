//! A plan within the device's budget: whole if it fits, else with weights streamed or large values
//! kept outside.

use crate::EngineError;
use nino_graph::{Device, Graph, Plan, PlanOptions, rewrite};
use std::sync::Arc;

/// For a graph whose weights are its own.
pub(crate) fn fit(device: &dyn Device, graph: &Graph) -> Result<Arc<Plan>, EngineError> {
    fit_within(device, graph, None)
}

/// The device's budget or `cap`, whichever is less.
pub(crate) fn budget(device: &dyn Device, cap: Option<usize>) -> Option<usize> {
    let own = device.plan_options().budget;
    own.into_iter().chain(cap).min()
}

pub(crate) fn fit_within(
    device: &dyn Device,
    graph: &Graph,
    cap: Option<usize>,
) -> Result<Arc<Plan>, EngineError> {
    let graph = rewrite(graph, device.rewrites());
    let options = PlanOptions {
        budget: budget(device, cap),
        ..device.plan_options()
    };
    Ok(Arc::new(Plan::within(&graph, options)?))
}

/// For one of several graphs that share weights: those stay on the device.
pub(crate) fn fit_shared(
    device: &dyn Device,
    graph: &Graph,
    cap: Option<usize>,
) -> Result<Arc<Plan>, EngineError> {
    let graph = rewrite(graph, device.rewrites());
    let options = device.plan_options();
    let Some(budget) = budget(device, cap) else {
        return Ok(Arc::new(Plan::new(graph, options)?));
    };
    let weights: usize = graph.params().map(|(_, p)| p.bytes()).sum();
    let limits = PlanOptions {
        budget: None,
        ..options
    };
    Ok(Arc::new(Plan::fit(
        &graph,
        limits,
        budget.saturating_sub(weights),
    )?))
}

/// For plans of one network that run one after the other: all stream what the tightest does, so that one
/// load of weights serves them and none finds more on the device than it planned for.
pub(crate) fn share_weights(plans: &mut [&mut Arc<Plan>]) {
    let weights = |p: &Plan| p.device_bytes() - p.arena_bytes();
    let least = plans.iter().map(|p| weights(p)).min().unwrap_or(0);
    for plan in plans.iter_mut().filter(|p| weights(p) > least) {
        **plan = Arc::new(Plan::clone(plan).streaming(least));
    }
}
