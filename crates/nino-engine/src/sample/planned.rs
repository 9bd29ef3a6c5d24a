//! Plans of a denoiser: what it is recorded for, and how its prompts share runs.

use super::LatentShape;
use crate::fit::{Room, fit_turns};
use crate::{DiffusionModel, EngineError};
use nino_dtype::DType;
use nino_graph::{Device, Graph, Plan, PlanError};
use nino_models::flux::ReferenceMethod;
use nino_models::unet::Shrink;
use nino_models::{ControlSpec, DenoiserGraph, DenoiserShape, KvCache, SoundShape};
use std::ops::Range;
use std::sync::Arc;

/// What a denoiser is planned for.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // each is an input or a way of running of its own
pub(super) struct PlanSpec {
    pub(super) shape: LatentShape,
    /// Tokens of each prompt.
    pub(super) tokens: usize,
    /// Words that ask for each prompt.
    pub(super) queries: usize,
    /// Whether there is a negative prompt; it is in the same run where that fits.
    pub(super) guided: bool,
    /// Several prompts take turns, so that nothing of them stays from run to run.
    pub(super) turns: bool,
    /// Storage of activations.
    pub(super) dtype: DType,
    /// Bytes on the device that previews take beside it.
    pub(super) preview_bytes: usize,
    /// Rows and columns of the latents that it looks at.
    pub(super) references: Vec<[usize; 2]>,
    /// What becomes of those between runs.
    pub(super) kept: KvCache,
    /// `ControlNet`s beside it.
    pub(super) steering: Vec<ControlSpec>,
    /// Tokens of the pictures that it looks at.
    pub(super) image_tokens: usize,
    /// Clips that it follows.
    pub(super) controls: usize,
    /// Whether it is told a camera's path.
    pub(super) camera: bool,
    /// What a sound-to-video model is given.
    pub(super) sound: SoundShape,
    /// Blocks that it goes without.
    pub(super) skipped: Vec<usize>,
    /// Activations that are made smaller.
    pub(super) shrinks: Vec<Shrink>,
    /// Whether it says how much its places are looked at.
    pub(super) watched: bool,
    /// Stretches of the prompt that it heeds more or less.
    pub(super) biased: Vec<Range<usize>>,
    /// Whether it is told nothing of the guidance.
    pub(super) unguided: bool,
    /// Tokens of pictures' styles.
    pub(super) style: usize,
    /// Where the latents that it looks at are.
    pub(super) places: Option<ReferenceMethod>,
    /// Bytes of host memory that the sampler holds beside it.
    pub(super) host_bytes: usize,
}

/// A planned denoiser for latents of one size.
pub(crate) struct DenoiserPlan {
    pub(crate) plan: Arc<Plan>,
    pub(super) nodes: DenoiserGraph,
    pub(super) shape: LatentShape,
    pub(super) tokens: usize,
    /// Latents a run takes: every picture once, or twice when both prompts share a run.
    pub(super) rows: usize,
    /// See [`PlanSpec::host_bytes`].
    pub(crate) host_bytes: usize,
}

/// Runs that plans reckon with: the steps of a usual sampling.
const RUNS: usize = 20;

/// Both prompts in one run where everything fits the device; else in one or two runs, by which
/// takes less time.
pub(super) fn plan(
    device: &dyn Device,
    model: &DiffusionModel,
    spec: &PlanSpec,
) -> Result<DenoiserPlan, EngineError> {
    let record = |prompts: usize| {
        let recorded = Recorded::new(device, model, spec, prompts)?;
        let mut plans = fitted(device, vec![recorded])?;
        Ok(plans.remove(0))
    };
    if !spec.guided {
        return record(1);
    }
    let both = match record(2) {
        Ok(both) if both.plan.is_on_device() => return Ok(both),
        Err(EngineError::Plan(PlanError::OverBudget { .. })) => return record(1),
        both => both?,
    };
    let time = |planned: &DenoiserPlan, runs| device.rates().time(&planned.plan.load(runs));
    match record(1) {
        Ok(one) if time(&one, 2 * RUNS) < time(&both, RUNS) => Ok(one),
        _ => Ok(both),
    }
}

