//! A session: the plan's arena and the loop over its steps.
//!
//! Scratch is allocated with the session, for the op that needs most; a run allocates nothing of
//! size. Values that a plan keeps outside the arena live in a temporary file and pass through their
//! windows.

mod bind;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nino_graph::{
    ExecError, Node, OpTime, ParamError, ParamSource, ParamSpec, Place, Plan, RunOptions, Step,
};

use crate::memory::Buffer;
use crate::params::{Param, Params, fetched, roles};
use crate::simd::Level;
use crate::spill::Spill;
use crate::stream::{Fetched, Stream};
use crate::team::{Scratch, Team};
use crate::threads::Threads;

pub(crate) struct Session {
    plan: Arc<Plan>,
    weights: Arc<Params>,
    /// Parameters whose values the plan carries.
    constants: BTreeMap<Node, Param>,
    /// Parameters that were fetched for the op that runs.
    fetched: Fetched,
    stream: Option<Stream>,
    arena: Buffer,
    outside: Option<Spill>,
    scratch: Vec<Scratch>,
    threads: Arc<Threads>,
    level: Level,
    /// What stays between runs is there: a run begins behind the steps that make it.
    steady: bool,
    times: Vec<OpTime>,
}

struct NoSource;

impl ParamSource for NoSource {
    fn read(&self, param: &ParamSpec, _: &mut [u8]) -> Result<(), ParamError> {
        Err(ParamError {
            name: param.name.clone(),
            what: "has no values".to_owned(),
        })
    }
}

impl Session {
    pub(crate) fn new(
        plan: Arc<Plan>,
        weights: Arc<Params>,
        threads: Arc<Threads>,
        level: Level,
    ) -> Result<Session, ExecError> {
        let (mut constants, mut outlines) = (BTreeMap::new(), Fetched::new());
        let streamed = fetched(&plan);
        for (node, (spec, roles)) in roles(plan.graph()) {
            if streamed.contains(&node) {
                outlines.insert(node, Param::outline(level, spec, &roles)?);
            } else if spec.inline.is_some() {
                constants.insert(node, Param::new(level, spec, &roles, &NoSource)?);
            } else if weights.find(&spec.name).is_none() {
                return Err(ExecError::NotInPlan {
                    what: format!("weight {:?}", spec.name),
                });
            }
        }
        let outside = match plan.host_bytes() {
            0 => None,
            bytes => Some(Spill::new(bytes as u64)?),
        };
        let mut session = Session {
            arena: Buffer::new(plan.arena_bytes(), "the arena")?,
            plan,
            weights,
            constants,
            fetched: outlines,
            stream: None,
            outside,
            scratch: Vec::new(),
            threads,
            level,
            steady: false,
            times: Vec::new(),
        };
        let need = session.scratch_bytes()?;
        session.start_stream()?;
        let threads = session.threads.count();
        session.scratch = (0..threads)
            .map(|_| Scratch::new(need))
            .collect::<Result<_, _>>()?;
        tracing::debug!(
            arena = session.arena.len(),
            scratch = need,
            threads,
            level = level.name(),
            "session"
        );
        Ok(session)
    }

    /// Begins to read what the first ops of the next run need.
    fn start_stream(&mut self) -> Result<(), ExecError> {
        self.fetched.clear();
        if !self.plan.fetches().is_empty() {
            let (plan, source) = (self.plan.clone(), self.weights.source.clone());
            let first = plan.first_fetch(self.first_step());
            self.stream = Some(Stream::start(plan, source, self.level, first)?);
        }
        Ok(())
    }

    /// Where a run begins.
    fn first_step(&self) -> usize {
        if self.steady {
            self.plan.steady_steps()
        } else {
            0
        }
    }

    /// The next run begins with the first step again.
    fn forget_steady(&mut self) -> Result<(), ExecError> {
        if std::mem::take(&mut self.steady) {
            self.start_stream()?;
        }
        Ok(())
    }

    /// Step `i`, with its parameters brought in before and let go after.
    fn step_with_fetch(&mut self, i: usize, next: &mut usize) -> Result<(), ExecError> {
        let fetch = self.plan.fetches().get(*next).map(|f| f.steps.clone());
        if fetch.as_ref().is_some_and(|steps| steps.start == i)
            && let Some(stream) = &self.stream
        {
            self.fetched = stream.next()?;
        }
        let step = &self.plan.steps()[i];
        self.transfer(step, false)?;
        // SAFETY: the plan gives operands and result places that the kernels' contracts allow.
        unsafe { self.step(step)? };
        self.transfer(step, true)?;
        if fetch.is_some_and(|steps| steps.end == i + 1) {
            self.fetched.clear();
            *next += 1;
        }
        Ok(())
    }

