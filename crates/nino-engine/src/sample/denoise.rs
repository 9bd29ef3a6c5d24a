//! A diffusion model as a network to sample with: prompts and latents in, predictions out.

use super::steer::Pull;
use super::{LatentShape, SampleRequest};
use crate::fit::{Room, fit_turns};
use crate::store::Lease;
use crate::{Conditioning, DiffusionModel, EngineError};
use nino_dtype::DType;
use nino_graph::{Device, Graph, Node, Plan, PlanError, RunOptions, Session};
use nino_models::{Controlled, DenoiserGraph, DenoiserShape};
use nino_sample::{Network, Stop};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What a denoiser is planned for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlanSpec {
    pub(super) shape: LatentShape,
    /// Tokens of each prompt.
    pub(super) tokens: usize,
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
    /// `ControlNet`s beside it.
    pub(super) steering: Vec<Controlled>,
    /// Tokens of the pictures that it looks at.
    pub(super) image_tokens: usize,
    /// Clips that it follows.
    pub(super) controls: usize,
    /// Bytes of host memory that the sampler holds beside it.
    pub(super) host_bytes: usize,
}

/// A planned denoiser for latents of one size.
pub(crate) struct DenoiserPlan {
    pub(crate) plan: Arc<Plan>,
    nodes: DenoiserGraph,
    shape: LatentShape,
    tokens: usize,
    /// Latents a run takes: every picture once, or twice when both prompts share a run.
    rows: usize,
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
            references: spec.references.clone(),
            image_tokens: spec.image_tokens,
            controls: spec.controls,
            steering: spec.steering.clone(),
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

/// A rectangle of the latent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Rect {
    pub(super) fn whole(shape: LatentShape) -> Rect {
        Rect {
            x: 0,
            y: 0,
            width: shape.width,
            height: shape.height,
        }
    }

    /// The rectangle's part of values `[b, t, h, w, c]` of that shape.
    fn cut(self, values: Vec<f32>, shape: LatentShape) -> Vec<f32> {
        if self == Rect::whole(shape) {
            return values;
        }
        let planes = shape.batch * shape.frames;
        let c = values.len() / (planes * shape.height * shape.width).max(1);
        let rows = (0..planes).flat_map(|plane| {
            let first = plane * shape.height + self.y;
            first..first + self.height
        });
        rows.flat_map(|row| {
            let at = (row * shape.width + self.x) * c;
            &values[at..at + self.width * c]
        })
        .copied()
        .collect()
    }
}

/// A prompt of a run.
#[derive(Clone, Copy)]
pub(super) struct Prompt<'p> {
    pub(super) conditioning: &'p Conditioning,
    pub(super) negative: bool,
    /// The part of the picture it is for.
    pub(super) rect: Rect,
}

/// The prompts that one session of a denoiser runs with. Buffers are made once: a step allocates
/// nothing.
pub(super) struct Prompted<'a> {
    plan: Arc<DenoiserPlan>,
    shape: LatentShape,
    cancel: &'a AtomicBool,
    /// What a run takes beside latent and timestep, encoded: one set for both prompts, or one for
    /// each.
    fixed: Vec<Vec<(Node, Vec<u8>)>>,
    /// How each of those sets is steered: for every `ControlNet` a number for each row.
    pulls: Vec<Vec<Vec<Pull>>>,
    /// The noise level of the call that runs.
    sigma: Rc<Cell<f32>>,
    /// What the timestep of every frame is multiplied by; one for all frames where the model has
    /// one timestep for them.
    shares: Vec<f32>,
    /// The set that inputs which stay between runs hold.
    written: Option<usize>,
    values: Vec<f32>,
    bytes: Vec<u8>,
}

