//! Threads that share an op's tasks, each with scratch of its own that is allocated once.
//!
//! Tasks are handed out by a counter, so which thread runs one is open; a task's result never
//! depends on that, because tasks write disjoint outputs and share no sums.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nino_graph::ExecError;

use crate::memory::Buffer;
use crate::simd::Level;
use crate::threads::Threads;

pub(crate) struct Scratch {
    buffer: UnsafeCell<Buffer>,
}

// SAFETY: `Team::run` gives each thread its own element, and runs one op at a time.
unsafe impl Sync for Scratch {}

impl Scratch {
    pub(crate) fn new(bytes: usize) -> Result<Scratch, ExecError> {
        let buffer = UnsafeCell::new(Buffer::new(bytes, "a thread's scratch")?);
        Ok(Scratch { buffer })
    }
}

/// Hands out pieces of one thread's scratch.
pub(crate) struct Carver<'a> {
    buffer: &'a Buffer,
    used: usize,
}

impl Carver<'_> {
    /// Gives `n` floats at the start of a cache line. They hold whatever the last task left.
    pub(crate) fn floats(&mut self, n: usize) -> *mut f32 {
        let start = self.used;
        self.used += floats_bytes(n);
        assert!(
            self.used <= self.buffer.len(),
            "scratch of {} bytes is too small: {} wanted",
            self.buffer.len(),
            self.used
        );
        // SAFETY: within the buffer, as just checked.
        unsafe { self.buffer.as_ptr().add(start).cast() }
    }
}

/// Gives the scratch bytes that `n` floats take.
pub(crate) fn floats_bytes(n: usize) -> usize {
    (n * 4).next_multiple_of(Buffer::ALIGN)
}

/// The threads, their scratch and the vector level they use.
pub(crate) struct Team<'a> {
    pub(crate) threads: &'a Threads,
    pub(crate) scratch: &'a [Scratch],
    pub(crate) level: Level,
    /// No task begins once this is true, because an op may take seconds.
    pub(crate) cancel: Option<&'a AtomicBool>,
}

impl Team<'_> {
    pub(crate) fn threads(&self) -> usize {
        self.scratch.len()
    }

    fn cancelled(&self) -> bool {
        self.cancel.is_some_and(|c| c.load(Ordering::Relaxed))
    }

    /// Runs `tasks` tasks on all threads. `work` is a rough count of operations: where it is too
    /// small to be worth waking threads, this thread runs all tasks.
    pub(crate) fn run(&self, tasks: usize, work: usize, f: impl Fn(usize, Carver<'_>) + Sync) {
        const WAKE_WORK: usize = 100_000;
        let one = |scratch: &Scratch, task: usize| {
            // SAFETY: each thread uses its own scratch, for one task at a time.
            let buffer = unsafe { &*scratch.buffer.get() };
            f(task, Carver { buffer, used: 0 });
        };
        if self.threads() == 1 || tasks <= 1 || work < WAKE_WORK {
            for task in (0..tasks).take_while(|_| !self.cancelled()) {
                one(&self.scratch[0], task);
            }
            return;
        }
        let next = AtomicUsize::new(0);
        self.threads.broadcast(&|thread| {
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= tasks || self.cancelled() {
                    return;
                }
                one(&self.scratch[thread], task);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Team;
    use crate::simd::Level;
    use crate::testing::Crew;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    #[test]
    fn no_task_begins_after_a_cancel() {
        for threads in [1, 3] {
            let crew = Crew::new(threads, 64);
            let (cancel, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
            let team = Team {
                cancel: Some(&cancel),
                ..crew.team(Level::Plain)
            };
            team.run(1_000_000, usize::MAX, |task, _| {
                begun.fetch_add(1, Ordering::SeqCst);
                if task == 5 {
                    cancel.store(true, Ordering::SeqCst);
                }
                // Tasks that have begun on other threads end after the cancel.
                while task > 5 && !cancel.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
            });
            let begun = begun.load(Ordering::SeqCst);
            assert!((6..6 + threads).contains(&begun), "{begun} tasks");
        }
    }
}
