//! A plan within the device's budget: whole if it fits, else with large values kept outside.

use crate::EngineError;
use nino_graph::{Device, Graph, Plan, PlanOptions, rewrite};
use std::sync::Arc;

pub(crate) fn fit(device: &dyn Device, graph: &Graph) -> Result<Arc<Plan>, EngineError> {
    let graph = rewrite(graph, device.rewrites());
    let options = device.plan_options();
    let Some(budget) = options.budget else {
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
