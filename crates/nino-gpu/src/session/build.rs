//! A session's steps as dispatches.

use std::collections::BTreeMap;

use nino_graph::{ExecError, Fetch, Node, Plan, Step};

use super::StepRun;
use crate::Gpu;
use crate::exec::exec_error;
use crate::kernel::View;
use crate::lower::Lower;
use crate::weights::GpuWeights;

/// Where a session's values and parameters are.
#[derive(Clone, Copy)]
pub(super) struct Memory<'a> {
    pub(super) weights: &'a GpuWeights,
    pub(super) pages: &'a [wgpu::Buffer],
    pub(super) slots: &'a [wgpu::Buffer],
}

pub(super) fn build(gpu: &Gpu, plan: &Plan, memory: Memory<'_>) -> Result<Vec<StepRun>, ExecError> {
    let fail = |e| exec_error(e, gpu);
    let fetches: BTreeMap<Node, &Fetch> = plan.fetches().iter().map(|f| (f.node, f)).collect();
    let mut launches = Vec::with_capacity(plan.steps().len());
    for step in plan.steps() {
        let fetch = fetches.get(&step.node).copied();
        let lower = lower(gpu, plan, memory, fetch, step)?;
        launches.push(lower.launches().map_err(fail)?);
    }
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
    gpu: &'a Gpu,
    plan: &'a Plan,
    Memory {
        weights,
        pages,
        slots,
    }: Memory<'a>,
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
                buffer: &pages[at / page],
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
                Some((&slots[f.slot], span.offset as u64))
            });
            let resident = || weights.buffers.get(&spec.name).map(|b| (&**b, 0));
            let (buffer, offset) = fetched.or_else(resident).ok_or_else(missing)?;
            View {
                offset,
                bytes: graph.bytes(used.node) as u64,
                ..View::whole(buffer, dtype)
            }
        };
        views.push(view);
    }
    let out = views.pop().ok_or_else(|| ExecError::NotInPlan {
        what: "a result".to_owned(),
    })?;
    let span = plan.scratch(step.node);
    let scratch = (span.bytes > 0).then(|| View {
        buffer: &pages[span.offset / page],
        offset: (span.offset % page) as u64,
        bytes: span.bytes as u64,
        dtype: nino_dtype::DType::F32,
        first: 0,
    });
    let packed = match graph.op(step.node) {
        Some(nino_graph::Op::Conv(o)) => weights.is_packed(graph, o.w),
        _ => false,
    };
    let (node, rows, last) = (step.node, step.rows.clone(), step.last);
    Ok(Lower {
        gpu,
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
