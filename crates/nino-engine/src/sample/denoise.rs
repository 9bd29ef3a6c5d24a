//! A diffusion model as a network to sample with: prompts and latents in, predictions out.

use super::{LatentShape, SampleRequest};
use crate::fit::{Room, fit_within};
use crate::store::Lease;
use crate::{Conditioning, DiffusionModel, EngineError};
use nino_dtype::DType;
use nino_graph::{Device, Graph, Node, Plan, PlanError, RunOptions};
use nino_models::{DenoiserGraph, DenoiserShape};
use nino_sample::{Network, Stop};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What a denoiser is planned for.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanSpec {
    pub(super) shape: LatentShape,
    /// Tokens of each prompt.
    pub(super) tokens: usize,
    /// With a negative prompt.
    pub(super) guided: bool,
    /// Storage of activations.
    pub(super) dtype: DType,
    /// Bytes on the device that previews take beside it.
    pub(super) preview_bytes: usize,
}

/// A planned denoiser for latents of one size.
pub(crate) struct DenoiserPlan {
    pub(crate) plan: Arc<Plan>,
    nodes: DenoiserGraph,
    tokens: usize,
    /// Latents a run takes: every picture once, or twice when both prompts share a run.
    rows: usize,
}

/// Both prompts in one run where everything fits the device; else in one or two runs, by which moves
/// less to and from it.
pub(super) fn plan(
    device: &dyn Device,
    model: &DiffusionModel,
    spec: PlanSpec,
) -> Result<DenoiserPlan, EngineError> {
    let record = |prompts: usize| record(device, model, spec, prompts);
    if !spec.guided {
        return record(1);
    }
    let both = match record(2) {
        Ok(both) if moved(&both.plan, 1) == (0, 0) => return Ok(both),
        Err(EngineError::Plan(PlanError::OverBudget { .. })) => return record(1),
        both => both?,
    };
    match record(1) {
        Ok(one) if moved(&one.plan, 2) < moved(&both.plan, 1) => Ok(one),
        _ => Ok(both),
    }
}

/// Values kept outside, and weights streamed in so many runs.
fn moved(plan: &Plan, runs: usize) -> (usize, usize) {
    (plan.host_bytes(), plan.streamed_bytes() * runs)
}

/// A plan for runs of so many prompts.
fn record(
    device: &dyn Device,
    model: &DiffusionModel,
    spec: PlanSpec,
    prompts: usize,
) -> Result<DenoiserPlan, EngineError> {
    let rows = prompts * spec.shape.batch;
    let shape = DenoiserShape {
        rows,
        frames: 1,
        height: spec.shape.height,
        width: spec.shape.width,
        tokens: spec.tokens,
    };
    let source = model.source();
    let params = source.params(|stored| model.held(stored, device));
    // Prompts that take turns would be computed anew in each run.
    let keep = prompts == 2 || !spec.guided;
    let mut nodes = model.net().record(&params, shape, spec.dtype, keep)?;
    let graph = std::mem::replace(&mut nodes.graph, Graph::new());
    let room = Room {
        cap: Room::default()
            .bytes(device)
            .map(|bytes| bytes.saturating_sub(spec.preview_bytes)),
        ..Room::default()
    };
    Ok(DenoiserPlan {
        plan: fit_within(device, &graph, room)?,
        nodes,
        tokens: spec.tokens,
        rows,
    })
}

/// A session of a denoiser with its prompts. Buffers are made once: a step allocates nothing.
pub(super) struct Prompted<'a> {
    lease: Lease,
    plan: Arc<DenoiserPlan>,
    shape: LatentShape,
    cancel: &'a AtomicBool,
    /// Why the last forward stopped.
    error: Option<EngineError>,
    /// What a run takes beside latent and timestep, encoded: one set for both prompts, or one for each.
    fixed: Vec<Vec<(Node, Vec<u8>)>>,
    /// The set that inputs which stay between runs hold.
    written: Option<usize>,
    values: Vec<f32>,
    bytes: Vec<u8>,
}