impl<'a> Prompted<'a> {
    pub(super) fn new(
        plan: Arc<DenoiserPlan>,
        model: &DiffusionModel,
        sets: &[&[Prompt<'_>]],
        request: &SampleRequest<'_>,
        cancel: &'a AtomicBool,
    ) -> Result<Prompted<'a>, EngineError> {
        let fixed = sets
            .iter()
            .map(|prompts| plan.fixed(prompts, model, request))
            .collect::<Result<_, EngineError>>()?;
        let pulls = sets
            .iter()
            .map(|prompts| plan.pulls(prompts, model))
            .collect();
        let (graph, nodes) = (plan.plan.graph(), &plan.nodes);
        let most = [nodes.x, nodes.t, nodes.out].map(|n| (graph.shape(n).numel(), graph.bytes(n)));
        Ok(Prompted {
            values: vec![0.0; most.iter().map(|m| m.0).max().unwrap_or(0)],
            bytes: vec![0; most.iter().map(|m| m.1).max().unwrap_or(0)],
            shape: plan.shape,
            plan,
            cancel,
            fixed,
            pulls,
            sigma: Rc::default(),
            shares: if model.net().wants().frame_times {
                request.frame_shares()
            } else {
                vec![1.0]
            },
            written: None,
        })
    }

    /// Where the noise level of a call is put before it.
    pub(super) fn sigma(&self) -> Rc<Cell<f32>> {
        Rc::clone(&self.sigma)
    }

    /// The same place for several networks.
    pub(super) fn hear(&mut self, sigma: &Rc<Cell<f32>>) {
        self.sigma = Rc::clone(sigma);
    }
}

/// A denoiser that sees the whole picture with both prompts.
pub(super) struct Whole<'a> {
    lease: Lease,
    prompted: Prompted<'a>,
    /// Why the last forward stopped.
    error: Option<EngineError>,
}

impl<'a> Whole<'a> {
    pub(super) fn new(lease: Lease, prompted: Prompted<'a>) -> Whole<'a> {
        Whole {
            lease,
            prompted,
            error: None,
        }
    }

    /// Why the last forward stopped, if it did.
    pub(super) fn error(&mut self) -> Option<EngineError> {
        self.error.take()
    }

    /// Gives the session back for the next run.
    pub(super) fn finish(self) {
        self.lease.finish();
    }
}

impl DenoiserPlan {
    /// Whether a run takes the prompts of both sides.
    pub(super) fn takes_both(&self) -> bool {
        self.rows == 2 * self.shape.batch
    }

