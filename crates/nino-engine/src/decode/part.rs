//! One graph of an autoencoder, planned, and a run of it.

use super::Strategy;
use super::plan::Runs;
use crate::profile::Profile;
use crate::values::{read, write};
use crate::{Control, EngineError, Event};
use nino_graph::{Load, Memory, Node, Plan, RunOptions, Session};
use nino_models::{Cache, Recording};
use std::cell::RefCell;
use std::sync::Arc;

/// One graph, planned, and how often it runs.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) plan: Arc<Plan>,
    pub(crate) input: Node,
    pub(crate) output: Node,
    /// See [`Recording::check`].
    check: Node,
    pub(crate) caches: Vec<Cache>,
    /// Frames a run takes: of the latent to decode, of the clip to encode.
    pub(crate) frames: usize,
    pub(crate) runs: usize,
    /// The share of a run that is behind after each step, about.
    shares: Vec<f64>,
}

impl Part {
    pub(crate) fn new(plan: Arc<Plan>, of: Recording, runs: Runs) -> Part {
        Part {
            shares: shares(&plan),
            plan,
            input: of.input,
            output: of.output,
            check: of.check,
            caches: of.caches,
            frames: runs.frames,
            runs: runs.n,
        }
    }

    /// What all its runs take.
    pub(crate) fn load(&self) -> Load {
        self.plan.load(self.runs)
    }

    /// One run with these values; an error when what came out is not finite, which the device
    /// itself has looked at.
    pub(crate) fn run(
        &self,
        session: &mut dyn Session,
        values: &[f32],
        profile: Option<&mut Profile>,
        control: &mut Control<'_>,
    ) -> Result<(), EngineError> {
        let graph = self.plan.graph();
        write(session, graph, self.input, values)?;
        let tell = RefCell::new(&mut *control.on_event);
        let on_step = |done: usize| {
            let share = done.checked_sub(1).and_then(|i| self.shares.get(i));
            (tell.borrow_mut())(Event::Within(share.copied().unwrap_or(0.0)));
        };
        session.run(RunOptions {
            cancel: Some(control.cancel),
            profile: profile.is_some(),
            on_step: Some(&on_step),
        })?;
        if let Some(profile) = profile {
            profile.add(graph, &session.profile());
        }
        let stats = read(session, graph, self.check)?;
        // A deviation overflows before its values do: only means tell.
        if stats.iter().step_by(2).all(|mean| mean.is_finite()) {
            return Ok(());
        }
        Err(EngineError::NotFinite {
            dtype: graph.dtype(self.output),
        })
    }
}

/// The share of a run that is behind after each step, about.
pub(crate) fn shares(plan: &Plan) -> Vec<f64> {
    // Flops that take as long as a byte does, on most devices.
    const FLOPS_PER_BYTE: f64 = 20.0;
    let sums = plan.steps().iter().scan(0.0, |sum, step| {
        let cost = plan.step_cost(step);
        *sum += cost.flops + cost.bytes * FLOPS_PER_BYTE;
        Some(*sum)
    });
    let sums: Vec<f64> = sums.collect();
    let all = sums.last().copied().unwrap_or(1.0);
    sums.into_iter().map(|sum| sum / all).collect()
}

/// Weights on the device, with the slots of those that stream, for graphs that run by turns.
pub(crate) fn weight_bytes(parts: &[Part]) -> usize {
    let memory = memory(parts);
    memory.weights + memory.constants
}

/// Weights and activations on the device: what is then used.
pub(crate) fn peak_bytes(parts: &[Part]) -> usize {
    memory(parts).bytes()
}

fn memory(parts: &[Part]) -> Memory {
    Memory::of(parts.iter().map(|p| &*p.plan))
}

/// What all runs of the graphs take.
pub(crate) fn load(parts: &[Part]) -> Load {
    let mut all = Load::default();
    parts.iter().for_each(|part| all += part.load());
    all
}

/// How these plans run, where no tiles were asked for.
pub(crate) fn strategy<'a>(plans: impl Iterator<Item = &'a Plan> + Clone) -> Strategy {
    let on_host = plans.clone().any(|p| p.host_bytes() > 0);
    let mut steps = plans.flat_map(Plan::steps);
    let whole_ops = steps.all(|s| s.last && s.rows.start == 0);
    match (on_host, whole_ops) {
        (true, _) => Strategy::ExactTiles,
        (false, false) => Strategy::RowSplit,
        (false, true) => Strategy::Untiled,
    }
}
