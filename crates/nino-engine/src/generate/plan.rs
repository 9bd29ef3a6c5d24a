//! What work needs, before anything is allocated: every stage's plan, and what can stay on the
//! device from one picture to the next.
//!
//! The work itself runs on a device that computes nothing, with a store like the real one, so a
//! plan cannot come to other numbers than the run will.

use super::GenerateRequest;
use super::dry::{Dry, Opened};
use crate::decode::part::strategy;
use crate::fit::whole_request;
use crate::model::identity::NetId;
use crate::{Checkpoint, Control, EngineError, Stage, Store, Strategy};
use nino_graph::{Device, Load, Plan, PlanError};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tracing::subscriber::{NoSubscriber, with_default};

/// Work that is known to fit.
#[derive(Clone, Debug)]
pub struct GeneratePlan {
    pub stages: Vec<StagePlan>,
    peak_bytes: usize,
    beside_bytes: usize,
}

/// One network of the work.
#[derive(Clone, Debug)]
pub struct StagePlan {
    pub stage: Stage,
    pub residency: Residency,
    /// Runs that make one batch of pictures.
    pub runs: usize,
    /// It runs on the device for text encoders, which is another one ([`Store::encode_text_on`]).
    pub elsewhere: bool,
    pub plan: Arc<Plan>,
}

/// Where a stage's weights are when the stage does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    /// The weights are on the device, for the next picture.
    Resident,
    /// The weights are in the file: the stages take turns.
    InTurn,
    /// Some are never there as a whole, but pass through while the stage runs.
    Streamed,
}

impl Residency {
    pub fn name(self) -> &'static str {
        match self {
            Residency::Resident => "resident",
            Residency::InTurn => "in-turn",
            Residency::Streamed => "streamed",
        }
    }
}

impl StagePlan {
    /// How activations pass through memory.
    pub fn strategy(&self) -> Strategy {
        strategy(std::iter::once(&*self.plan))
    }

    /// What all its runs take.
    pub fn load(&self) -> Load {
        self.plan.load(self.runs)
    }
}

impl GeneratePlan {
    /// The most that is on the device at once.
    pub fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }

    /// What the most at once is more with the latents and pictures in host memory. It is part of
    /// the budget where the device's memory is the program's.
    pub fn beside_bytes(&self) -> usize {
        self.beside_bytes
    }

    pub fn largest_binding(&self) -> usize {
        let here = self.stages.iter().filter(|s| !s.elsewhere);
        let largest = here.map(|s| s.plan.largest_binding());
        largest.max().unwrap_or(0)
    }

    /// Bytes of all stages' weights.
    pub fn weight_bytes(&self) -> usize {
        self.stages.iter().map(|s| s.plan.weight_bytes()).sum()
    }

    /// Bytes of weights brought to the device while the stages run, all runs together.
    pub fn streamed_bytes(&self) -> usize {
        let each = self.stages.iter();
        each.map(|s| s.plan.streamed().in_runs(s.runs)).sum()
    }

    /// Whether every stage has all its values and weights on the device while it runs.
    pub fn is_on_device(&self) -> bool {
        self.stages.iter().all(|s| s.plan.is_on_device())
    }
}

/// Plans a request for a store, which uses the plans when the request runs. An error that a budget
/// is too small names the least budget that the whole request fits into.
pub fn plan_generate(
    store: &Store,
    model: &Checkpoint,
    request: &GenerateRequest,
) -> Result<GeneratePlan, EngineError> {
    plan_work(store, |store| {
        let never = AtomicBool::new(false);
        let mut control = Control {
            cancel: &never,
            on_event: &mut |_| {},
        };
        super::rehearse(store, model, request, &mut control)
    })
}