impl<'a> Prompted<'a> {
    pub(super) fn new(
        lease: Lease,
        plan: Arc<DenoiserPlan>,
        model: &DiffusionModel,
        request: &SampleRequest<'_>,
        cancel: &'a AtomicBool,
    ) -> Result<Prompted<'a>, EngineError> {
        let shape = LatentShape::of(request.latent);
        let positive = (request.positive, false);
        let negative = request.negative(model).map(|n| (n, true));
        let both: Vec<_> = std::iter::once(positive).chain(negative).collect();
        let sets: Vec<&[(&Conditioning, bool)]> = if plan.rows == 2 * shape.batch {
            vec![&both]
        } else {
            both.chunks(1).collect()
        };
        let fixed = sets
            .iter()
            .map(|prompts| plan.fixed(prompts, model, request.cfg, shape))
            .collect::<Result<_, EngineError>>()?;
        let (graph, nodes) = (plan.plan.graph(), &plan.nodes);
        let most = [nodes.x, nodes.t, nodes.out].map(|n| (graph.shape(n).numel(), graph.bytes(n)));
        Ok(Prompted {
            values: vec![0.0; most.iter().map(|m| m.0).max().unwrap_or(0)],
            bytes: vec![0; most.iter().map(|m| m.1).max().unwrap_or(0)],
            lease,
            plan,
            shape,
            cancel,
            error: None,
            fixed,
            written: None,
        })
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
    /// The inputs that stay the same over the steps, for runs of these prompts; each is told whether it is
    /// the negative one.
    fn fixed(
        &self,
        prompts: &[(&Conditioning, bool)],
        model: &DiffusionModel,
        cfg: f32,
        shape: LatentShape,
    ) -> Result<Vec<(Node, Vec<u8>)>, EngineError> {
        let (graph, nodes) = (self.plan.graph(), &self.nodes);
        let encoded = |node: Node, values: &[f32]| -> Result<(Node, Vec<u8>), EngineError> {
            let mut bytes = vec![0; graph.bytes(node)];
            nino_dtype::encode(graph.dtype(node), values, &mut bytes)?;
            Ok((node, bytes))
        };
        let each = |part: &dyn Fn(&Conditioning, bool) -> Vec<f32>| -> Vec<f32> {
            let parts = prompts.iter().map(|(p, n)| part(p, *n).repeat(shape.batch));
            parts.flatten().collect()
        };
        let mut fixed = vec![encoded(
            nodes.context,
            &each(&|p, _| p.repeated(self.tokens)),
        )?];
        if let Some(node) = nodes.label {
            let pixels = model.pixels(shape);
            let labels = each(&|p, negative| p.label(model.family, pixels, negative));
            fixed.push(encoded(node, &labels)?);
        }
        if let Some(node) = nodes.guidance {
            let values = model.net().guidance_values(cfg).repeat(self.rows);
            fixed.push(encoded(node, &values)?);
        }
        if let Some(node) = nodes.extra {
            let extra = prompts
                .iter()
                .flat_map(|(p, _)| p.extra_values(model, shape));
            fixed.push(encoded(node, &extra.collect::<Vec<f32>>())?);
        }
        Ok(fixed)
    }
}

impl Network for &mut Prompted<'_> {
    fn forward(
        &mut self,
        input: &[f32],
        timestep: f32,
        positive: &mut [f32],
        negative: Option<&mut [f32]>,
    ) -> Result<(), Stop> {
        let both = self.fixed.len() == 1;
        let ran = match negative {
            Some(negative) if both => self.run(0, input, timestep, &mut [positive, negative]),
            Some(negative) => self
                .run(0, input, timestep, &mut [positive])
                .and_then(|()| self.run(1, input, timestep, &mut [negative])),
            // A plan for two prompts gives both; only the first is wanted.
            None => self.run(0, input, timestep, &mut [positive]),
        };
        ran.map_err(|error| {
            self.error = Some(error);
            Stop
        })
    }
}

impl Prompted<'_> {
    /// One run with a set of prompts; `outs` are the predictions of the first of them. Latents are
    /// `[b, c, h, w]` outside.
    fn run(
        &mut self,
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
        self.write(nodes.x)?;
        self.values[..numel(nodes.t)].fill(timestep);
        self.write(nodes.t)?;
        let session = self.lease.session();
        for (node, bytes) in &self.fixed[set] {
            if self.written != Some(set) || !plan.plan.keeps(*node) {
                session.write(*node, bytes)?;
            }
        }
        self.written = Some(set);
        session.run(RunOptions {
            cancel: Some(self.cancel),
            ..RunOptions::default()
        })?;
        let bytes = &mut self.bytes[..graph.bytes(nodes.out)];
        session.read(nodes.out, bytes)?;
        let values = &mut self.values[..numel(nodes.out)];
        nino_dtype::decode(graph.dtype(nodes.out), bytes, values)?;
        for (out, values) in outs.iter_mut().zip(values.chunks_exact(input.len())) {
            channels_first(values, self.shape, out);
        }
        Ok(())
    }

    /// Writes the first of `values` as an input.
    fn write(&mut self, node: Node) -> Result<(), EngineError> {
        let graph = self.plan.plan.graph();
        let bytes = &mut self.bytes[..graph.bytes(node)];
        let values = &self.values[..graph.shape(node).numel()];
        nino_dtype::encode(graph.dtype(node), values, bytes)?;
        Ok(self.lease.session().write(node, bytes)?)
    }
}

impl DiffusionModel {
    /// Width and height of the picture that a latent becomes.
    pub(super) fn pixels(&self, shape: LatentShape) -> (usize, usize) {
        let scale = self.latent_format().map_or(8, |f| f.scale_down);
        (shape.width * scale, shape.height * scale)
    }
}

/// `[b, c, h, w]` → `[b, h, w, c]`
pub(crate) fn channels_last(values: &[f32], shape: LatentShape) -> Vec<f32> {
    let mut out = vec![0.0; values.len()];
    to_channels_last(values, shape, &mut out);
    out
}

fn to_channels_last(values: &[f32], shape: LatentShape, out: &mut [f32]) {
    let (c, pixels) = (shape.channels, shape.height * shape.width);
    for (image, out) in values
        .chunks_exact(c * pixels)
        .zip(out.chunks_exact_mut(c * pixels))
    {
        for (at, v) in out.iter_mut().enumerate() {
            *v = image[at % c * pixels + at / c];
        }
    }
}

/// `[b, h, w, c]` → `[b, c, h, w]`
fn channels_first(values: &[f32], shape: LatentShape, out: &mut [f32]) {
    let (c, pixels) = (shape.channels, shape.height * shape.width);
    for (image, out) in values
        .chunks_exact(c * pixels)
        .zip(out.chunks_exact_mut(c * pixels))
    {
        for (at, &v) in image.iter().enumerate() {
            out[at % c * pixels + at / c] = v;
        }
    }
}
