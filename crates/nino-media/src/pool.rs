//! The threads that pictures are converted and deflated on.
//!
//! rayon's own pool panics where the system starts no more threads. This one is smaller then, and
//! without any thread the caller does the work.

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::OnceLock;

static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();

/// How many threads work at once.
pub(crate) fn threads() -> usize {
    pool().map_or(1, ThreadPool::current_num_threads)
}

/// What `work` makes of each piece, in their order. Every piece is a task of its own.
pub(crate) fn map<T: Send, R: Send>(pieces: Vec<T>, work: impl Fn(T) -> R + Send + Sync) -> Vec<R> {
    match pool() {
        Some(pool) if pieces.len() > 1 => {
            let tasks = || pieces.into_par_iter().with_max_len(1).map(work).collect();
            pool.install(tasks)
        }
        _ => pieces.into_iter().map(work).collect(),
    }
}

fn pool() -> Option<&'static ThreadPool> {
    let make = || {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let fewer = std::iter::successors(Some(cores), |n| Some(n / 2));
        let mut tries = fewer.take_while(|&n| n > 1);
        tries.find_map(|n| ThreadPoolBuilder::new().num_threads(n).build().ok())
    };
    POOL.get_or_init(make).as_ref()
}