/// The most pictures, up to `most`, that can be made at a time with everything on the device; 1
/// where not even one picture can.
pub fn largest_batch(
    store: &Store,
    model: &Checkpoint,
    request: &GenerateRequest,
    most: usize,
) -> Result<usize, EngineError> {
    let fits = |batch: usize| {
        let request = GenerateRequest {
            batch,
            ..request.clone()
        };
        match plan_generate(store, model, &request) {
            Ok(plan) => Ok(plan.is_on_device()),
            Err(EngineError::Plan(PlanError::OverBudget { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    };
    // Doubled until it does not fit, then halved in between.
    let (mut least, mut over) = (1, most + 1);
    while 2 * least < over {
        if fits(2 * least)? {
            least *= 2;
        } else {
            over = 2 * least;
        }
    }
    while over - least > 1 {
        let middle = least.midpoint(over);
        if fits(middle)? {
            least = middle;
        } else {
            over = middle;
        }
    }
    Ok(least)
}

/// Plans work of any kind for a store, which uses the plans when the work is done. `work` goes
/// through it once, with the store it is given, whose device computes nothing and gives zeros. It
/// is called again for a second picture where the store keeps models, and where the budget is too
/// small, to find the least that is enough.
pub fn plan_work(
    store: &Store,
    mut work: impl FnMut(&Store) -> Result<(), EngineError>,
) -> Result<GeneratePlan, EngineError> {
    let text = store.other_for_text().map(Store::shared_device);
    let (plan, rehearsed) = whole_request(&store.shared_device(), |device| {
        rehearse(device, text.clone(), store.keeps(), &mut work)
    })?;
    store.learn_plans(&rehearsed);
    Ok(plan)
}

/// Goes through work on a device that computes nothing. Gives the store that the work was planned
/// for with the plan.
fn rehearse(
    device: Arc<dyn Device>,
    text: Option<Arc<dyn Device>>,
    keeps: bool,
    work: &mut dyn FnMut(&Store) -> Result<(), EngineError>,
) -> Result<(GeneratePlan, Store), EngineError> {
    let dry = Arc::new(Dry::new(device));
    let store = Store::rehearsal(dry.clone(), keeps);
    let dry_text = text.map(|device| Arc::new(Dry::new(device)));
    if let Some(dry) = &dry_text {
        store.encode_text_on(dry.clone());
    }
    let mut once = || {
        store.reset_peak();
        // What is decided is told when it is done.
        with_default(NoSubscriber::default(), || work(&store))?;
        Ok::<_, EngineError>(store.usage())
    };
    store.remember_opened();
    let first = once()?;
    let here = store.take_opened().into_iter().map(|n| (n, false));
    let other = store.other_for_text().map(Store::take_opened);
    let opened = here.chain(other.into_iter().flatten().map(|n| (n, true)));
    let runs = |plan: &Arc<Plan>| -> usize {
        let mut sessions = dry.sessions();
        sessions.extend(dry_text.iter().flat_map(|dry| dry.sessions()));
        let same = sessions.iter().filter(|s| Arc::ptr_eq(&s.plan, plan));
        same.map(Opened::runs).sum()
    };
    let mut stages: Vec<(NetId, StagePlan)> = Vec::new();
    for (network, elsewhere) in opened {
        for plan in &network.plans {
            let planned = StagePlan {
                stage: network.stage,
                residency: Residency::InTurn,
                runs: runs(plan),
                elsewhere,
                plan: Arc::clone(plan),
            };
            add(&mut stages, network.net.clone(), planned);
        }
    }
    let mut most = first;
    // The second picture finds what the first one left.
    if keeps {
        let second = once()?;
        most.peak_bytes = most.peak_bytes.max(second.peak_bytes);
        most.peak_bytes_with_host = most.peak_bytes_with_host.max(second.peak_bytes_with_host);
    }
    for (net, stage) in &mut stages {
        let own = if stage.elsewhere {
            store.for_text()
        } else {
            &store
        };
        stage.residency = if !stage.plan.fetches().is_empty() {
            Residency::Streamed
        } else if own.holds(net) {
            Residency::Resident
        } else {
            Residency::InTurn
        };
    }
    stages.sort_by_key(|(_, s)| s.stage);
    let plan = GeneratePlan {
        stages: stages.into_iter().map(|(_, stage)| stage).collect(),
        peak_bytes: most.peak_bytes,
        beside_bytes: most.peak_bytes_with_host - most.peak_bytes,
    };
    Ok((plan, store))
}

/// Runs of one network in one stage are one row: tiles, or both passes. The larger plan stands for
/// them.
fn add(stages: &mut Vec<(NetId, StagePlan)>, net: NetId, planned: StagePlan) {
    let known = stages
        .iter_mut()
        .find(|(id, s)| *id == net && s.stage == planned.stage);
    let Some((_, known)) = known else {
        stages.push((net, planned));
        return;
    };
    if Arc::ptr_eq(&known.plan, &planned.plan) {
        // Its runs are counted over all sessions already.
        return;
    }
    known.runs += planned.runs;
    if planned.plan.device_bytes() > known.plan.device_bytes() {
        known.plan = planned.plan;
    }
}

#[cfg(test)]
mod tests;