    /// The inputs that stay the same over the steps, for runs of these prompts.
    fn fixed(
        &self,
        prompts: &[Prompt<'_>],
        model: &DiffusionModel,
        request: &SampleRequest<'_>,
    ) -> Result<Vec<(Node, Vec<u8>)>, EngineError> {
        let (graph, nodes) = (self.plan.graph(), &self.nodes);
        let encoded = |node: Node, values: &[f32]| -> Result<(Node, Vec<u8>), EngineError> {
            let mut bytes = vec![0; graph.bytes(node)];
            nino_dtype::encode(graph.dtype(node), values, &mut bytes)?;
            Ok((node, bytes))
        };
        let whole = LatentShape::of(request.latent);
        let each = |part: &dyn Fn(&Prompt<'_>) -> Vec<f32>| -> Vec<f32> {
            let parts = prompts.iter().map(|p| part(p).repeat(whole.batch));
            parts.flatten().collect()
        };
        let contexts = each(&|p| p.conditioning.context_for(model, self.tokens));
        let mut fixed = vec![encoded(nodes.context, &contexts)?];
        if let Some(node) = nodes.label {
            // Models are told the size of the whole picture, whatever part of it they see.
            let pixels = model.pixels(whole);
            let labels = each(&|p| p.conditioning.label(model.family, pixels, p.negative));
            fixed.push(encoded(node, &labels)?);
        }
        if let Some(node) = nodes.guidance {
            let told = each(&|p| {
                let own = p.conditioning.guidance;
                model.net().guidance_values(request.cfg, own)
            });
            fixed.push(encoded(node, &told)?);
        }
        for (i, &node) in nodes.references.iter().enumerate() {
            let latents = each(&|p| {
                let latent = p.conditioning.looked_at(model).get(i);
                latent.map_or_else(Vec::new, |r| {
                    let mut values = r.in_model_units(model.latent_format()).values;
                    values.truncate(r.height * r.width * r.channels);
                    values
                })
            });
            fixed.push(encoded(node, &latents)?);
        }
        for (i, inputs) in nodes.steering.iter().enumerate() {
            let (h, w) = (self.shape.height, self.shape.width);
            let values = graph.shape(inputs.hint).numel() / self.rows;
            let mut seen = Vec::new();
            for prompt in prompts {
                let placed = model.steering().placed(&prompt.conditioning.hints);
                let shown = match placed[i] {
                    None => vec![0.0; values],
                    Some(hint) => hint
                        .values(h, w)
                        .filter(|shown| shown.len() == values)
                        .ok_or_else(|| EngineError::ControlNetArea {
                            net: hint.net.name.clone(),
                        })?,
                };
                seen.extend(shown.repeat(whole.batch));
            }
            fixed.push(encoded(inputs.hint, &seen)?);
        }
        if let Some(node) = nodes.image {
            let states = each(&|p| {
                let image = p.conditioning.clip.image.as_ref();
                image.map_or_else(Vec::new, |image| image.values.clone())
            });
            fixed.push(encoded(node, &states)?);
        }
        let mut controls = vec![(Vec::new(), 1.0); nodes.controls.len()];
        for prompt in prompts {
            let followed = prompt.conditioning.clip.control_values(model, whole);
            for (all, (values, strength)) in controls.iter_mut().zip(followed) {
                all.0.extend(prompt.rect.cut(values, whole));
                all.1 = strength;
            }
        }
        for (node, (frames, strength)) in nodes.controls.iter().zip(&controls) {
            fixed.push(encoded(node.frames, frames)?);
            fixed.push(encoded(node.strength, &[*strength])?);
        }
        if let Some(node) = nodes.extra {
            let extra = prompts.iter().flat_map(|p| {
                let values = p.conditioning.extra_values(model, request);
                p.rect.cut(values, whole)
            });
            fixed.push(encoded(node, &extra.collect::<Vec<f32>>())?);
        }
        Ok(fixed)
    }
}

impl DenoiserPlan {
    /// How runs of these prompts are steered.
    fn pulls(&self, prompts: &[Prompt<'_>], model: &DiffusionModel) -> Vec<Vec<Pull>> {
        let each: Vec<Vec<Pull>> = prompts
            .iter()
            .map(|p| Pull::of(model, p.conditioning))
            .collect();
        let of_net = |net: usize| {
            let rows = each.iter().map(|pulls| pulls[net]);
            rows.flat_map(|pull| std::iter::repeat_n(pull, self.shape.batch))
                .collect()
        };
        (0..self.nodes.steering.len()).map(of_net).collect()
    }
}

impl Network for &mut Whole<'_> {
    fn forward(
        &mut self,
        input: &[f32],
        timestep: f32,
        positive: &mut [f32],
        negative: Option<&mut [f32]>,
    ) -> Result<(), Stop> {
        let both = self.prompted.fixed.len() == 1;
        let session = self.lease.session();
        let mut run = |set, outs: &mut [&mut [f32]]| {
            let prompted = &mut self.prompted;
            prompted.run(session, set, input, timestep, outs)
        };
        let ran = match negative {
            Some(negative) if both => run(0, &mut [positive, negative]),
            Some(negative) => run(0, &mut [positive]).and_then(|()| run(1, &mut [negative])),
            // A plan for two prompts gives both; only the first is wanted.
            None => run(0, &mut [positive]),
        };
        ran.map_err(|error| {
            self.error = Some(error);
            Stop
        })
    }
}

impl Prompted<'_> {
    /// One run with a set of prompts; `outs` are the predictions of the first of them. Latents are
    /// `[b, c, t, h, w]` outside.
    pub(super) fn run(
        &mut self,
        session: &mut dyn Session,
        set: usize,
        input: &[f32],
        timestep: f32,
        outs: &mut [&mut [f32]],
    ) -> Result<(), EngineError> {
        let plan = Arc::clone(&self.plan);
        let (graph, nodes) = (plan.plan.graph(), &plan.nodes);
        let numel = |node: Node| graph.shape(node).numel();
        for latents in self.values[..numel(nodes.x)].chunks_exact_mut(input.len()) {
            to_channels_last(input, self.shape, latents);
        }
        self.write(session, nodes.x)?;
        let times = self.values[..numel(nodes.t)].iter_mut();
        for (time, share) in times.zip(self.shares.iter().cycle()) {
            *time = timestep * share;
        }
        self.write(session, nodes.t)?;
        for (node, bytes) in &self.fixed[set] {
            if self.written != Some(set) || !plan.plan.keeps(*node) {
                session.write(*node, bytes)?;
            }
        }
        self.written = Some(set);
        let sigma = self.sigma.get();
        for (inputs, pulls) in nodes.steering.iter().zip(&self.pulls[set]) {
            let strengths = pulls.iter().flat_map(|pull| pull.at(sigma).to_le_bytes());
            session.write(inputs.strength, &strengths.collect::<Vec<u8>>())?;
        }
        session.run(RunOptions {
            cancel: Some(self.cancel),
            ..RunOptions::default()
        })?;
        let bytes = &mut self.bytes[..graph.bytes(nodes.out)];
        session.read(nodes.out, bytes)?;
        let values = &mut self.values[..numel(nodes.out)];
        nino_dtype::decode(graph.dtype(nodes.out), bytes, values)?;
        // A sampler would carry them through every step to a black picture.
        if !values.iter().all(|v| v.is_finite()) {
            return Err(EngineError::NotFinite {
                dtype: graph.dtype(nodes.x),
            });
        }
        for (out, values) in outs.iter_mut().zip(values.chunks_exact(input.len())) {
            channels_first(values, self.shape, out);
        }
        Ok(())
    }

