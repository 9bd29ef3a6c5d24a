//! The UNet as a network to sample with: prompts and latents in, predictions out.

use super::checkpoint::Checkpoint;
use super::text::Conditioning;
use crate::EngineError;
use crate::fit::fit;
use nino_dtype::DType;
use nino_graph::{Device, Graph, Node, Plan, PlanError, RunOptions, Session};
use nino_models::unet;
use nino_sample::{Network, Stop};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A planned UNet for latents of one size.
pub(super) struct UnetPlan {
    pub(super) plan: Arc<Plan>,
    x: Node,
    /// Channels an inpaint UNet takes beside the latent.
    beside: Option<Node>,
    t: Node,
    context: Node,
    y: Option<Node>,
    guidance: Option<Node>,
    out: Node,
    /// Latents a run takes: every picture once, or twice when both prompts share a run.
    rows: usize,
}

/// Size of the latents to sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct LatentShape {
    pub(super) batch: usize,
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) channels: usize,
}

impl LatentShape {
    pub(super) fn image_len(self) -> usize {
        self.height * self.width * self.channels
    }

    /// Width and height of the picture.
    pub(super) fn pixels(self, scale: usize) -> (usize, usize) {
        (self.width * scale, self.height * scale)
    }
}

/// What a UNet is planned for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) shape: LatentShape,
    /// Of a prompt.
    pub(super) tokens: usize,
    /// With a negative prompt.
    pub(super) guided: bool,
    pub(super) dtype: DType,
}

/// Runs that plans reckon with: the steps of a usual sampling.
const RUNS: usize = 20;

/// Both prompts in one run where everything fits the device; else in one or two runs, by which takes
/// less time.
pub(super) fn plan(
    device: &dyn Device,
    model: &Checkpoint,
    wanted: Wanted,
) -> Result<UnetPlan, EngineError> {
    let record = |prompts: usize| record(device, model, wanted, prompts);
    if !wanted.guided {
        return record(1);
    }
    let both = match record(2) {
        Ok(both) if both.plan.is_on_device() => return Ok(both),
        Err(EngineError::Plan(PlanError::OverBudget { .. })) => return record(1),
        both => both?,
    };
    let time = |unet: &UnetPlan, runs| device.rates().time(&unet.plan.load(runs));
    match record(1) {
        Ok(one) if time(&one, 2 * RUNS) < time(&both, RUNS) => Ok(one),
        _ => Ok(both),
    }
}

/// Runs of so many prompts.
fn record(
    device: &dyn Device,
    model: &Checkpoint,
    wanted: Wanted,
    prompts: usize,
) -> Result<UnetPlan, EngineError> {
    let Wanted {
        shape,
        tokens,
        guided,
        dtype,
    } = wanted;
    let rows = prompts * shape.batch;
    let config = model.unet();
    let mut g = Graph::new();
    let x = g.input(
        "x",
        [rows, shape.height, shape.width, shape.channels],
        dtype,
    );
    let more = config.in_channels - shape.channels;
    let beside =
        (more > 0).then(|| g.input("beside", [rows, shape.height, shape.width, more], dtype));
    let seen = beside.map_or(x, |beside| g.concat(&[x, beside], 3));
    let t = g.input("t", [rows], DType::F32);
    let context = g.input("context", [rows, tokens, config.context_dim], dtype);
    let y = config.adm_in.map(|n| g.input("y", [rows, n], dtype));
    let guidance = config
        .guidance
        .map(|n| g.input("guidance", [rows, n], dtype));
    // Prompts that take turns would be computed anew in each run.
    if prompts == 2 || !guided {
        let fixed = [Some(context), y, guidance, beside];
        fixed.into_iter().flatten().for_each(|n| g.keep(n));
    }
    let file = model.unet_params();
    let params = file.params(|stored| model.held(stored, device));
    let inputs = unet::Inputs {
        x: seen,
        t,
        context,
        y,
        guidance,
    };
    let out = unet::unet(&mut g, &params, config, inputs);
    g.output(out);
    // Two prompts take twice as many runs one by one.
    let runs = if guided { 2 / prompts * RUNS } else { RUNS };
    let plan = fit(device, &g.finish()?, runs)?;
    Ok(UnetPlan {
        plan,
        x,
        beside,
        t,
        context,
        y,
        guidance,
        out,
        rows,
    })
}

/// A session of the UNet with its prompts. Buffers are made once: a step allocates nothing.
pub(super) struct Unet<'a> {
    session: Box<dyn Session>,
    plan: &'a UnetPlan,
    shape: LatentShape,
    cancel: &'a AtomicBool,
    /// Why the last forward stopped.
    error: &'a mut Option<EngineError>,
    /// What a run takes beside latent and timestep, encoded: one set for both prompts, or one for each.
    fixed: Vec<Vec<(Node, Vec<u8>)>>,
    /// The set that inputs which stay between runs hold.
    written: Option<usize>,
    values: Vec<f32>,
    bytes: Vec<u8>,
}

/// What stays the same over the steps.
#[derive(Clone, Copy)]
pub(super) struct Conditions<'a> {
    pub(super) positive: &'a Conditioning,
    pub(super) negative: &'a Conditioning,
    /// What an inpaint or editing UNet takes beside the latents of a batch, `[b, h, w, c]`.
    pub(super) beside: Option<&'a [f32]>,
    /// For UNets that are told the guidance.
    pub(super) cfg: f32,
}

