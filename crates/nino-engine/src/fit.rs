//! A plan within the device's budget: whole if it fits, else with weights streamed or large values
//! kept outside.

use crate::EngineError;
use nino_graph::{ArenaSize, Device, Graph, Plan, PlanError, PlanOptions, rewrite};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What limits a request's plans beside the device itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    /// The most bytes for one plan.
    pub(crate) cap: Option<usize>,
    /// Bytes the request holds outside its plans: they count where the device's memory is the
    /// program's own.
    pub(crate) beside: usize,
    /// Only plans of which nothing is outside the device, and no weights stream.
    pub(crate) inside: bool,
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

/// For graphs of one network that run by turns in one arena. Their weights stay on the device; only where
/// values alone cannot make room do some stream.
pub(crate) fn fit_turns<'a>(
    device: &dyn Device,
    graphs: impl Iterator<Item = &'a Graph>,
    room: Room,
) -> Result<Vec<Arc<Plan>>, EngineError> {
    let graphs: Vec<Graph> = graphs.map(|g| rewrite(g, device.rewrites())).collect();
    let options = room.options(device);
    if let ([graph], false) = (&graphs[..], room.inside) {
        return Ok(vec![Arc::new(Plan::within(graph, options)?)]);
    }
    let limits = PlanOptions {
        budget: None,
        ..options
    };
    let left = room.bytes(device).unwrap_or(usize::MAX);
    let arena = left.saturating_sub(weights_of(&graphs));
    let fit = if room.inside {
        Plan::fit_inside
    } else {
        Plan::fit_all
    };
    let mut plans = match fit(&graphs, limits, arena) {
        Err(PlanError::OverBudget { .. }) if !room.inside => fit_streaming(&graphs, limits, left),
        fitted => fitted,
    };
    if let (Err(PlanError::OverBudget { budget, .. }), Some(all)) = (&mut plans, options.budget) {
        // It may be less than what is reserved of it.
        *budget = all;
    }
    Ok(plans?.into_iter().map(Arc::new).collect())
}

/// Bytes of parameters, each once.
fn weights_of(graphs: &[Graph]) -> usize {
    let params = graphs.iter().flat_map(Graph::params);
    let params: BTreeMap<&str, usize> = params.map(|(_, p)| (&*p.name, p.bytes())).collect();
    params.values().sum()
}

/// With as few weights on the device as the values leave room for, all streaming what the one with most
/// weights does.
fn fit_streaming(
    graphs: &[Graph],
    limits: PlanOptions,
    left: usize,
) -> Result<Vec<Plan>, PlanError> {
    let streaming = |plans: &[Plan], bytes: usize| {
        let most = plans.iter().max_by_key(|p| p.weight_bytes());
        let most = most.map(|p| p.clone().streaming(bytes));
        most.map(|p| (p.device_bytes() - p.arena_bytes(), p))
    };
    let whole = Plan::fit_all(graphs, limits, usize::MAX)?;
    let least = streaming(&whole, 0).map_or(0, |(weights, _)| weights);
    let arena = left.saturating_sub(least);
    let plans = Plan::fit_all(graphs, limits, arena).map_err(|e| match e {
        PlanError::OverBudget {
            arena, op, reserve, ..
        } => PlanError::OverBudget {
            need: least + arena + reserve,
            weights: least,
            arena,
            op,
            reserve,
            budget: left.saturating_add(limits.reserve),
        },
        other => other,
    })?;
    let Some((_, like)) = streaming(&plans, left - ArenaSize::of(&plans).bytes()) else {
        return Ok(plans);
    };
    let streamed = plans.into_iter().map(|p| p.streaming_like(&like));
    Ok(streamed.collect())
}
