//! A device that does nothing: a request runs on it in no time and leaves its plans behind.
//!
//! Planning by going through the request itself cannot come to other plans than the run will. Only
//! latents and pictures are left out, because nobody looks at their values and a plan should take
//! neither their memory nor their time.

use nino_graph::{
    Around, Device, ExecError, Node, OpTime, ParamSource, Plan, RunOptions, Session, Weights,
};
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Plans like `device`, runs nothing.
pub(super) struct Dry {
    device: Arc<dyn Device>,
    sessions: Mutex<Vec<Opened>>,
}

/// A session that would have been opened.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) plan: Arc<Plan>,
    runs: Arc<AtomicUsize>,
}

impl Opened {
    pub(super) fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }
}

impl Dry {
    pub(super) fn new(device: Arc<dyn Device>) -> Dry {
        Dry {
            device,
            sessions: Mutex::default(),
        }
    }

    /// What was opened, in that order.
    pub(super) fn sessions(&self) -> Vec<Opened> {
        let sessions = self.sessions.lock();
        sessions.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Around for Dry {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &*self.device
    }

    fn load(&self, _: &[&Plan], _: Arc<dyn ParamSource>) -> Result<Weights, ExecError> {
        Ok(Arc::new(()))
    }

    fn sessions(
        &self,
        plans: &[Arc<Plan>],
        _: &Weights,
    ) -> Result<Vec<Box<dyn Session>>, ExecError> {
        let opened = plans.iter().map(|plan| Opened {
            plan: plan.clone(),
            runs: Arc::default(),
        });
        let opened: Vec<Opened> = opened.collect();
        let sessions = self.sessions.lock();
        sessions
            .unwrap_or_else(PoisonError::into_inner)
            .extend(opened.iter().cloned());
        let boxed = |s| -> Box<dyn Session> { Box::new(s) };
        Ok(opened.into_iter().map(boxed).collect())
    }
}

impl Session for Opened {
    fn write(&mut self, _: Node, _: &[u8]) -> Result<(), ExecError> {
        Ok(())
    }

    fn run(&mut self, options: RunOptions<'_>) -> Result<(), ExecError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        if options.cancelled() {
            return Err(ExecError::Cancelled);
        }
        Ok(())
    }

    fn read(&mut self, _: Node, dst: &mut [u8]) -> Result<(), ExecError> {
        dst.fill(0);
        Ok(())
    }

    fn write_part(&mut self, _: Node, _: usize, _: &[u8]) -> Result<(), ExecError> {
        Ok(())
    }

    fn read_part(&mut self, _: Node, _: usize, dst: &mut [u8]) -> Result<(), ExecError> {
        dst.fill(0);
        Ok(())
    }

    fn clear(&mut self, _: Node) -> Result<(), ExecError> {
        Ok(())
    }

    fn poison(&mut self) -> Result<(), ExecError> {
        Ok(())
    }

    fn arena_bytes(&self) -> usize {
        self.plan.arena_bytes()
    }

    fn profile(&self) -> Vec<OpTime> {
        Vec::new()
    }
}
