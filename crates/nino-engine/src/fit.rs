//! Plans within what a device and a request leave for them.

use crate::EngineError;
use nino_graph::{Around, Budget, Device, Graph, Plan, PlanError, Search, Turn, rewrite};
use std::ops::Deref;
use std::sync::Arc;

/// What limits a request's plans besides the device itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// The most bytes for one plan.
    pub(crate) cap: Option<usize>,
    /// Bytes the request holds outside its plans: they count where the device's memory is the
    /// program's own.
    pub(crate) beside: usize,
    /// Values may be kept on the host, and weights may stream from it.
    pub(crate) allow_host: bool,
}

impl Default for Room {
    fn default() -> Room {
        Room {
            cap: None,
            beside: 0,
            allow_host: true,
        }
    }
}

impl Room {
    /// Bytes left for plans; `None` without a budget.
    pub(crate) fn bytes(self, device: &dyn Device) -> Option<usize> {
        self.budget(device).for_plans()
    }

    fn budget(self, device: &dyn Device) -> Budget {
        device.budget().with_beside(self.beside).capped(self.cap)
    }

    fn search(self, device: &dyn Device) -> Search {
        Search {
            budget: self.budget(device),
            allow_host: self.allow_host,
            ..Search::on(device)
        }
    }
}

/// Plans a graph whose weights are its own, which runs about so often.
pub(crate) fn fit(
    device: &dyn Device,
    graph: &Graph,
    runs: usize,
) -> Result<Arc<Plan>, EngineError> {
    fit_within(device, graph, runs, Room::default())
}

/// The same within a room.
pub(crate) fn fit_within(
    device: &dyn Device,
    graph: &Graph,
    runs: usize,
    room: Room,
) -> Result<Arc<Plan>, EngineError> {
    let mut plans = fit_turns(device, [(graph, runs)], room)?;
    Ok(plans.remove(0))
}

/// Plans graphs of one network that run by turns in one arena, each about so often.
pub(crate) fn fit_turns<'a>(
    device: &dyn Device,
    graphs: impl IntoIterator<Item = (&'a Graph, usize)>,
    room: Room,
) -> Result<Vec<Arc<Plan>>, EngineError> {
    let graphs = graphs.into_iter();
    let turns = graphs.map(|(graph, runs)| Turn::new(rewrite(graph, device.rewrites()), runs));
    let turns: Vec<Turn> = turns.collect();
    let plans = room.search(device).best(&turns)?;
    Ok(plans.into_iter().map(Arc::new).collect())
}

/// Plans a request of several stages. Where one of them is over the budget, the error tells the
/// least budget for all of them: each refusal tells what one stage needs, so the request is planned
/// again with that, until it fits.
pub(crate) fn whole_request<T>(
    device: &Arc<dyn Device>,
    mut plan: impl FnMut(Arc<dyn Device>) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let mut error = match plan(Arc::clone(device)) {
        Err(EngineError::Plan(error @ PlanError::OverBudget { .. })) => error,
        other => return other,
    };
    let given = device.budget().total.unwrap_or(usize::MAX);
    while let PlanError::OverBudget { need, budget, .. } = &mut error {
        *budget = given;
        let total = *need;
        let device = Arc::clone(device);
        match plan(Arc::new(Given { device, total })) {
            Err(EngineError::Plan(more @ PlanError::OverBudget { .. })) => {
                if matches!(more, PlanError::OverBudget { need, .. } if need <= total) {
                    // It would do with less than it was given, and yet does not: no budget helps.
                    return Err(more.into());
                }
                error = more;
            }
            Err(other) => return Err(other),
            Ok(_) => break,
        }
    }
    Err(error.into())
}

/// A device with another budget.
struct Given {
    device: Arc<dyn Device>,
    total: usize,
}

impl Around for Given {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &*self.device
    }

    fn budget(&self) -> Budget {
        Budget {
            total: Some(self.total),
            ..self.device.budget()
        }
    }
}