impl<'a> Unet<'a> {
    pub(super) fn new(
        session: Box<dyn Session>,
        plan: &'a UnetPlan,
        shape: LatentShape,
        conditions: Conditions<'_>,
        cancel: &'a AtomicBool,
        error: &'a mut Option<EngineError>,
    ) -> Result<Unet<'a>, EngineError> {
        let (positive, negative) = (conditions.positive, conditions.negative);
        let both = plan.rows == 2 * shape.batch;
        let sets: &[&[&Conditioning]] = if both {
            &[&[positive, negative]]
        } else {
            &[&[positive], &[negative]]
        };
        let fixed = sets
            .iter()
            .map(|prompts| plan.fixed(prompts, shape.batch, conditions))
            .collect::<Result<_, EngineError>>()?;
        let graph = plan.plan.graph();
        let most = [plan.x, plan.t, plan.out].map(|n| (graph.shape(n).numel(), graph.bytes(n)));
        Ok(Unet {
            session,
            plan,
            shape,
            cancel,
            error,
            fixed,
            written: None,
            values: vec![0.0; most.iter().map(|m| m.0).max().unwrap_or(0)],
            bytes: vec![0; most.iter().map(|m| m.1).max().unwrap_or(0)],
        })
    }
}

impl UnetPlan {
    fn fixed(
        &self,
        prompts: &[&Conditioning],
        batch: usize,
        conditions: Conditions<'_>,
    ) -> Result<Vec<(Node, Vec<u8>)>, EngineError> {
        let graph = self.plan.graph();
        let encoded = |node: Node, values: &[f32]| -> Result<(Node, Vec<u8>), EngineError> {
            let mut bytes = vec![0; graph.bytes(node)];
            nino_dtype::encode(graph.dtype(node), values, &mut bytes)?;
            Ok((node, bytes))
        };
        let each = |part: fn(&Conditioning) -> &[f32]| -> Vec<f32> {
            let parts = prompts.iter().map(|p| part(p).repeat(batch));
            parts.flatten().collect()
        };
        let mut fixed = vec![encoded(self.context, &each(|p| &p.context))?];
        if let Some(y) = self.y {
            fixed.push(encoded(y, &each(|p| &p.vector))?);
        }
        if let Some(node) = self.guidance {
            let size = graph.shape(node).last_dim();
            let told = guidance_embedding(conditions.cfg, size).repeat(self.rows);
            fixed.push(encoded(node, &told)?);
        }
        if let (Some(node), Some(values)) = (self.beside, conditions.beside) {
            let times = graph.shape(node).numel() / values.len();
            fixed.push(encoded(node, &values.repeat(times))?);
        }
        Ok(fixed)
    }
}

impl Network for Unet<'_> {
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
            // Of a plan for two prompts only the first half is wanted.
            None => self.run(0, input, timestep, &mut [positive]),
        };
        ran.map_err(|error| {
            *self.error = Some(error);
            Stop
        })
    }
}

impl Unet<'_> {
    /// One run with a set of prompts; `outs` are the predictions of the first of them. Latents are
    /// `[b, c, h, w]` outside.
    fn run(
        &mut self,
        set: usize,
        input: &[f32],
        timestep: f32,
        outs: &mut [&mut [f32]],
    ) -> Result<(), EngineError> {
        let UnetPlan { x, t, out, .. } = *self.plan;
        let graph = self.plan.plan.graph();
        let numel = |node: Node| graph.shape(node).numel();
        for latents in self.values[..numel(x)].chunks_exact_mut(input.len()) {
            to_channels_last(input, self.shape, latents);
        }
        self.write(x)?;
        self.values[..numel(t)].fill(timestep);
        self.write(t)?;
        for (node, bytes) in &self.fixed[set] {
            if self.written != Some(set) || !self.plan.plan.keeps(*node) {
                self.session.write(*node, bytes)?;
            }
        }
        self.written = Some(set);
        self.session.run(RunOptions {
            cancel: Some(self.cancel),
            ..RunOptions::default()
        })?;
        let bytes = &mut self.bytes[..graph.bytes(out)];
        self.session.read(out, bytes)?;
        let values = &mut self.values[..numel(out)];
        nino_dtype::decode(graph.dtype(out), bytes, values)?;
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
        Ok(self.session.write(node, bytes)?)
    }
}

/// Sines and cosines of the guidance, in f32 as the models were trained with: angles are thousands, so
/// rounding shows.
fn guidance_embedding(cfg: f32, size: usize) -> Vec<f32> {
    let half = size / 2;
    let fall = -(10_000f64.ln() / (half as f64 - 1.0)) as f32;
    let angle = |i: usize| f64::from((cfg - 1.0) * 1000.0 * (i as f32 * fall).exp());
    let sines = (0..half).map(|i| angle(i).sin() as f32);
    let cosines = (0..half).map(|i| angle(i).cos() as f32);
    let mut out: Vec<f32> = sines.chain(cosines).collect();
    out.resize(size, 0.0);
    out
}

/// `[b, c, h, w]` → `[b, h, w, c]`
pub(super) fn channels_last(values: &[f32], shape: LatentShape) -> Vec<f32> {
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

#[cfg(test)]
mod tests {
    use super::guidance_embedding;

    #[test]
    fn guidance_is_embedded_as_diffusers_does() {
        let found = guidance_embedding(8.5, 256);
        let some: Vec<f32> = [0, 1, 40, 127, 128, 150, 255].map(|i| found[i]).to_vec();
        let wanted = [
            -0.85124, 0.84213, -0.68636, 0.68164, -0.52478, 0.86048, 0.73169,
        ];
        for (f, w) in some.iter().zip(wanted) {
            assert!((f - w).abs() < 2e-3, "{some:?}");
        }
    }
}
