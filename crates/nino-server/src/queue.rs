//! Jobs that wait and jobs that run.
//!
//! The least number runs first. A device prefers a job of the models it has, but lets nobody wait
//! for more than a few such jumps.

use crate::job::{Item, Job, Outcome};
use crate::journal::Journal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Jobs that may wait, and bytes of JSON of all of them.
const MOST: usize = 10_000;
const MOST_BYTES: usize = 256 << 20;
/// The largest number of a job, up to which there is one behind every other.
pub(crate) const LARGEST_NUMBER: f64 = (1_u64 << 53) as f64;
/// Later jobs that may overtake a job.
const JUMPS: usize = 4;

pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    pub(crate) journal: Journal,
    /// How many jobs ended, for those who wait for one.
    ended: watch::Sender<u64>,
}

struct State {
    /// The number of the next job.
    next: u64,
    /// In the order of their numbers.
    pending: Vec<Job>,
    running: Vec<Running>,
    /// How often models were asked to be given back.
    frees: u64,
    stopping: bool,
}

struct Running {
    item: Arc<Item>,
    cancel: Arc<AtomicBool>,
    /// The node that runs.
    node: Option<String>,
}

/// A device's place at the queue.
pub(crate) struct Seat {
    /// The number of the device.
    device: usize,
    models: String,
    frees: u64,
}

/// What a device is to do next.
pub(crate) enum Work {
    Job(Box<Job>, Arc<AtomicBool>),
    /// Give back models and what is kept of runs.
    Free,
    /// Nothing came for as long as idle models are kept.
    Idle,
    Stop,
}

/// Everything that waits or runs.
pub(crate) struct Active {
    pub(crate) running: Vec<Arc<Item>>,
    pub(crate) pending: Vec<Arc<Item>>,
}

/// Why the queue does not take a job.
#[derive(Debug)]
pub(crate) enum Refusal {
    Full,
    /// What would become of the job could not be kept for who asks for it.
    Journal(rusqlite::Error),
}

impl Queue {
    pub(crate) fn new(journal: Journal) -> Queue {
        Queue {
            state: Mutex::new(State {
                next: 0,
                pending: Vec::new(),
                running: Vec::new(),
                frees: 0,
                stopping: false,
            }),
            wake: Condvar::new(),
            journal,
            ended: watch::Sender::new(0),
        }
    }

    /// Changes whenever a job has ended, and when no more are started.
    pub(crate) fn ended(&self) -> watch::Receiver<u64> {
        self.ended.subscribe()
    }

    /// The number of a new job, behind all others or before them.
    pub(crate) fn number(&self, front: bool) -> f64 {
        let mut state = self.state();
        let number = state.next as f64;
        state.next += 1;
        if front { -number } else { number }
    }

    /// Puts a job in its place.
    pub(crate) fn put(&self, job: Job) -> Result<(), Refusal> {
        let state = self.state();
        let waiting: usize = state.pending.iter().map(|job| job.bytes).sum();
        if state.pending.len() >= MOST || waiting + job.bytes > MOST_BYTES {
            return Err(Refusal::Full);
        }
        drop(state);
        self.journal.add(&job.item).map_err(Refusal::Journal)?;
        self.insert(job);
        Ok(())
    }

    /// Puts a job in its place that the last server did not finish. New ones come behind it.
    pub(crate) fn restore(&self, job: Job) {
        let number = job.item.number.abs();
        if number <= LARGEST_NUMBER {
            let mut state = self.state();
            state.next = state.next.max(number as u64 + 1);
        }
        self.insert(job);
    }

    /// Puts a job in its place that the journal has already.
    fn insert(&self, job: Job) {
        let mut state = self.state();
        let later = |other: &Job| other.item.number > job.item.number;
        let place = state.pending.iter().position(later);
        let place = place.unwrap_or(state.pending.len());
        state.pending.insert(place, job);
        drop(state);
        self.wake.notify_all();
    }

