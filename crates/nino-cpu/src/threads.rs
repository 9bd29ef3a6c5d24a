//! The threads of a CPU, which wait until an op has work for all of them. The calling thread is one
//! of them. Handing out work allocates nothing.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// How often a thread looks at the round counter before it sleeps. Ops follow each other within
/// microseconds, and waking a thread takes longer.
const LOOKS: usize = 4000;

pub(crate) struct Threads {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Held while an op runs, so that sessions beside each other take turns.
    turn: Mutex<()>,
}

struct Shared {
    /// Counts broadcasts. It equals the state's `round` and can be read without the lock.
    round: AtomicUsize,
    state: Mutex<State>,
    wake: Condvar,
    done: Condvar,
}

struct State {
    round: usize,
    job: Option<Job>,
    /// Workers that have not finished this round.
    left: usize,
    panic: Option<Box<dyn Any + Send>>,
    over: bool,
}

/// The caller's function. Its lifetime is a promise: the caller waits until every worker has
/// returned.
type Job = &'static (dyn Fn(usize) + Sync);

impl Threads {
    /// Starts `n - 1` threads, or as many as the system allows; the caller is one more.
    pub(crate) fn new(n: usize) -> Threads {
        let shared = Arc::new(Shared {
            round: AtomicUsize::new(0),
            state: Mutex::new(State {
                round: 0,
                job: None,
                left: 0,
                panic: None,
                over: false,
            }),
            wake: Condvar::new(),
            done: Condvar::new(),
        });
        let mut threads = Threads {
            shared,
            workers: Vec::new(),
            turn: Mutex::new(()),
        };
        for index in 1..n {
            let shared = threads.shared.clone();
            let builder = std::thread::Builder::new().name(format!("nino-cpu-{index}"));
            match builder.spawn(move || shared.work(index)) {
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

    /// Calls `f` with 0..count, each on a thread of its own, and waits for all of them.
    pub(crate) fn broadcast(&self, f: &(dyn Fn(usize) + Sync)) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: only the lifetime changes; no worker holds the job when this function returns.
        let job = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), Job>(f) };
        {
            let mut state = self.shared.lock();
            state.job = Some(job);
            state.left = self.workers.len();
            state.round += 1;
            self.shared.round.store(state.round, Ordering::Release);
        }
        self.shared.wake.notify_all();
        let mine = catch_unwind(AssertUnwindSafe(|| f(0)));
        let mut state = self.shared.lock();
        while state.left > 0 {
            state = wait(&self.shared.done, state);
        }
        state.job = None;
        let theirs = state.panic.take();
        drop(state);
        if let Some(panic) = mine.err().or(theirs) {
            resume_unwind(panic);
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.over = true;
        state.round += 1;
        self.shared.round.store(state.round, Ordering::Release);
        drop(state);
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker cannot have panicked, because panics of what it runs are caught.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, index: usize) {
        let mut seen = 0;
        loop {
            for _ in 0..LOOKS {
                if self.round.load(Ordering::Acquire) != seen {
                    break;
                }
                std::hint::spin_loop();
            }
            let mut state = self.lock();
            while state.round == seen {
                state = wait(&self.wake, state);
            }
            seen = state.round;
            let Some(job) = state.job.filter(|_| !state.over) else {
                return;
            };
            drop(state);
            let ran = catch_unwind(AssertUnwindSafe(|| job(index)));
            let mut state = self.lock();
            if let Err(panic) = ran {
                state.panic = Some(panic);
            }
            state.left -= 1;
            if state.left == 0 {
                self.done.notify_one();
            }
        }
    }
}

fn wait<'a>(on: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    on.wait(state).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
