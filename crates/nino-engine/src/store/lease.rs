//! Sessions on loan: a stage runs them, and gives them back for the next request.

use super::Store;
use super::kept::LeaseId;
use nino_graph::{Plan, Session};
use std::sync::Arc;
use std::time::Duration;

/// Sessions of one network in one arena.
pub(super) struct Sessions(pub(super) Vec<Box<dyn Session>>);

/// A network that runs. Dropping it gives its memory back; [`Lease::finish`] keeps it for the next
/// request.
pub(crate) struct Lease {
    store: Store,
    id: LeaseId,
    plans: Vec<Arc<Plan>>,
    sessions: Option<Sessions>,
    /// Time it took to get the sessions, with the loading of weights.
    pub(crate) load_time: Duration,
}

impl Lease {
    pub(super) fn new(
        store: &Store,
        id: LeaseId,
        plans: &[Arc<Plan>],
        sessions: Sessions,
        load_time: Duration,
    ) -> Lease {
        Lease {
            store: store.clone(),
            id,
            plans: plans.to_vec(),
            sessions: Some(sessions),
            load_time,
        }
    }

    /// The sessions, one for each plan.
    pub(crate) fn sessions(&mut self) -> &mut [Box<dyn Session>] {
        match &mut self.sessions {
            Some(lent) => &mut lent.0,
            None => &mut [],
        }
    }

    /// The only, or first, session.
    pub(crate) fn session(&mut self) -> &mut dyn Session {
        &mut *self.sessions()[0]
    }

    /// Bytes of the arena, as allocated.
    pub(crate) fn arena_bytes(&self) -> usize {
        let lent = self.sessions.iter().filter_map(|s| s.0.first());
        lent.map(|s| s.arena_bytes()).sum()
    }

    /// Gives the sessions back in good order: the next request of the same plan gets them. Sessions
    /// of a run that failed are dropped instead, since nobody knows what state they are in.
    pub(crate) fn finish(mut self) {
        let sessions = self.sessions.take();
        let (store, plans) = (&self.store, std::mem::take(&mut self.plans));
        if let (Some(sessions), true) = (sessions, store.0.keeps) {
            store.state().kept.give_back(self.id, plans, sessions);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Memory goes first, then what is known of it.
        self.sessions = None;
        let keeps = self.store.0.keeps;
        self.store.state().kept.end(self.id, keeps);
    }
}
