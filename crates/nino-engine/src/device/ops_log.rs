//! A device that tells of every op it runs, for people who want to see where time goes.
//!
//! The first run of every session is timed and told op by op; later ones are told in one line,
//! since they do the same. Nothing is wrapped where nobody listens.

use nino_graph::{
    Around, AroundSession, Device, ExecError, Node, OpTime, Plan, RunOptions, Session, Weights,
};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where the lines go: `nino_engine::ops` in a filter.
pub(super) const TARGET: &str = "nino_engine::ops";

/// The device, or one around it that tells of its ops where somebody listens.
pub(super) fn listened(device: Arc<dyn Device>) -> Arc<dyn Device> {
    if tracing::enabled!(target: TARGET, tracing::Level::TRACE) {
        Arc::new(Telling { device })
    } else {
        device
    }
}

struct Telling {
    device: Arc<dyn Device>,
}

impl Around for Telling {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &*self.device
    }

    fn sessions(
        &self,
        plans: &[Arc<Plan>],
        weights: &Weights,
    ) -> Result<Vec<Box<dyn Session>>, ExecError> {
        let sessions = self.device.sessions(plans, weights)?;
        let told = sessions.into_iter().zip(plans);
        let told = told.map(|(session, plan)| -> Box<dyn Session> {
            Box::new(Told {
                session,
                plan: Arc::clone(plan),
                runs: 0,
            })
        });
        Ok(told.collect())
    }
}

/// A session whose ops are told.
struct Told {
    session: Box<dyn Session>,
    plan: Arc<Plan>,
    runs: usize,
}

impl Told {
    fn tell(&self) {
        let graph = self.plan.graph();
        let mut ops: Vec<(Node, Duration)> = Vec::new();
        for OpTime { node, time } in self.session.profile() {
            // An op that is cut by rows is one op still.
            match ops.iter_mut().find(|(known, _)| *known == node) {
                Some((_, all)) => *all += time,
                None => ops.push((node, time)),
            }
        }
        for (node, time) in ops {
            tracing::trace!(
                target: TARGET,
                "{} {} {}: {:.3} ms",
                graph.op_label(node),
                graph.shape(node),
                graph.dtype(node),
                time.as_secs_f64() * 1e3
            );
        }
    }
}

impl AroundSession for Told {
    fn session(&self) -> &dyn Session {
        &*self.session
    }

    fn session_mut(&mut self) -> &mut dyn Session {
        &mut *self.session
    }

    fn run(&mut self, options: RunOptions<'_>) -> Result<(), ExecError> {
        self.runs += 1;
        let is_first = self.runs == 1;
        let started = Instant::now();
        self.session.run(RunOptions {
            profile: options.profile || is_first,
            ..options
        })?;
        if is_first {
            self.tell();
        }
        let ms = started.elapsed().as_secs_f64() * 1e3;
        tracing::trace!(target: TARGET, "run {} of these ops: {ms:.1} ms", self.runs);
        Ok(())
    }
}
