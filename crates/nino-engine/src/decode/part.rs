//! One graph of an autoencoder, planned, and a run of it.

use super::Strategy;
use super::carry::share;
use crate::fit::{Room, fit_turns};
use crate::profile::Profile;
use crate::values::{read, write};
use crate::{Control, EngineError, Event};
use nino_graph::{Device, Load, Memory, Node, Plan, PlanError, RunOptions, Session};
use nino_models::{Cache, Chunk, Recording};
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
    pub(crate) fn new(plan: Arc<Plan>, of: Recording, frames: usize, runs: usize) -> Part {
        Part {
            shares: shares(&plan),
            plan,
            input: of.input,
            output: of.output,
            check: of.check,
            caches: of.caches,
            frames,
            runs,
        }
    }

    /// What all its runs take.
    pub(crate) fn load(&self) -> Load {
        self.plan.load(self.runs)
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

fn shares(plan: &Plan) -> Vec<f64> {
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

/// How often a graph runs, and for what.
#[derive(Clone, Copy)]
pub(crate) struct Runs {
    pub(crate) frames: usize,
    /// At the beginning of a clip.
    pub(crate) first: bool,
    pub(crate) n: usize,
}

/// Which frames of a chunk the layers of a video model see at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frames {
    /// All: fewer, larger ops.
    Together,
    /// One after the other, with those of its window: a fraction of the memory.
    Apart,
    /// Each on its own, with sums over windows: the least memory. What [`Frames::Apart`] becomes where a window
    /// is too much at once.
    Alone,
}

/// The graphs for `runs`, for one arena.
pub(crate) fn planned(
    device: &dyn Device,
    room: Room,
    (runs, frames): (&[Runs], Frames),
    (height, width): (usize, usize),
    record: impl Fn(Chunk) -> Result<Recording, EngineError>,
) -> Result<Vec<Part>, EngineError> {
    let plan = |frames| {
        let recorded = runs.iter().map(|run| {
            record(Chunk {
                batch: 1,
                frames: run.frames,
                height,
                width,
                first: run.first,
                by_frame: frames != Frames::Together,
                by_tap: frames == Frames::Alone,
            })
        });
        let mut recorded = recorded.collect::<Result<Vec<_>, _>>()?;
        if recorded.len() > 1 {
            share(&mut recorded);
        }
        let graphs = recorded.iter().zip(runs).map(|(r, run)| (&r.graph, run.n));
        let plans = fit_turns(device, graphs, room)?;
        let parts = plans.into_iter().zip(recorded).zip(runs);
        let part = |((plan, of), run): (_, &Runs)| Part::new(plan, of, run.frames, run.n);
        Ok(parts.map(part).collect())
    };
    match plan(frames) {
        Err(error) if frames == Frames::Apart && may_be_cut(&error, room) => {
            plan(Frames::Alone).map_err(|alone| less(error, alone))
        }
        planned => planned,
    }
}

/// Whether convolutions frame by frame may help: to bind what is too large, and as the last resort to keep
/// to a budget.
fn may_be_cut(error: &EngineError, room: Room) -> bool {
    match error {
        EngineError::Plan(PlanError::BindingTooLarge { .. }) => true,
        EngineError::Plan(PlanError::OverBudget { .. }) => room.allow_host,
        _ => false,
    }
}

/// The refusal that asks for less.
pub(super) fn less(a: EngineError, b: EngineError) -> EngineError {
    let need = |error: &EngineError| match error {
        EngineError::Plan(PlanError::OverBudget { need, .. }) => *need,
        _ => usize::MAX,
    };
    if need(&a) <= need(&b) { a } else { b }
}

/// Weights on the device, with the slots of those that stream, for graphs that run by turns.
pub(crate) fn weight_bytes(parts: &[Part]) -> usize {
    memory(parts).weights
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
