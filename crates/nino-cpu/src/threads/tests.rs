use super::Threads;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn every_thread_runs_each_round_once() {
    for n in [1, 2, 5] {
        let threads = Threads::new(n);
        assert_eq!(threads.count(), n);
        let calls: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
        for round in 1..200 {
            threads.broadcast(&|i| {
                calls[i].fetch_add(1, Ordering::Relaxed);
            });
            for c in &calls {
                assert_eq!(c.load(Ordering::Relaxed), round);
            }
        }
    }
}

#[test]
fn a_panic_reaches_the_caller_and_ends_nothing_else() {
    let threads = Threads::new(3);
    for bad in 0..3 {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            threads.broadcast(&|i| assert!(i != bad, "thread {i}"));
        }));
        let text = panic.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(*text, format!("thread {bad}"));
    }
    let sum = AtomicUsize::new(0);
    threads.broadcast(&|i| {
        sum.fetch_add(i, Ordering::Relaxed);
    });
    assert_eq!(sum.load(Ordering::Relaxed), 3);
}

#[test]
fn sessions_beside_each_other_take_turns() {
    let threads = Threads::new(2);
    let sum = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..100 {
                    threads.broadcast(&|i| {
                        sum.fetch_add(i + 1, Ordering::Relaxed);
                    });
                }
            });
        }
    });
    assert_eq!(sum.load(Ordering::Relaxed), 900);
}