    fn run_steps(&mut self, options: RunOptions<'_>) -> Result<(), ExecError> {
        let mut spent = Duration::ZERO;
        let first = self.first_step();
        let mut next = self.plan.first_fetch(first);
        for i in first..self.plan.steps().len() {
            self.steady |= i == self.plan.steady_steps();
            if options.cancelled() {
                return Err(ExecError::Cancelled);
            }
            let started = options.profile.then(Instant::now);
            self.step_with_fetch(i, &mut next)?;
            options.done(i + 1);
            if let Some(started) = started {
                spent += started.elapsed();
                let step = &self.plan.steps()[i];
                if step.last {
                    self.times.push(OpTime {
                        node: step.node,
                        time: spent,
                    });
                    spent = Duration::ZERO;
                }
            }
        }
        self.steady = true;
        Ok(())
    }

    fn team(&self) -> Team<'_> {
        Team {
            threads: &self.threads,
            scratch: &self.scratch,
            level: self.level,
        }
    }

    fn size_of(&self, node: Node, found: usize) -> Result<usize, ExecError> {
        if node.index() >= self.plan.graph().len() {
            return Err(ExecError::NotInPlan {
                what: format!("value {}", node.index()),
            });
        }
        let expected = self.plan.graph().bytes(node);
        if expected != found {
            let name = match &self.plan.graph().value(node).def {
                nino_graph::Def::Input { name } => format!("input {name:?}"),
                _ => self.plan.graph().op_label(node),
            };
            return Err(ExecError::WrongSize {
                name,
                expected,
                found,
            });
        }
        Ok(expected)
    }

    /// Brings the rows of a step that live outside into the arena, or takes its result out.
    fn transfer(&self, step: &Step, result: bool) -> Result<(), ExecError> {
        let Some(outside) = &self.outside else {
            return Ok(());
        };
        let (operands, out) = self.plan.transfers(step);
        let arena = self.arena.as_ptr();
        if result {
            if let Some(t) = out {
                // SAFETY: the plan keeps windows within the arena, and no kernel runs now.
                let bytes =
                    unsafe { std::slice::from_raw_parts(arena.add(t.arena), t.bytes.len()) };
                outside.write(t.bytes.start as u64, bytes)?;
            }
            return Ok(());
        }
        for t in operands {
            // SAFETY: as above.
            let bytes =
                unsafe { std::slice::from_raw_parts_mut(arena.add(t.arena), t.bytes.len()) };
            outside.read(t.bytes.start as u64, bytes)?;
        }
        Ok(())
    }
}

impl nino_graph::Session for Session {
    fn write(&mut self, input: Node, bytes: &[u8]) -> Result<(), ExecError> {
        self.size_of(input, bytes.len())?;
        self.write_part(input, 0, bytes)
    }

    fn write_part(&mut self, input: Node, at: usize, bytes: &[u8]) -> Result<(), ExecError> {
        if self.plan.keeps(input) {
            self.forget_steady()?;
        }
        match self.plan.place(input) {
            Place::Arena(span) => {
                let value = &mut self.arena.as_mut_slice()[span.offset..span.offset + span.bytes];
                value[at..at + bytes.len()].copy_from_slice(bytes);
            }
            Place::Host(span) => {
                if let Some(outside) = &self.outside {
                    outside.write((span.offset + at) as u64, bytes)?;
                }
            }
            Place::Param => {
                return Err(ExecError::NotInPlan {
                    what: "a parameter as an input".to_owned(),
                });
            }
            Place::Across(_) | Place::Nowhere => {}
        }
        Ok(())
    }

    fn run(&mut self, options: RunOptions<'_>) -> Result<(), ExecError> {
        self.times.clear();
        let ran = self.run_steps(options);
        if ran.is_err() && self.stream.take().is_some() {
            // The thread is somewhere in the middle: the next run begins with a new one.
            self.start_stream()?;
        }
        ran
    }

    fn read(&mut self, output: Node, dst: &mut [u8]) -> Result<(), ExecError> {
        self.size_of(output, dst.len())?;
        self.read_part(output, 0, dst)
    }

    fn read_part(&mut self, output: Node, at: usize, dst: &mut [u8]) -> Result<(), ExecError> {
        match self.plan.place(output) {
            Place::Arena(span) => {
                let value = &self.arena.as_slice()[span.offset..span.offset + span.bytes];
                dst.copy_from_slice(&value[at..at + dst.len()]);
            }
            Place::Host(span) => {
                if let Some(outside) = &self.outside {
                    outside.read((span.offset + at) as u64, dst)?;
                }
            }
            Place::Param => match self.param(output)?.raw() {
                Some(raw) => dst.copy_from_slice(&raw.as_slice()[at..at + dst.len()]),
                None => {
                    return Err(ExecError::NotInPlan {
                        what: "this parameter as an output".to_owned(),
                    });
                }
            },
            Place::Across(_) | Place::Nowhere => {
                return Err(ExecError::NotInPlan {
                    what: self.plan.graph().op_label(output),
                });
            }
        }
        Ok(())
    }

    fn poison(&mut self) -> Result<(), ExecError> {
        // All ones is NaN in f32, f16 and bf16.
        self.arena.as_mut_slice().fill(0xff);
        self.forget_steady()
    }

    fn arena_bytes(&self) -> usize {
        self.arena.len()
    }

    fn profile(&self) -> Vec<OpTime> {
        self.times.clone()
    }
}
