//! A session: the plan's arena and the loop over its steps.
//!
//! Scratch is allocated with the sessions of an arena, for the op that needs most; a run allocates
//! nothing of size. Values that a plan keeps outside the arena live in a temporary file and pass
//! through their windows.

mod arena;
mod bind;
mod operands;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use nino_graph::{
    ArenaSize, ExecError, Node, OpTime, ParamError, ParamSource, ParamSpec, Place, Plan,
    RunOptions, Step, Transfer,
};

use crate::params::{Param, Params, fetched, roles};
use crate::simd::Level;
use crate::stream::{Fetched, Stream};
use crate::team::{Scratch, Team};
use crate::threads::Threads;
use arena::Arena;

pub(crate) struct Session {
    plan: Arc<Plan>,
    weights: Arc<Params>,
    /// Parameters whose values the plan carries.
    constants: BTreeMap<Node, Param>,
    /// Parameters that were fetched for the op that runs.
    fetched: Fetched,
    stream: Option<Stream>,
    arena: Arena,
    /// One piece of scratch for each thread, shared by all sessions of the arena.
    scratch: Arc<[Scratch]>,
    threads: Arc<Threads>,
    level: Level,
    /// Whether the values that stay between runs have been computed. A run then begins behind the
    /// steps that compute them.
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

/// Opens a session for each plan, all in one arena. Values outside it are in a file in `temp_dir`.
pub(crate) fn sessions(
    plans: &[Arc<Plan>],
    weights: &Arc<Params>,
    threads: &Arc<Threads>,
    level: Level,
    temp_dir: Option<&Path>,
) -> Result<Vec<Session>, ExecError> {
    let size = ArenaSize::of(plans.iter().map(|p| &**p));
    let arena = Arena::new(size, threads, temp_dir)?;
    let make = |plan: &Arc<Plan>| {
        let (plan, weights) = (plan.clone(), weights.clone());
        Session::new(plan, weights, threads.clone(), level, arena.clone())
    };
    let mut sessions = plans.iter().map(make).collect::<Result<Vec<_>, _>>()?;
    let mut need = 0;
    for session in &sessions {
        need = need.max(session.scratch_bytes()?);
    }
    let scratch: Result<Arc<[_]>, _> = (0..threads.count()).map(|_| Scratch::new(need)).collect();
    let scratch = scratch?;
    for session in &mut sessions {
        session.scratch = scratch.clone();
        session.fetched.clear();
        if plans.len() == 1 {
            session.start_stream()?;
        }
    }
    tracing::debug!(
        plans = plans.len(),
        arena = arena.len(),
        scratch = need,
        threads = threads.count(),
        level = level.name(),
        "session"
    );
    Ok(sessions)
}

impl Session {
    fn new(
        plan: Arc<Plan>,
        weights: Arc<Params>,
        threads: Arc<Threads>,
        level: Level,
        arena: Arena,
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
        Ok(Session {
            arena,
            plan,
            weights,
            constants,
            fetched: outlines,
            stream: None,
            scratch: Arc::new([]),
            threads,
            level,
            steady: false,
            times: Vec::new(),
        })
    }

    /// Begins to read the parameters that the first ops of the next run need.
    fn start_stream(&mut self) -> Result<(), ExecError> {
        self.fetched.clear();
        if !self.plan.fetches().is_empty() {
            let (plan, source) = (self.plan.clone(), self.weights.source.clone());
            let first = plan.first_fetch(self.first_step());
            self.stream = Some(Stream::start(plan, source, self.level, first)?);
        }
        Ok(())
    }

    /// Gives the step at which a run begins.
    fn first_step(&self) -> usize {
        if self.steady {
            self.plan.steady_steps()
        } else {
            0
        }
    }

    /// Makes the next run begin with the first step again.
    fn forget_steady(&mut self) -> Result<(), ExecError> {
        if std::mem::take(&mut self.steady) {
            self.start_stream()?;
        }
        Ok(())
    }

    /// Runs step `i`. Its streamed parameters are fetched before and dropped after.
    fn step_with_fetch(
        &mut self,
        i: usize,
        next: &mut usize,
        options: &RunOptions<'_>,
    ) -> Result<(), ExecError> {
        let fetch = self.plan.fetches().get(*next).map(|f| f.steps.clone());
        if fetch.as_ref().is_some_and(|steps| steps.start == i)
            && let Some(stream) = &self.stream
        {
            self.fetched = stream.next()?;
        }
        let step = &self.plan.steps()[i];
        self.transfer(step, false)?;
        // SAFETY: the step is the plan's, its operands are in the arena, and `&mut self` keeps
        // others out; sessions that share the arena wait for each other
        // ([`nino_graph::taking_turns`]).
        unsafe { self.step(step, options.cancel)? };
        if options.cancelled() {
            return Err(ExecError::Cancelled);
        }
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
            let started = options.profile.then(Instant::now);
            self.step_with_fetch(i, &mut next, &options)?;
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

    fn team<'a>(&'a self, cancel: Option<&'a AtomicBool>) -> Team<'a> {
        Team {
            threads: &self.threads,
            scratch: &self.scratch,
            level: self.level,
            cancel,
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

    /// Moves the rows of a step that live outside into the arena, or with `result` moves its result
    /// out.
    fn transfer(&self, step: &Step, result: bool) -> Result<(), ExecError> {
        let Some(outside) = self.arena.outside() else {
            return Ok(());
        };
        let inside = |t: &Transfer| self.arena.bytes(t.arena..t.arena + t.bytes.len());
        let (operands, out) = self.plan.transfers(step);
        if result {
            return match out {
                Some(t) => outside.write(t.bytes.start as u64, inside(&t)),
                None => Ok(()),
            };
        }
        for t in operands {
            outside.read(t.bytes.start as u64, inside(&t))?;
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
            Place::Param => Err(ExecError::NotInPlan {
                what: "a parameter as an input".to_owned(),
            }),
            place => self.arena.write(place, at, bytes),
        }
    }

    fn clear(&mut self, input: Node) -> Result<(), ExecError> {
        let zeros = vec![0; 1 << 20];
        let bytes = self.plan.graph().bytes(input);
        for at in (0..bytes).step_by(zeros.len()) {
            self.write_part(input, at, &zeros[..zeros.len().min(bytes - at)])?;
        }
        Ok(())
    }

    fn run(&mut self, options: RunOptions<'_>) -> Result<(), ExecError> {
        self.times.clear();
        if self.stream.is_none() {
            self.start_stream()?;
        }
        let ran = self.run_steps(options);
        if self.arena.is_shared() {
            // There is room for one fetch ahead, and it belongs to the next session.
            self.stream = None;
        } else if ran.is_err() && self.stream.take().is_some() {
            // The thread has stopped somewhere in the middle, so the next run begins with a new
            // one.
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
                let value = self.arena.bytes(span.offset..span.offset + span.bytes);
                dst.copy_from_slice(&value[at..at + dst.len()]);
            }
            Place::Host(span) => {
                if let Some(outside) = self.arena.outside() {
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
            Place::Pages(_) | Place::Nowhere => {
                return Err(ExecError::NotInPlan {
                    what: self.plan.graph().op_label(output),
                });
            }
        }
        Ok(())
    }

    fn poison(&mut self) -> Result<(), ExecError> {
        // All ones is NaN in f32, f16 and bf16.
        self.arena.fill(0xff);
        self.forget_steady()
    }

    fn arena_bytes(&self) -> usize {
        self.arena.len()
    }

    fn profile(&self) -> Vec<OpTime> {
        self.times.clone()
    }
}
