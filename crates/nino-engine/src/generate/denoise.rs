//! The UNet as a network to sample with: prompts and latents in, predictions out.

use super::checkpoint::Checkpoint;
use super::text::Conditioning;
use crate::EngineError;
use crate::fit::fit;
use crate::values::{read, write};
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

/// Both prompts in one run where that fits the budget, else one after the other.
pub(super) fn plan(
    device: &dyn Device,
    model: &Checkpoint,
    shape: LatentShape,
    tokens: usize,
    guided: bool,
    dtype: DType,
) -> Result<UnetPlan, EngineError> {
    if guided {
        match record(device, model, shape, tokens, 2 * shape.batch, dtype) {
            Err(EngineError::Plan(PlanError::OverBudget { .. })) => {}
            other => return other,
        }
    }
    record(device, model, shape, tokens, shape.batch, dtype)
}

fn record(
    device: &dyn Device,
    model: &Checkpoint,
    shape: LatentShape,
    tokens: usize,
    rows: usize,
    dtype: DType,
) -> Result<UnetPlan, EngineError> {
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
    let file = model.unet_params();
    let params = file.params(|stored| model.held(stored, device));
    let inputs = unet::Inputs {
        x: seen,
        t,
        context,
        y,
    };
    let out = unet::unet(&mut g, &params, config, inputs);
    g.output(out);
    let plan = fit(device, &g.finish()?)?;
    Ok(UnetPlan {
        plan,
        x,
        beside,
        t,
        context,
        y,
        out,
        rows,
    })
}

impl UnetPlan {
    /// Writes what an inpaint UNet takes beside the latents of a batch, `[b, h, w, c]`, once for all steps.
    pub(super) fn write_beside(
        &self,
        session: &mut dyn Session,
        values: &[f32],
    ) -> Result<(), EngineError> {
        let Some(beside) = self.beside else {
            return Ok(());
        };
        let graph = self.plan.graph();
        let times = graph.shape(beside).numel() / values.len();
        write(session, graph, beside, &values.repeat(times))
    }
}

/// A session of the UNet with its prompts.
pub(super) struct Unet<'a> {
    pub(super) session: Box<dyn Session>,
    pub(super) plan: &'a UnetPlan,
    pub(super) shape: LatentShape,
    pub(super) positive: &'a Conditioning,
    pub(super) negative: &'a Conditioning,
    pub(super) cancel: &'a AtomicBool,
    /// Why the last forward stopped.
    pub(super) error: &'a mut Option<EngineError>,
}

impl Network for Unet<'_> {
    fn forward(
        &mut self,
        input: &[f32],
        timestep: f32,
        positive: &mut [f32],
        negative: Option<&mut [f32]>,
    ) -> Result<(), Stop> {
        let both = self.plan.rows == 2 * self.shape.batch;
        let ran = match negative {
            Some(negative) if both => self.run(
                input,
                timestep,
                &[self.positive, self.negative],
                &mut [positive, negative],
            ),
            Some(negative) => self
                .run(input, timestep, &[self.positive], &mut [positive])
                .and_then(|()| self.run(input, timestep, &[self.negative], &mut [negative])),
            None if both => {
                // A plan for two prompts asked for one: the second half is the same again.
                let mut unused = vec![0.0; positive.len()];
                self.run(
                    input,
                    timestep,
                    &[self.positive, self.positive],
                    &mut [positive, &mut unused],
                )
            }
            None => self.run(input, timestep, &[self.positive], &mut [positive]),
        };
        ran.map_err(|error| {
            *self.error = Some(error);
            Stop
        })
    }
}

impl Unet<'_> {
    /// One run with a prompt for each part of the batch. Latents are `[b, c, h, w]` outside.
    fn run(
        &mut self,
        input: &[f32],
        timestep: f32,
        prompts: &[&Conditioning],
        outs: &mut [&mut [f32]],
    ) -> Result<(), EngineError> {
        let UnetPlan {
            plan,
            x,
            t,
            context,
            y,
            out,
            rows,
            ..
        } = self.plan;
        let graph = plan.graph();
        let last = channels_last(input, self.shape);
        let batch = self.shape.batch;
        let repeat = |values: &[f32]| values.repeat(prompts.len());
        let contexts: Vec<f32> = prompts
            .iter()
            .flat_map(|p| p.context.repeat(batch))
            .collect();
        write(&mut *self.session, graph, *x, &repeat(&last))?;
        write(&mut *self.session, graph, *t, &vec![timestep; *rows])?;
        write(&mut *self.session, graph, *context, &contexts)?;
        if let Some(y) = y {
            let vectors: Vec<f32> = prompts
                .iter()
                .flat_map(|p| p.vector.repeat(batch))
                .collect();
            write(&mut *self.session, graph, *y, &vectors)?;
        }
        self.session.run(RunOptions {
            cancel: Some(self.cancel),
            profile: false,
        })?;
        let values = read(&mut *self.session, graph, *out)?;
        let each = values.len() / prompts.len();
        for (out, values) in outs.iter_mut().zip(values.chunks_exact(each)) {
            channels_first(values, self.shape, out);
        }
        Ok(())
    }
}

/// `[b, c, h, w]` → `[b, h, w, c]`
pub(super) fn channels_last(values: &[f32], shape: LatentShape) -> Vec<f32> {
    let (c, pixels) = (shape.channels, shape.height * shape.width);
    let mut out = vec![0.0; values.len()];
    for (image, out) in values
        .chunks_exact(c * pixels)
        .zip(out.chunks_exact_mut(c * pixels))
    {
        for (at, v) in out.iter_mut().enumerate() {
            *v = image[at % c * pixels + at / c];
        }
    }
    out
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
