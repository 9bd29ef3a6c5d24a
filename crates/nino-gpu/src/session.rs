//! A plan with its arena on the device: dispatches are made once and replayed every run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nino_graph::{
    Aside, Def, ExecError, Fetch, Node, OpTime, Place, Plan, RunOptions, Session, Transfer,
};

use crate::Gpu;
use crate::block::{Block, Window};
use crate::exec::exec_error;
use crate::kernel::Dispatch;
use crate::submit::Submitter;
use crate::weights::GpuWeights;

mod build;
mod outside;

use build::{Memory, build, pages, slots};
use outside::Kept;

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
    pages: Vec<wgpu::Buffer>,
    /// Streamed parameters pass through these.
    slots: Vec<wgpu::Buffer>,
    steps: Vec<StepRun>,
    submitter: Submitter,
    /// Values that pass through the arena.
    kept: Kept,
    /// What stays between runs is there: a run begins behind the steps that make it.
    steady: bool,
    times: Vec<OpTime>,
    weights: Arc<GpuWeights>,
}

impl GpuSession {
    pub(crate) fn new(
        gpu: Arc<Gpu>,
        plan: Arc<Plan>,
        weights: Arc<GpuWeights>,
    ) -> Result<GpuSession, ExecError> {
        let fail = |e| exec_error(e, &gpu);
        let kept = Kept::new(&gpu, &plan).map_err(fail)?;
        let pages = pages(&gpu, plan.paged_bytes().max(1), plan.options().page).map_err(fail)?;
        let slots = slots(&gpu, &plan).map_err(fail)?;
        let memory = Memory {
            weights: &weights,
            pages: &pages,
            slots: &slots,
        };
        let steps = build(&gpu, &plan, memory)?;
        let submitter =
            Submitter::new(&gpu, steps.iter().flat_map(|s| &s.dispatches)).map_err(fail)?;
        let times = Vec::new();
        Ok(GpuSession {
            gpu,
            plan,
            pages,
            slots,
            steps,
            submitter,
            kept,
            steady: false,
            times,
            weights,
        })
    }

    fn at(&self, offset: usize) -> Window<'_> {
        window(&self.pages, self.plan.options().page, offset)
    }

    fn place(&self, node: Node, len: usize) -> Result<Place, ExecError> {
        let graph = self.plan.graph();
        let (place, bytes) = (self.plan.place(node), graph.bytes(node));
        match place {
            Place::Arena(_) | Place::Across(_) | Place::Host(_) if bytes == len => Ok(place),
            Place::Arena(_) | Place::Across(_) | Place::Host(_) => Err(ExecError::WrongSize {
                name: format!("value {}", node.index()),
                expected: bytes,
                found: len,
            }),
            _ => Err(ExecError::NotInPlan {
                what: format!("value {}", node.index()),
            }),
        }
    }

    /// Sends what the next steps need to slots whose last readers, all before step `at`, are submitted:
    /// the queue keeps the order. Gives the step before which to submit, so that a slot is free as
    /// early as can be.
    fn send_weights(&self, at: usize, next: &mut usize) -> Result<usize, ExecError> {
        let fetches = self.plan.fetches();
        while let Some(fetch) = fetches.get(*next) {
            let reader = next.checked_sub(self.slots.len()).map(|k| &fetches[k]);
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
            let block = self.weights.outside.get(&spec.name).ok_or_else(missing)?;
            let to = Window {
                buffer: &self.slots[fetch.slot],
                offset: span.offset as u64,
            };
            block
                .bring(&self.gpu, &(0..spec.bytes()), to)
                .map_err(|e| exec_error(e, &self.gpu))?;
        }
        Ok(())
    }

    /// Steps whose operands pass through the arena run one at a time, with copies around them.
    fn run_with_transfers(&mut self, at: usize) -> Result<(), ExecError> {
        let (page, pages) = (self.plan.options().page, &self.pages);
        let window = |t: &Transfer| window(pages, page, t.arena);
        let (gpu, step) = (&self.gpu, &self.steps[at]);
        let fail = |e| exec_error(e, gpu);
        for t in &step.bring {
            self.kept.bring(gpu, t, window(t)).map_err(fail)?;
        }
        let Some(t) = &step.take else {
            return self.submitter.run(gpu, &self.steps[at..=at]).map_err(fail);
        };
        self.kept.bring_edges(gpu, t, window(t)).map_err(fail)?;
        self.submitter
            .submit(gpu, &self.steps[at..=at])
            .map_err(fail)?;
        self.kept.take(gpu, t, window(t)).map_err(fail)
    }
}

