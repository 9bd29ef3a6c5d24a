//! A plan with its arena on the device: dispatches are made once and replayed every run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nino_graph::{Def, ExecError, Fetch, Node, OpTime, Place, Plan, RunOptions, Session, Transfer};

use crate::Gpu;
use crate::block::Window;
use crate::exec::exec_error;
use crate::kernel::Dispatch;
use crate::submit::Submitter;
use crate::weights::{Constants, GpuWeights};

mod arena;
pub(crate) mod build;
mod windowed;

use arena::Arena;
use build::{Buffers, Memory, build};

/// Dispatches of one step, and what crosses between host and arena around it.
#[derive(Debug)]
pub(crate) struct StepRun {
    /// Its number in the session.
    pub(crate) index: usize,
    pub(crate) node: Node,
    pub(crate) dispatches: Vec<Dispatch>,
    pub(crate) flops: f64,
    pub(crate) bytes: f64,
    bring: Vec<Transfer>,
    take: Option<Transfer>,
}

#[derive(Debug)]
pub(crate) struct GpuSession {
    gpu: Arc<Gpu>,
    plan: Arc<Plan>,
    arena: Arc<Arena>,
    steps: Vec<StepRun>,
    submitter: Submitter,
    /// What stays between runs is there: a run begins behind the steps that make it.
    steady: bool,
    times: Vec<OpTime>,
    weights: Arc<GpuWeights>,
    /// Held for the kernels that read them.
    _constants: Arc<Constants>,
}

impl GpuSession {
    /// A session for each plan, in one arena.
    pub(crate) fn new_all(
        gpu: &Arc<Gpu>,
        plans: &[Arc<Plan>],
        weights: &Arc<GpuWeights>,
    ) -> Result<Vec<GpuSession>, ExecError> {
        let arena = Arc::new(Arena::new(gpu, plans).map_err(|e| exec_error(e, gpu))?);
        let of_plans: Vec<&Plan> = plans.iter().map(|p| &**p).collect();
        let constants = Arc::new(gpu.load_constants(&of_plans)?);
        let sessions = plans.iter().map(|plan| {
            let (gpu, arena) = (Arc::clone(gpu), Arc::clone(&arena));
            let params = (Arc::clone(weights), Arc::clone(&constants));
            GpuSession::new(gpu, Arc::clone(plan), params, arena)
        });
        sessions.collect()
    }

    fn new(
        gpu: Arc<Gpu>,
        plan: Arc<Plan>,
        (weights, constants): (Arc<GpuWeights>, Arc<Constants>),
        arena: Arc<Arena>,
    ) -> Result<GpuSession, ExecError> {
        let fail = |e| exec_error(e, &gpu);
        let buffers = Buffers {
            weights: &weights,
            constants: &constants,
            pages: &arena.pages,
            slots: &arena.slots,
        };
        let memory = Memory {
            packed: &weights.packed,
            buffers: Some(buffers),
        };
        let steps = build(&gpu, &plan, memory)?;
        let submitter =
            Submitter::new(&gpu, steps.iter().flat_map(|s| &s.dispatches)).map_err(fail)?;
        let times = Vec::new();
        Ok(GpuSession {
            gpu,
            plan,
            arena,
            steps,
            submitter,
            steady: false,
            times,
            weights,
            _constants: constants,
        })
    }

    fn place(&self, node: Node, len: usize) -> Result<Place, ExecError> {
        let graph = self.plan.graph();
        let (place, bytes) = (self.plan.place(node), graph.bytes(node));
        match place {
            Place::Arena(_) | Place::Pages(_) | Place::Host(_) if bytes == len => Ok(place),
            Place::Arena(_) | Place::Pages(_) | Place::Host(_) => Err(ExecError::WrongSize {
                name: format!("value {}", node.index()),
                expected: bytes,
                found: len,
            }),
            _ => Err(ExecError::NotInPlan {
                what: format!("value {}", node.index()),
            }),
        }
    }

    /// Sends what the next steps need to slots whose last readers, all before step `at`, are
    /// submitted: the queue keeps the order. Gives the step before which to submit, so that a slot
    /// is free as early as can be.
    fn send_weights(&self, at: usize, next: &mut usize) -> Result<usize, ExecError> {
        let fetches = self.plan.fetches();
        while let Some(fetch) = fetches.get(*next) {
            let reader = next
                .checked_sub(self.arena.slots.len())
                .map(|k| &fetches[k]);
            if let Some(reader) = reader.filter(|r| r.steps.end > at) {
                return Ok(reader.steps.end);
            }
            self.send(fetch)?;
            *next += 1;
        }
        Ok(self.steps.len())
    }

    fn send(&self, fetch: &Fetch) -> Result<(), ExecError> {
        for (node, span) in &fetch.params {
            let Def::Param(spec) = &self.plan.graph().value(*node).def else {
                continue;
            };
            let missing = || ExecError::NotInPlan {
                what: format!("weight {:?}", spec.name),
            };
            let (block, at) = self.weights.outside.find(&spec.name).ok_or_else(missing)?;
            let bytes = at.start..at.start + spec.bytes();
            let to = Window {
                buffer: &self.arena.slots[fetch.slot],
                offset: span.offset as u64,
            };
            block
                .bring(&self.gpu, &bytes, to)
                .map_err(|e| exec_error(e, &self.gpu))?;
        }
        Ok(())
    }

