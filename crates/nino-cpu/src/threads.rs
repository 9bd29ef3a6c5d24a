//! The threads of a CPU, which wait until an op has work for all of them. The calling thread is one
//! of them. Handing out work allocates nothing.

use crate::topology::{Places, Topology};
use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// How often a thread looks for the next round, or for the end of one, before it sleeps. Ops follow
/// each other within microseconds, and waking a thread takes longer.
const LOOKS: usize = 4000;

pub(crate) struct Threads {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Held while an op runs, so that sessions beside each other take turns.
    turn: Mutex<()>,
    places: Places,
}

/// What the threads see of each other. A round begins when `round` grows and ends when `left` is
/// zero; the lock is for those who sleep. Who is about to sleep says so first and looks again, and
/// who changes something looks for sleepers afterwards, so that one of them sees the other.
struct Shared {
    round: AtomicUsize,
    /// Workers that have not finished this round.
    left: AtomicUsize,
    /// The round's job. It changes between rounds, when no worker looks at it.
    job: UnsafeCell<Option<Job>>,
    /// Workers that sleep until a round begins.
    sleepers: AtomicUsize,
    /// Whether the caller sleeps until a round ends.
    caller_sleeps: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    sleep: Mutex<()>,
    wake: Condvar,
    done: Condvar,
}

// SAFETY: `job` is written by the thread that holds `turn`, while `left` is zero and no round has
// begun; workers read it after they saw the round and before they count down `left`.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// The caller's function. Its lifetime is a promise: the caller waits until every worker has
/// returned.
type Job = &'static (dyn Fn(usize) + Sync);

impl Threads {
    /// Starts `n - 1` threads, or as many as the system allows; the caller is one more. On a machine
    /// of several nodes they stay on theirs.
    pub(crate) fn new(n: usize) -> Threads {
        Threads::placed(n, Topology::of_this_machine().places(n))
    }

    /// The same with these places. The caller's thread is not moved: it is the program's.
    pub(crate) fn placed(n: usize, places: Places) -> Threads {
        let shared = Arc::new(Shared {
            round: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            job: UnsafeCell::new(None),
            sleepers: AtomicUsize::new(0),
            caller_sleeps: AtomicBool::new(false),
            panic: Mutex::new(None),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            done: Condvar::new(),
        });
        let mut threads = Threads {
            shared,
            workers: Vec::new(),
            turn: Mutex::new(()),
            places,
        };
        for index in 1..n {
            let shared = threads.shared.clone();
            let builder = std::thread::Builder::new().name(format!("nino-cpu-{index}"));
            let places = threads.places.clone();
            let work = move || {
                places.settle(index);
                shared.work(index);
            };
            match builder.spawn(work) {
                Ok(worker) => threads.workers.push(worker),
                Err(e) => {
                    tracing::warn!("{index} of {n} threads could be started: {e}");
                    break;
                }
            }
        }
        threads
    }

    pub(crate) fn count(&self) -> usize {
        self.workers.len() + 1
    }

    /// Where its threads are.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Calls `f` with 0..count, each on a thread of its own, and waits for all of them.
    pub(crate) fn broadcast(&self, f: &(dyn Fn(usize) + Sync)) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: only the lifetime changes; no worker holds the job when this function returns.
        let job = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), Job>(f) };
        self.shared.begin(Some(job), self.workers.len());
        let mine = catch_unwind(AssertUnwindSafe(|| f(0)));
        self.shared.wait_until_done();
        let theirs = lock(&self.shared.panic).take();
        if let Some(panic) = mine.err().or(theirs) {
            resume_unwind(panic);
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.begin(None, 0);
        for worker in self.workers.drain(..) {
            // A worker cannot have panicked, because panics of what it runs are caught.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// Begins a round of `workers` workers; without a job they end.
    fn begin(&self, job: Option<Job>, workers: usize) {
        // SAFETY: no round is under way, and rounds are begun by one thread at a time.
        unsafe { *self.job.get() = job };
        self.left.store(workers, Ordering::Relaxed);
        self.round.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.sleep));
            self.wake.notify_all();
        }
    }

    fn wait_until_done(&self) {
        let is_done = || self.left.load(Ordering::SeqCst) == 0;
        if looked(is_done) {
            return;
        }
        let mut guard = lock(&self.sleep);
        self.caller_sleeps.store(true, Ordering::SeqCst);
        while !is_done() {
            guard = wait(&self.done, guard);
        }
        self.caller_sleeps.store(false, Ordering::SeqCst);
    }

    fn work(&self, index: usize) {
        let mut seen = 0;
        loop {
            let has_begun = || self.round.load(Ordering::SeqCst) != seen;
            if !looked(has_begun) {
                let mut guard = lock(&self.sleep);
                self.sleepers.fetch_add(1, Ordering::SeqCst);
                while !has_begun() {
                    guard = wait(&self.wake, guard);
                }
                self.sleepers.fetch_sub(1, Ordering::SeqCst);
            }
            // No round is missed, since the next one begins when this worker has counted down.
            seen += 1;
            // SAFETY: the round has begun, and this worker has not counted down.
            let Some(job) = (unsafe { *self.job.get() }) else {
                return;
            };
            let ran = catch_unwind(AssertUnwindSafe(|| job(index)));
            if let Err(panic) = ran {
                *lock(&self.panic) = Some(panic);
            }
            let left = self.left.fetch_sub(1, Ordering::SeqCst);
            if left == 1 && self.caller_sleeps.load(Ordering::SeqCst) {
                drop(lock(&self.sleep));
                self.done.notify_one();
            }
        }
    }
}

/// Looks again and again for a while; says whether it came true.
fn looked(is_true: impl Fn() -> bool) -> bool {
    (0..LOOKS).any(|_| {
        let found = is_true();
        if !found {
            std::hint::spin_loop();
        }
        found
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a>(on: &Condvar, guard: MutexGuard<'a, ()>) -> MutexGuard<'a, ()> {
    on.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
