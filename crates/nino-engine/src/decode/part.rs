//! One graph of an autoencoder, planned, and a run of it.

use super::Strategy;
use crate::profile::Profile;
use crate::values::{read, write};
use crate::{Control, EngineError};
use nino_graph::{Node, Plan, PlanError, RunOptions, Session};
use nino_models::{Cache, Chunk, Recording};
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
}

impl Part {
    pub(crate) fn new(plan: Arc<Plan>, of: Recording, frames: usize, runs: usize) -> Part {
        Part {
            plan,
            input: of.input,
            output: of.output,
            check: of.check,
            caches: of.caches,
            frames,
            runs,
        }
    }

    /// One run with these values; an error when what came out is not finite, which the device itself
    /// has looked at.
    pub(crate) fn run(
        &self,
        session: &mut dyn Session,
        values: &[f32],
        profile: Option<&mut Profile>,
        control: &mut Control<'_>,
    ) -> Result<(), EngineError> {
        let graph = self.plan.graph();
        write(session, graph, self.input, values)?;
        session.run(RunOptions {
            cancel: Some(control.cancel),
            profile: profile.is_some(),
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

/// What `plan` makes of a chunk; where the device does not bind the frames of a window at once, of the chunk
/// with each of them on its own.
pub(crate) fn planned<T>(
    chunk: Chunk,
    plan: impl Fn(Chunk) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    match plan(chunk) {
        Err(EngineError::Plan(PlanError::BindingTooLarge { .. })) => plan(Chunk {
            by_tap: true,
            ..chunk
        }),
        planned => planned,
    }
}

/// Weights on the device, with the slots of those that stream, for graphs that run one after the other.
pub(crate) fn weight_bytes(parts: &[Part]) -> usize {
    let weights = |p: &Part| p.plan.device_bytes() - p.plan.arena_bytes();
    parts.iter().map(weights).max().unwrap_or(0)
}

/// Weights and activations on the device: what is then used.
pub(crate) fn peak_bytes(parts: &[Part]) -> usize {
    let arena = parts.iter().map(|p| p.plan.arena_bytes()).max();
    weight_bytes(parts) + arena.unwrap_or(0)
}

/// How these graphs run, where no tiles were asked for.
pub(crate) fn strategy(parts: &[Part]) -> Strategy {
    let outside = parts.iter().any(|p| p.plan.host_bytes() > 0);
    let mut steps = parts.iter().flat_map(|p| p.plan.steps());
    let whole_ops = steps.all(|s| s.last && s.rows.start == 0);
    match (outside, whole_ops) {
        (true, _) => Strategy::ExactTiles,
        (false, false) => Strategy::RowSplit,
        (false, true) => Strategy::Untiled,
    }
}