    /// Steps whose operands pass through the arena run one at a time, with copies around them.
    fn run_with_transfers(&mut self, at: usize) -> Result<(), ExecError> {
        let (gpu, arena, step) = (&self.gpu, &self.arena, &self.steps[at]);
        let fail = |e| exec_error(e, gpu);
        for t in &step.bring {
            arena.bring(gpu, t).map_err(fail)?;
        }
        let Some(t) = &step.take else {
            return self.submitter.run(gpu, &self.steps[at..=at]).map_err(fail);
        };
        arena.bring_edges(gpu, t).map_err(fail)?;
        self.submitter
            .submit(gpu, &self.steps[at..=at])
            .map_err(fail)?;
        arena.take(gpu, t).map_err(fail)
    }
}

impl Drop for GpuSession {
    fn drop(&mut self) {
        // wgpu does not know what recorded commands use.
        let _ = self.gpu.wait();
    }
}

impl Session for GpuSession {
    fn write(&mut self, input: Node, bytes: &[u8]) -> Result<(), ExecError> {
        self.place(input, bytes.len())?;
        self.write_part(input, 0, bytes)
    }

    fn write_part(&mut self, input: Node, at: usize, bytes: &[u8]) -> Result<(), ExecError> {
        self.steady &= !self.plan.keeps(input);
        let place = self.plan.place(input);
        let written = self.arena.write(&self.gpu, place, at, bytes);
        written.map_err(|e| exec_error(e, &self.gpu))
    }

    fn clear(&mut self, input: Node) -> Result<(), ExecError> {
        self.steady &= !self.plan.keeps(input);
        let cleared = self.arena.clear(&self.gpu, self.plan.place(input));
        cleared.map_err(|e| exec_error(e, &self.gpu))
    }

    fn run(&mut self, options: RunOptions<'_>) -> Result<(), ExecError> {
        self.times.clear();
        // An earlier run may have ended early.
        self.submitter
            .finish(&self.gpu)
            .map_err(|e| exec_error(e, &self.gpu))?;
        let steady_steps = self.plan.steady_steps();
        let mut at = if self.steady { steady_steps } else { 0 };
        let mut fetched = self.plan.first_fetch(at);
        while at < self.steps.len() {
            self.steady |= at >= steady_steps;
            options.done(at);
            if options.cancelled() {
                self.gpu.wait().map_err(|e| exec_error(e, &self.gpu))?;
                return Err(ExecError::Cancelled);
            }
            let mut end = self.send_weights(at, &mut fetched)?;
            if at < steady_steps {
                // Later runs begin here: what is recorded now serves them too.
                end = end.min(steady_steps);
            }
            let crosses = |s: &StepRun| !s.bring.is_empty() || s.take.is_some();
            if crosses(&self.steps[at]) {
                let begun = Instant::now();
                self.run_with_transfers(at)?;
                if options.profile {
                    self.gpu.wait().map_err(|e| exec_error(e, &self.gpu))?;
                    let (node, time) = (self.steps[at].node, begun.elapsed());
                    self.times.push(OpTime { node, time });
                }
                at += 1;
                continue;
            }
            let limit = if options.profile { 1024 } else { usize::MAX };
            let inside = self.steps[at..end]
                .iter()
                .take(limit)
                .take_while(|s| !crosses(s))
                .count();
            let steps = &self.steps[at..at + inside];
            if options.profile {
                let times = self.submitter.profile(&self.gpu, steps);
                let times = times.map_err(|e| exec_error(e, &self.gpu))?;
                self.times
                    .extend(steps.iter().zip(times).map(|(s, seconds)| OpTime {
                        node: s.node,
                        time: Duration::from_secs_f64(seconds),
                    }));
                at += inside;
            } else {
                let done = self.submitter.submit(&self.gpu, steps);
                at += done.map_err(|e| exec_error(e, &self.gpu))?;
            }
        }
        self.steady = true;
        self.submitter
            .finish(&self.gpu)
            .map_err(|e| exec_error(e, &self.gpu))
    }

    fn read(&mut self, output: Node, dst: &mut [u8]) -> Result<(), ExecError> {
        self.place(output, dst.len())?;
        self.read_part(output, 0, dst)
    }

    fn read_part(&mut self, output: Node, at: usize, dst: &mut [u8]) -> Result<(), ExecError> {
        let place = self.plan.place(output);
        let read = self.arena.read(&self.gpu, place, at, dst);
        read.map_err(|e| exec_error(e, &self.gpu))
    }

    fn poison(&mut self) -> Result<(), ExecError> {
        self.steady = false;
        let poisoned = self.arena.poison(&self.gpu);
        poisoned.map_err(|e| exec_error(e, &self.gpu))
    }

    fn arena_bytes(&self) -> usize {
        self.arena.bytes()
    }

    fn profile(&self) -> Vec<OpTime> {
        self.times.clone()
    }
}