    /// Waits for something to do; for `idle` at most, where it is given.
    pub(crate) fn take(&self, seat: &mut Seat, idle: Option<Duration>) -> Work {
        let since = Instant::now();
        let mut state = self.state();
        loop {
            if state.stopping {
                return Work::Stop;
            }
            if seat.frees != state.frees {
                seat.frees = state.frees;
                seat.models.clear();
                return Work::Free;
            }
            if let Some(place) = seat.choose(&mut state.pending) {
                let job = state.pending.remove(place);
                let cancel = Arc::new(AtomicBool::new(false));
                state.running.push(Running {
                    item: Arc::clone(&job.item),
                    cancel: Arc::clone(&cancel),
                    node: None,
                });
                drop(state);
                if let Err(e) = self.journal.start(&job.item.id) {
                    tracing::warn!("job {}: {e}", job.item.id);
                }
                return Work::Job(Box::new(job), cancel);
            }
            let left = idle.map(|idle| idle.saturating_sub(since.elapsed()));
            state = match left {
                Some(Duration::ZERO) => {
                    seat.models.clear();
                    return Work::Idle;
                }
                Some(left) => {
                    let waited = self.wake.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self
                    .wake
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// A job ended. With an outcome it goes to the history, without one it is as if it had never
    /// been started.
    pub(crate) fn done(&self, item: &Item, outcome: Option<&Outcome>) {
        // Who has seen it in the history does not see it run any more, and who does not see it run
        // finds it in the history. The disk is waited for without the state, since whoever answers
        // a request may want that.
        let leave = || self.state().running.retain(|r| r.item.id != item.id);
        let kept = if let Some(outcome) = outcome {
            self.journal.end(item, outcome, leave)
        } else {
            let kept = self.journal.put_back(&item.id);
            leave();
            kept
        };
        if let Err(e) = kept {
            tracing::warn!("what became of job {} is not kept: {e}", item.id);
        }
        self.ended.send_modify(|ended| *ended += 1);
    }

    pub(crate) fn set_node(&self, id: &str, node: Option<&str>) {
        let mut state = self.state();
        if let Some(running) = state.running.iter_mut().find(|r| r.item.id == id) {
            running.node = node.map(str::to_owned);
        }
    }

    /// The node that runs for a client.
    pub(crate) fn node_of(&self, client: &str) -> Option<String> {
        let state = self.state();
        let mut running = state.running.iter();
        let running = running.find(|r| r.item.client.as_deref() == Some(client))?;
        running.node.clone()
    }

    /// Jobs that wait or run.
    pub(crate) fn remaining(&self) -> usize {
        let state = self.state();
        state.pending.len() + state.running.len()
    }

    pub(crate) fn active(&self) -> Active {
        let state = self.state();
        Active {
            running: state.running.iter().map(|r| Arc::clone(&r.item)).collect(),
            pending: state.pending.iter().map(|j| Arc::clone(&j.item)).collect(),
        }
    }

    /// Whether a job waits that is not going to be started.
    pub(crate) fn is_left(&self, id: &str) -> bool {
        let state = self.state();
        state.stopping && state.pending.iter().any(|job| job.item.id == id)
    }

    pub(crate) fn is_active(&self, id: &str) -> bool {
        let state = self.state();
        let waits = state.pending.iter().any(|job| job.item.id == id);
        waits || state.running.iter().any(|running| running.item.id == id)
    }

    /// Stops what runs: one job, or all. Says whether there was any.
    pub(crate) fn interrupt(&self, id: Option<&str>) -> bool {
        let state = self.state();
        let wanted = |r: &&Running| id.is_none_or(|id| r.item.id == id);
        let running = state.running.iter().filter(wanted);
        running
            .map(|r| r.cancel.store(true, Ordering::Relaxed))
            .count()
            > 0
    }

    /// Removes jobs that wait: those with these ids, or all. Says how many there were.
    pub(crate) fn remove(&self, ids: Option<&[String]>) -> usize {
        let mut state = self.state();
        let is_wanted = |job: &Job| ids.is_none_or(|ids| ids.contains(&job.item.id));
        let removed = state.pending.iter().filter(|job| is_wanted(job));
        let removed: Vec<String> = removed.map(|job| job.item.id.clone()).collect();
        state.pending.retain(|job| !is_wanted(job));
        drop(state);
        if let Err(e) = self.journal.remove(&removed) {
            tracing::warn!("removed jobs may come back: {e}");
        }
        self.ended.send_modify(|ended| *ended += 1);
        removed.len()
    }

    /// Stops a job that waits or runs, also one that a device takes meanwhile, and one that was
    /// put back for the next start. Says whether there was one that waits or runs.
    pub(crate) fn cancel(&self, id: &str) -> bool {
        // Jobs go from waiting to running and never back, so it is looked for in that order.
        let ids = [id.to_owned()];
        let found = self.remove(Some(&ids)) > 0 || self.interrupt(Some(id));
        if self.is_stopping()
            && let Err(e) = self.journal.remove(&ids)
        {
            tracing::warn!("a cancelled job may come back: {e}");
        }
        found
    }

    /// Every device gives back its models, once it has nothing to do.
    pub(crate) fn free(&self) {
        self.state().frees += 1;
        self.wake.notify_all();
    }

    /// No more jobs are started.
    pub(crate) fn stop(&self) {
        self.state().stopping = true;
        self.wake.notify_all();
        self.ended.send_modify(|ended| *ended += 1);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.state().stopping
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;

impl Seat {
    pub(crate) fn new(device: usize) -> Seat {
        Seat {
            device,
            models: String::new(),
            frees: 0,
        }
    }

    /// The place of the job to run next: the first that fits the device, or one of the models that
    /// are here.
    fn choose(&mut self, pending: &mut [Job]) -> Option<usize> {
        let device = self.device;
        let fits = |job: &Job| job.fits.get(device).copied().unwrap_or(true);
        let place = pending.iter().position(fits)?;
        // Who asked to be first is first.
        let may_jump = pending[place].item.number >= 0.0;
        let is_same = |job: &Job| fits(job) && job.models == self.models;
        let same = pending.iter().position(is_same).filter(|_| may_jump);
        let place = match same {
            Some(same) => {
                // Those that another device takes are not overtaken.
                let before = || pending[..same].iter().filter(|job| fits(job));
                let waited = before().any(|job| job.overtaken >= JUMPS);
                if waited { place } else { same }
            }
            None => place,
        };
        for job in pending[..place].iter_mut().filter(|job| fits(job)) {
            job.overtaken += 1;
        }
        self.models.clone_from(&pending[place].models);
        Some(place)
    }
}