    /// Writes the first of `values` as an input.
    fn write(&mut self, session: &mut dyn Session, node: Node) -> Result<(), EngineError> {
        let graph = self.plan.plan.graph();
        let bytes = &mut self.bytes[..graph.bytes(node)];
        let values = &self.values[..graph.shape(node).numel()];
        nino_dtype::encode(graph.dtype(node), values, bytes)?;
        Ok(session.write(node, bytes)?)
    }
}

impl DiffusionModel {
    /// Width and height of the picture that a latent becomes.
    pub(super) fn pixels(&self, shape: LatentShape) -> (usize, usize) {
        let scale = self.latent_format().map_or(8, |f| f.scale_down);
        (shape.width * scale, shape.height * scale)
    }
}

/// `[b, c, t, h, w]` → `[b, t, h, w, c]`
pub(crate) fn channels_last(values: &[f32], shape: LatentShape) -> Vec<f32> {
    let mut out = vec![0.0; values.len()];
    to_channels_last(values, shape, &mut out);
    out
}

fn to_channels_last(values: &[f32], shape: LatentShape, out: &mut [f32]) {
    let (c, pixels) = (shape.channels, shape.pixels());
    for (image, out) in values
        .chunks_exact(c * pixels)
        .zip(out.chunks_exact_mut(c * pixels))
    {
        for (at, v) in out.iter_mut().enumerate() {
            *v = image[at % c * pixels + at / c];
        }
    }
}

/// `[b, t, h, w, c]` → `[b, c, t, h, w]`
fn channels_first(values: &[f32], shape: LatentShape, out: &mut [f32]) {
    let (c, pixels) = (shape.channels, shape.pixels());
    for (image, out) in values
        .chunks_exact(c * pixels)
        .zip(out.chunks_exact_mut(c * pixels))
    {
        for (at, &v) in image.iter().enumerate() {
            out[at % c * pixels + at / c] = v;
        }
    }
}
