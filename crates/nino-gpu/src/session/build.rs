//! A session's steps as dispatches.

use std::collections::{BTreeMap, HashSet};

use nino_graph::{ExecError, Fetch, Node, Plan, Step};

use super::StepRun;
use crate::block::Window;
use crate::exec::exec_error;
use crate::kernel::{Launch, View};
use crate::lower::Lower;
use crate::weights::{Constants, GpuWeights};
use crate::{Caps, Gpu, GpuError};

/// Where a session's values and parameters are.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    /// Names of the 3x3 weights that are stored packed.
    pub(crate) packed: &'a HashSet<String>,
    /// Nothing where a plan is lowered for a device that is not there.
    pub(crate) buffers: Option<Buffers<'a>>,
}

#[derive(Clone, Copy)]
pub(crate) struct Buffers<'a> {
    pub(crate) weights: &'a GpuWeights,
    pub(crate) constants: &'a Constants,
    pub(crate) pages: &'a [wgpu::Buffer],
    pub(crate) slots: &'a [wgpu::Buffer],
}

impl<'a> Buffers<'a> {
    /// Where a parameter is: in a slot where it is fetched, or where it stays.
    fn param(&self, name: &str, fetched: Option<(usize, u64)>) -> Option<Window<'a>> {
        if let Some((slot, offset)) = fetched {
            let buffer = self.slots.get(slot)?;
            return Some(Window { buffer, offset });
        }
        let constant = self.constants.find(name);
        let (buffer, bytes) = constant.or_else(|| self.weights.resident.find(name))?;
        let offset = bytes.start as u64;
        Some(Window { buffer, offset })
    }
}

/// Every step's launches, in the order of the steps.
pub(crate) fn launches<'a>(
    caps: &'a Caps,
    plan: &'a Plan,
    memory: Memory<'a>,
) -> impl Iterator<Item = Result<Vec<Launch<'a>>, LowerError>> {
    let fetches: BTreeMap<Node, &Fetch> = plan.fetches().iter().map(|f| (f.node, f)).collect();
    plan.steps().iter().map(move |step| {
        let fetch = fetches.get(&step.node).copied();
        let lowered = lower(caps, plan, memory, fetch, step).map_err(LowerError::Plan)?;
        lowered.launches().map_err(LowerError::Gpu)
    })
}

/// Why a step has no launches: the plan lacks a value, or there is no kernel.
pub(crate) enum LowerError {
    Plan(ExecError),
    Gpu(GpuError),
}

pub(super) fn build(gpu: &Gpu, plan: &Plan, memory: Memory<'_>) -> Result<Vec<StepRun>, ExecError> {
    let fail = |e| exec_error(e, gpu);
    let launches = launches(&gpu.caps, plan, memory).collect::<Result<Vec<_>, _>>();
    let launches = launches.map_err(|e| match e {
        LowerError::Plan(e) => e,
        LowerError::Gpu(e) => fail(e),
    })?;
    let kernels = launches.iter().flatten().map(|l| l.kernel.clone());
    let mut kernels: Vec<_> = kernels.collect();
    kernels.sort();
    kernels.dedup();
    gpu.prepare(&kernels).map_err(fail)?;
    let mut slots = 0..;
    let steps = plan.steps().iter().zip(launches).enumerate();
    let steps = steps.map(|(index, (step, launches))| {
        let cost = plan.step_cost(step);
        let (bring, take) = plan.transfers(step);
        let dispatches = launches
            .iter()
            .map(|l| gpu.dispatch(l))
            .collect::<Result<Vec<_>, _>>();
        let mut dispatches = dispatches.map_err(fail)?;
        dispatches
            .iter_mut()
            .zip(&mut slots)
            .for_each(|(d, slot)| d.slot = slot);
        let (flops, bytes) = (cost.flops, cost.bytes);
        Ok(StepRun {
            index,
            node: step.node,
            dispatches,
            flops,
            bytes,
            bring,
            take,
        })
    });
    steps.collect()
}

fn lower<'a>(
    caps: &'a Caps,
    plan: &'a Plan,
    memory: Memory<'a>,
    fetch: Option<&Fetch>,
    step: &Step,
) -> Result<Lower<'a>, ExecError> {
    let graph = plan.graph();
    let page = plan.limits().page;
    let mut views = Vec::new();
    for (i, used) in graph.uses(step.node, &step.rows).iter().enumerate() {
        let dtype = graph.dtype(used.node);
        let missing = || ExecError::NotInPlan {
            what: format!("value {}", used.node.index()),
        };
        let view = if let Some(at) = plan.locate(step.node, i, used) {
            View {
                buffer: memory.buffers.map(|b| &b.pages[at / page]),
                offset: (at % page) as u64,
                bytes: used.bytes.len() as u64,
                dtype,
                first: (used.bytes.start / dtype.block_bytes() * dtype.block_len()) as u64,
            }
        } else {
            let nino_graph::Def::Param(spec) = &graph.value(graph.root(used.node)).def else {
                return Err(missing());
            };
            let root = graph.root(used.node);
            let fetched = fetch.and_then(|f| {
                let (_, span) = f.params.iter().find(|(node, _)| *node == root)?;
                Some((f.slot, span.offset as u64))
            });
            let find = |b: Buffers<'a>| b.param(&spec.name, fetched).ok_or_else(missing);
            let place = memory.buffers.map(find).transpose()?;
            View {
                buffer: place.map(|p| p.buffer),
                // Aligned wherever it is, so that kernels are the same.
                offset: place.map_or(0, |p| p.offset),
                bytes: graph.bytes(used.node) as u64,
                dtype,
                first: 0,
            }
        };
        views.push(view);
    }
    let out = views.pop().ok_or_else(|| ExecError::NotInPlan {
        what: "a result".to_owned(),
    })?;
    let span = plan.scratch(step.node);
    let scratch = (span.bytes > 0).then(|| View {
        buffer: memory.buffers.map(|b| &b.pages[span.offset / page]),
        offset: (span.offset % page) as u64,
        bytes: span.bytes as u64,
        dtype: nino_dtype::DType::F32,
        first: 0,
    });
    let packed = match graph.op(step.node) {
        Some(nino_graph::Op::Conv(o)) => match &graph.value(graph.root(o.w)).def {
            nino_graph::Def::Param(spec) => memory.packed.contains(&spec.name),
            _ => false,
        },
        _ => false,
    };
    let (node, rows, last) = (step.node, step.rows.clone(), step.last);
    Ok(Lower {
        caps,
        graph,
        node,
        rows,
        last,
        operands: views,
        out,
        scratch,
        packed,
    })
}
