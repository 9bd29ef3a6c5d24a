//! The graphs a clip is decoded with: its first chunk, the ones like each other after it, and what
//! is left at the end. A picture is a clip of one chunk.

use super::{DecodeOptions, LatentSize};
use crate::{EngineError, VaeFile};
use nino_dtype::DType;
use nino_graph::{Device, Node, Plan, PlanOptions, rewrite};
use nino_models::{Cache, Chunk};
use std::sync::Arc;

/// Latent frames decoded at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chunking {
    /// As many as fit the budget, 8 at most; one without a budget.
    #[default]
    Auto,
    Frames(usize),
}

/// One graph, planned, and how often it runs.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) plan: Arc<Plan>,
    pub(crate) latent: Node,
    pub(crate) pictures: Node,
    pub(crate) caches: Vec<Cache>,
    /// Latent frames a run takes.
    pub(crate) frames: usize,
    pub(crate) runs: usize,
}

pub(super) fn parts(
    device: &dyn Device,
    vae: &VaeFile,
    size: LatentSize,
    dtype: DType,
    options: &DecodeOptions,
) -> Result<Vec<Part>, EngineError> {
    let with = |chunk: usize| {
        parts_of(
            device,
            vae,
            size,
            dtype,
            options,
            chunk.min(size.frames).max(1),
        )
    };
    match options.chunking {
        Chunking::Frames(n) => with(n),
        Chunking::Auto if options.budget.is_none() || vae.vae.time_scale().is_none() => with(1),
        Chunking::Auto => {
            let inside = |parts: &Vec<Part>| parts.iter().all(|p| p.plan.host_bytes() == 0);
            for chunk in [8, 4, 2] {
                match with(chunk) {
                    Ok(parts) if inside(&parts) => return Ok(parts),
                    _ => {}
                }
            }
            with(1)
        }
    }
}

fn parts_of(
    device: &dyn Device,
    vae: &VaeFile,
    size: LatentSize,
    dtype: DType,
    options: &DecodeOptions,
    chunk: usize,
) -> Result<Vec<Part>, EngineError> {
    let rest = size.frames - chunk;
    let mut parts = vec![part(device, vae, size, dtype, options, (chunk, true, 1))?];
    if rest / chunk > 0 {
        parts.push(part(
            device,
            vae,
            size,
            dtype,
            options,
            (chunk, false, rest / chunk),
        )?);
    }
    if !rest.is_multiple_of(chunk) {
        parts.push(part(
            device,
            vae,
            size,
            dtype,
            options,
            (rest % chunk, false, 1),
        )?);
    }
    Ok(parts)
}

fn part(
    device: &dyn Device,
    vae: &VaeFile,
    size: LatentSize,
    dtype: DType,
    options: &DecodeOptions,
    (frames, first, runs): (usize, bool, usize),
) -> Result<Part, EngineError> {
    let chunk = Chunk {
        batch: 1,
        frames,
        height: size.height,
        width: size.width,
        first,
        by_frame: true,
    };
    let recording = vae.record_decoder(chunk, dtype)?;
    let graph = rewrite(&recording.graph, device.rewrites());
    let limits = PlanOptions {
        budget: None,
        ..device.plan_options()
    };
    let plan = match options.budget {
        None => Plan::new(graph, limits)?,
        Some(budget) => {
            let weights: usize = graph.params().map(|(_, p)| p.bytes()).sum();
            Plan::fit(&graph, limits, budget.saturating_sub(weights))?
        }
    };
    Ok(Part {
        plan: Arc::new(plan),
        latent: recording.input,
        pictures: recording.output,
        caches: recording.caches,
        frames,
        runs,
    })
}