/// Plans of one network that run by turns in one arena, a prompt at a time: for prompts that differ
/// in their length or in the size of their region.
pub(super) fn plan_turns(
    device: &dyn Device,
    model: &DiffusionModel,
    specs: &[PlanSpec],
) -> Result<Vec<Arc<DenoiserPlan>>, EngineError> {
    let recorded = specs
        .iter()
        .map(|spec| Recorded::new(device, model, spec, 1));
    let plans = fitted(device, recorded.collect::<Result<_, _>>()?)?;
    Ok(plans.into_iter().map(Arc::new).collect())
}

/// Plans of one network that run in one arena with all prompts: the first run's, then that of the
/// others.
pub(super) fn plan_cached(
    device: &dyn Device,
    model: &DiffusionModel,
    specs: &[PlanSpec],
) -> Result<Vec<Arc<DenoiserPlan>>, EngineError> {
    let recorded = specs.iter().map(|spec| {
        let prompts = if spec.guided { 2 } else { 1 };
        Recorded::new(device, model, spec, prompts)
    });
    let plans = fitted(device, recorded.collect::<Result<_, _>>()?)?;
    Ok(plans.into_iter().map(Arc::new).collect())
}

/// A denoiser's graph for runs of some prompts, not planned yet.
struct Recorded<'a> {
    spec: &'a PlanSpec,
    graph: Graph,
    nodes: DenoiserGraph,
    rows: usize,
    runs: usize,
}

impl<'a> Recorded<'a> {
    fn new(
        device: &dyn Device,
        model: &DiffusionModel,
        spec: &'a PlanSpec,
        prompts: usize,
    ) -> Result<Recorded<'a>, EngineError> {
        let rows = prompts * spec.shape.batch;
        let shape = DenoiserShape {
            rows,
            frames: spec.shape.frames,
            height: spec.shape.height,
            width: spec.shape.width,
            tokens: spec.tokens,
            t5_tokens: spec.queries,
            references: spec.references.clone(),
            kv_cache: spec.kept,
            image_tokens: spec.image_tokens,
            controls: spec.controls,
            camera: spec.camera,
            sound: spec.sound,
            skipped: spec.skipped.clone(),
            shrinks: spec.shrinks.clone(),
            watched: spec.watched,
            control_nets: spec.steering.clone(),
            biased_spans: spec.biased.clone(),
            disable_guidance: spec.unguided,
            style_tokens: spec.style,
            reference_method: spec.places,
        };
        let source = model.source();
        let params = source.params(|stored| model.held(stored, device));
        // Prompts that take turns would be computed anew in each run.
        let keep = !spec.turns && (prompts == 2 || !spec.guided);
        let mut nodes = model.net().record(&params, &shape, spec.dtype, keep)?;
        let graph = std::mem::replace(&mut nodes.graph, Graph::new());
        // Two prompts take twice as many runs one by one.
        let runs = if spec.guided {
            2 / prompts * RUNS
        } else {
            RUNS
        };
        Ok(Recorded {
            spec,
            graph,
            nodes,
            rows,
            runs,
        })
    }
}

/// Plans graphs of one network in one arena. What previews and the host hold counts once.
fn fitted(
    device: &dyn Device,
    recorded: Vec<Recorded<'_>>,
) -> Result<Vec<DenoiserPlan>, EngineError> {
    let most = |bytes: fn(&PlanSpec) -> usize| {
        let all = recorded.iter().map(|r| bytes(r.spec));
        all.max().unwrap_or(0)
    };
    let preview_bytes = most(|spec| spec.preview_bytes);
    let room = Room {
        cap: Room::default()
            .bytes(device)
            .map(|bytes| bytes.saturating_sub(preview_bytes)),
        beside: most(|spec| spec.host_bytes),
        ..Room::default()
    };
    let graphs = recorded.iter().map(|r| (&r.graph, r.runs));
    let plans = fit_turns(device, graphs, room)?;
    let planned = recorded
        .into_iter()
        .zip(plans)
        .map(|(r, plan)| DenoiserPlan {
            plan,
            nodes: r.nodes,
            shape: r.spec.shape,
            tokens: r.spec.tokens,
            rows: r.rows,
            host_bytes: room.beside,
        });
    Ok(planned.collect())
}

impl DenoiserPlan {
    /// Whether a run takes the prompts of both sides.
    pub(super) fn takes_both(&self) -> bool {
        self.rows == 2 * self.shape.batch
    }
}
