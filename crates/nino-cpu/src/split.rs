//! How work is cut into tasks: few large ones repeat less of what tasks have in common, and many
//! small ones let threads end together. Which cut is best is estimated.
//!
//! A cut never changes results: tasks write disjoint outputs and share no sums.

/// What is added to the rounds of tasks, because threads are seldom equally fast.
const UNEVEN: f64 = 0.25;

/// One way to cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Way<T> {
    pub cut: T,
    pub tasks: usize,
    /// The time of the largest task, in any unit.
    pub task: f64,
}

/// Gives the cut with which `threads` threads are done first; the first of those that are equal.
pub(crate) fn fastest<T>(ways: impl IntoIterator<Item = Way<T>>, threads: usize) -> Option<T> {
    let time = |way: &Way<T>| {
        // One thread has nobody to wait for.
        let uneven = if threads == 1 { 0.0 } else { UNEVEN };
        (way.tasks.div_ceil(threads) as f64 + uneven) * way.task
    };
    let best = |a: Way<T>, b: Way<T>| if time(&b) < time(&a) { b } else { a };
    ways.into_iter().reduce(best).map(|way| way.cut)
}

/// Sizes of pieces that are tried, the largest first.
pub(crate) const PIECES: [usize; 18] = [
    128, 96, 64, 48, 40, 32, 24, 20, 16, 12, 10, 8, 6, 5, 4, 3, 2, 1,
];

#[cfg(test)]
mod tests {
    use super::{Way, fastest};

    /// Cuts `work` into pieces, each of which repeats `common`.
    fn cut(work: usize, common: f64, threads: usize) -> usize {
        let way = |n: usize| Way {
            cut: n,
            tasks: n,
            task: common + work.div_ceil(n) as f64,
        };
        fastest((1..=work).map(way), threads).unwrap()
    }

    #[test]
    fn one_thread_repeats_nothing() {
        assert_eq!(cut(100, 1.0, 1), 1);
    }

    #[test]
    fn rounds_are_full() {
        for threads in [2, 16, 24] {
            let tasks = cut(480, 2.0, threads);
            assert_eq!(tasks % threads, 0, "{tasks} tasks on {threads} threads");
        }
    }

    #[test]
    fn what_is_repeated_makes_tasks_large() {
        assert_eq!(cut(480, 1000.0, 16), 16);
        assert!(cut(480, 0.01, 16) > 100);
    }
}
