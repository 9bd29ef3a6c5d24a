//! Independent pieces of work on all cores.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// How many threads are worth having.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Calls `work` with every piece, on up to `threads` threads, of which the caller is one. Where the
/// system starts no more threads, those that there are do all of it.
pub(crate) fn for_each<T: Send>(
    pieces: impl Iterator<Item = T> + Send,
    threads: usize,
    work: impl Fn(T) + Sync,
) {
    let pieces = Mutex::new(pieces);
    let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
    let go = || {
        while let Some(piece) = next() {
            work(piece);
        }
    };
    thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, go).is_ok();
        (1..threads).all(spawn);
        go();
    });
}
