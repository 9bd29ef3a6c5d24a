//! Orders that need a barrier and orders that do not.

use super::{Hazards, Touch};

/// Dispatches as (what is written, what is read), each a (buffer, start, end).
type Sequence<'a> = &'a [(&'a [(u64, u64, u64)], &'a [(u64, u64, u64)])];

fn barriers(sequence: Sequence<'_>) -> Vec<bool> {
    let mut hazards = Hazards::default();
    let touch = |writes| move |&(b, from, to): &(u64, u64, u64)| Touch::new(b, from..to, writes);
    let all = sequence.iter().map(|(writes, reads)| {
        let writes = writes.iter().map(touch(true));
        let touched: Vec<Touch> = writes.chain(reads.iter().map(touch(false))).collect();
        hazards.barrier_before(&touched)
    });
    all.collect()
}

#[test]
fn what_depends_waits_and_what_does_not_runs_along() {
    let cases: &[(&str, Sequence<'_>, &[bool])] = &[
        (
            "three products of one input",
            &[
                (&[(1, 256, 512)], &[(1, 0, 256), (2, 0, 64)]),
                (&[(1, 512, 768)], &[(1, 0, 256), (3, 0, 64)]),
                (&[(1, 768, 1024)], &[(1, 0, 256), (4, 0, 64)]),
            ],
            &[false, false, false],
        ),
        (
            "a read of a write, and what was read before the barrier may then be written",
            &[
                (&[(1, 0, 64)], &[(1, 64, 128)]),
                (&[(1, 128, 192)], &[(1, 0, 64)]),
                (&[(1, 64, 128)], &[(2, 0, 64)]),
            ],
            &[false, true, false],
        ),
        (
            "a write over a read",
            &[(&[(1, 0, 64)], &[(1, 64, 128)]), (&[(1, 64, 128)], &[])],
            &[false, true],
        ),
        (
            "a write over a write",
            &[(&[(1, 0, 64)], &[]), (&[(1, 32, 96)], &[])],
            &[false, true],
        ),
        (
            "a dispatch that writes what it reads waits for others only",
            &[
                (&[(1, 0, 64)], &[(1, 0, 64)]),
                (&[(1, 0, 64)], &[(1, 0, 64)]),
            ],
            &[false, true],
        ),
        (
            "halves of one word",
            &[(&[(1, 0, 10)], &[]), (&[(1, 10, 32)], &[])],
            &[false, true],
        ),
        (
            "the same bytes of another buffer",
            &[(&[(1, 0, 64)], &[]), (&[(2, 0, 64)], &[])],
            &[false, false],
        ),
    ];
    for (what, sequence, expected) in cases {
        assert_eq!(barriers(sequence), *expected, "{what}");
    }
}