/// The page a byte of the arena is on, and its offset there.
fn window(pages: &[wgpu::Buffer], page: usize, at: usize) -> Window<'_> {
    Window {
        buffer: &pages[at / page],
        offset: (at % page) as u64,
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
        let gpu = &self.gpu;
        let place = self.plan.place(input);
        let written = if let Place::Arena(span) = place {
            let to = self.at(span.offset + at);
            gpu.write_within(to.buffer, to.offset, bytes)
        } else if let Some((outside, span)) = place.outside() {
            self.kept.write(gpu, outside, span.offset + at, bytes)
        } else {
            Ok(())
        };
        written.map_err(|e| exec_error(e, gpu))
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
        let gpu = &self.gpu;
        let place = self.plan.place(output);
        let read = if let Place::Arena(span) = place {
            let from = self.at(span.offset + at);
            gpu.read_within(from.buffer, from.offset, dst)
        } else if let Some((outside, span)) = place.outside() {
            self.kept.read(gpu, outside, span.offset + at, dst)
        } else {
            Ok(())
        };
        read.map_err(|e| exec_error(e, gpu))
    }

    fn set_aside(&mut self, output: Node) -> Result<Option<Aside>, ExecError> {
        let Place::Arena(span) = self.plan.place(output) else {
            return Ok(None);
        };
        let fail = |e| exec_error(e, &self.gpu);
        let mut block = Block::on_host(&self.gpu, span.bytes).map_err(fail)?;
        let taken = block.take(&self.gpu, &(0..span.bytes), self.at(span.offset));
        taken.map_err(fail)?;
        Ok(Some(Aside(Box::new(block))))
    }

    fn take_back(&mut self, input: Node, value: &Aside) -> Result<(), ExecError> {
        let missing = || ExecError::NotInPlan {
            what: format!("value {} from another session", input.index()),
        };
        let block: &Block = value.0.downcast_ref().ok_or_else(missing)?;
        self.steady &= !self.plan.keeps(input);
        let (gpu, bytes) = (&self.gpu, self.plan.graph().bytes(input));
        let fail = |e| exec_error(e, gpu);
        if let Place::Arena(span) = self.plan.place(input) {
            let to = self.at(span.offset);
            return block.bring(gpu, &(0..bytes), to).map_err(fail);
        }
        let mut read = vec![0; bytes];
        block.read(gpu, 0, &mut read).map_err(fail)?;
        self.write_part(input, 0, &read)
    }

    fn poison(&mut self) -> Result<(), ExecError> {
        self.steady = false;
        let nan = vec![0xffu8; 16 << 20];
        let fail = |e| exec_error(e, &self.gpu);
        for page in &self.pages {
            for offset in (0..page.size()).step_by(nan.len()) {
                let len = (page.size() - offset).min(nan.len() as u64) as usize;
                self.gpu.write(page, offset, &nan[..len]).map_err(fail)?;
            }
        }
        self.kept.poison(&self.gpu, &nan).map_err(fail)
    }

    fn arena_bytes(&self) -> usize {
        self.plan.arena_bytes()
    }

    fn profile(&self) -> Vec<OpTime> {
        self.times.clone()
    }
}
