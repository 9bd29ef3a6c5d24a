//! Parameters that are not in memory all the time: a thread reads them ahead of the op they are
//! for.
//!
//! The op that runs holds one fetch, the thread at most one more: it waits until that one is taken.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use nino_graph::{Def, ExecError, Fetch, Node, ParamSource, Plan};

use crate::params::{Param, Roles, roles};
use crate::simd::Level;

/// Parameters of one fetch, ready to use.
pub(crate) type Fetched = BTreeMap<Node, Param>;

/// The fetches of a plan, run after run.
pub(crate) struct Stream {
    fetched: Receiver<Result<Fetched, ExecError>>,
}

impl Stream {
    /// Starts the reading thread. `first` is the first fetch of the first run; later runs leave out
    /// the fetches of steady steps.
    pub(crate) fn start(
        plan: Arc<Plan>,
        source: Arc<dyn ParamSource>,
        level: Level,
        first: usize,
    ) -> Result<Stream, ExecError> {
        let (send, fetched) = sync_channel(0);
        thread::Builder::new()
            .name("nino-stream".to_owned())
            .spawn(move || read_on(&plan, first, &*source, level, &send))
            .map_err(|e| ExecError::Device {
                message: format!("no thread to read weights with: {e}"),
            })?;
        Ok(Stream { fetched })
    }

    /// Waits for the next fetch. Callers drop the one before first, so that at most two are in
    /// memory.
    pub(crate) fn next(&self) -> Result<Fetched, ExecError> {
        let ended = |_| ExecError::Device {
            message: "the thread that reads weights ended".to_owned(),
        };
        self.fetched.recv().map_err(ended)?
    }
}

/// Reads fetches until nobody takes them any more, or until one cannot be read.
fn read_on(
    plan: &Plan,
    first: usize,
    source: &dyn ParamSource,
    level: Level,
    send: &SyncSender<Result<Fetched, ExecError>>,
) {
    let uses: BTreeMap<Node, Roles> = roles(plan.graph())
        .into_iter()
        .map(|(node, (_, roles))| (node, roles))
        .collect();
    let every_run = &plan.fetches()[plan.first_fetch(plan.steady_steps())..];
    let rounds = plan.fetches()[first..]
        .iter()
        .chain(every_run.iter().cycle());
    for fetch in rounds {
        let read = read(plan, fetch, &uses, source, level);
        let failed = read.is_err();
        if send.send(read).is_err() || failed {
            return;
        }
    }
}

fn read(
    plan: &Plan,
    fetch: &Fetch,
    uses: &BTreeMap<Node, Roles>,
    source: &dyn ParamSource,
    level: Level,
) -> Result<Fetched, ExecError> {
    let mut fetched = Fetched::new();
    for (node, _) in &fetch.params {
        if let (Def::Param(spec), Some(roles)) = (&plan.graph().value(*node).def, uses.get(node)) {
            fetched.insert(*node, Param::new(level, spec, roles, source)?);
        }
    }
    Ok(fetched)
}
