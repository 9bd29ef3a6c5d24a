//! What devices did and when: loads, runs and every op of them, with the memory meanwhile.
//!
//! Recording is for the whole process. It begins with [`start`]; devices opened after that time
//! each of their runs op by op, which costs some speed. Where nobody called it, devices are not
//! wrapped and nothing is recorded.

use crate::Stage;
use crate::device::resident_bytes;
use nino_graph::{
    Around, AroundSession, Device, ExecError, OpTime, ParamSource, Plan, RunOptions, Session,
    Weights,
};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// All that was recorded; times count from the start of the recording.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Loads and runs, in the order they began.
    pub spans: Vec<Span>,
    /// Memory at the end of each of them.
    pub memory: Vec<MemoryPoint>,
}

/// A load of weights, or one run of a network.
#[derive(Clone, Debug)]
pub struct Span {
    /// The stage it was for.
    pub stage: Stage,
    pub start: Duration,
    pub time: Duration,
    /// The ops of a run, one after the other; none for a load.
    pub ops: Vec<OpSpan>,
}

/// One op of a run.
#[derive(Clone, Debug)]
pub struct OpSpan {
    /// The kind of op.
    pub kind: &'static str,
    /// What it is called in the model: its weight's module, or its kind again.
    pub label: String,
    /// Shape and storage type of its result.
    pub shape: String,
    pub time: Duration,
}

/// Memory at one moment.
#[derive(Clone, Copy, Debug)]
pub struct MemoryPoint {
    pub at: Duration,
    /// Bytes of weights and activations that the plan of the run says.
    pub planned: usize,
    /// Bytes of the process, as the operating system sees them; `None` where it does not say.
    pub resident: Option<usize>,
}

struct Recorder {
    began: Instant,
    stage: Stage,
    timeline: Timeline,
}

static RECORDER: OnceLock<Mutex<Recorder>> = OnceLock::new();

/// Devices that are opened from now on are recorded.
pub fn start() {
    RECORDER.get_or_init(|| {
        Mutex::new(Recorder {
            began: Instant::now(),
            stage: Stage::Load,
            timeline: Timeline::default(),
        })
    });
}

/// What was recorded since the last call; empty where nothing is.
pub fn take() -> Timeline {
    recorder().map_or_else(Timeline::default, |mut recorder| {
        std::mem::take(&mut recorder.timeline)
    })
}

/// Says for which stage the next sessions are.
pub(crate) fn begin_stage(stage: Stage) {
    if let Some(mut recorder) = recorder() {
        recorder.stage = stage;
    }
}

/// The device, or one around it that is recorded.
pub(crate) fn recorded(device: Arc<dyn Device>) -> Arc<dyn Device> {
    match RECORDER.get() {
        Some(_) => Arc::new(Recorded { device }),
        None => device,
    }
}

fn recorder() -> Option<MutexGuard<'static, Recorder>> {
    let recorder = RECORDER.get()?;
    Some(recorder.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Keeps a span that ends now.
fn keep(stage: Stage, started: Instant, ops: Vec<OpSpan>, planned: usize) {
    let Some(mut recorder) = recorder() else {
        return;
    };
    let began = recorder.began;
    recorder.timeline.spans.push(Span {
        stage,
        start: started.saturating_duration_since(began),
        time: started.elapsed(),
        ops,
    });
    recorder.timeline.memory.push(MemoryPoint {
        at: began.elapsed(),
        planned,
        resident: resident_bytes(),
    });
}

struct Recorded {
    device: Arc<dyn Device>,
}

impl Around for Recorded {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &*self.device
    }

    fn load(&self, plans: &[&Plan], source: Arc<dyn ParamSource>) -> Result<Weights, ExecError> {
        let started = Instant::now();
        let loaded = self.device.load(plans, source)?;
        let planned = plans.iter().map(|p| p.weight_bytes()).max();
        keep(Stage::Load, started, Vec::new(), planned.unwrap_or(0));
        Ok(loaded)
    }

    fn sessions(
        &self,
        plans: &[Arc<Plan>],
        weights: &Weights,
    ) -> Result<Vec<Box<dyn Session>>, ExecError> {
        let stage = recorder().map_or(Stage::Load, |recorder| recorder.stage);
        let sessions = self.device.sessions(plans, weights)?.into_iter().zip(plans);
        let recorded = sessions.map(|(session, plan)| -> Box<dyn Session> {
            Box::new(RecordedSession {
                session,
                plan: Arc::clone(plan),
                stage,
            })
        });
        Ok(recorded.collect())
    }
}

struct RecordedSession {
    session: Box<dyn Session>,
    plan: Arc<Plan>,
    stage: Stage,
}

impl AroundSession for RecordedSession {
    fn session(&self) -> &dyn Session {
        &*self.session
    }

    fn session_mut(&mut self) -> &mut dyn Session {
        &mut *self.session
    }

    fn run(&mut self, options: RunOptions<'_>) -> Result<(), ExecError> {
        let started = Instant::now();
        self.session.run(RunOptions {
            profile: true,
            ..options
        })?;
        let graph = self.plan.graph();
        let mut ops: Vec<OpSpan> = Vec::new();
        let mut last = None;
        for OpTime { node, time } in self.session.profile() {
            // An op that is cut by rows is one op still.
            match ops.last_mut().filter(|_| last == Some(node)) {
                Some(op) => op.time += time,
                None => ops.push(OpSpan {
                    kind: graph.op(node).map_or("value", |op| op.name()),
                    label: graph.op_label(node),
                    shape: format!("{} {}", graph.shape(node), graph.dtype(node)),
                    time,
                }),
            }
            last = Some(node);
        }
        let planned = self.plan.weight_bytes() + self.plan.arena_bytes();
        keep(self.stage, started, ops, planned);
        Ok(())
    }
}
