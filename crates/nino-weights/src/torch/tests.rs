//! Tests of the pickle interpreter and the zip directory reader.

use proptest::prelude::*;

use super::{parse, pickle};
use crate::tests::golden;

#[track_caller]
fn check_refused(program: &[u8], reason: &str) {
    let error = pickle::run(program).unwrap_err().to_string();
    assert!(error.contains(reason), "{error:?} does not say {reason:?}");
}

#[test]
fn nothing_can_be_called() {
    check_refused(b"cos\nsystem\n(S'ls'\ntR.", "os.system");
    check_refused(b"c__builtin__\neval\n(S'1'\ntR.", "__builtin__.eval");
    check_refused(b"cbuiltins\ngetattr\n.", "builtins.getattr");
    check_refused(
        b"\x80\x04\x8c\x0asubprocess\x8c\x05Popen\x93.",
        "subprocess.Popen",
    );
    check_refused(b"ctorch.storage\n_load_from_bytes\n.", "_load_from_bytes");
    check_refused(b"cnumpy\nx.__class__\n.", "__class__");
    check_refused(b"(S'ls'\nios\nsystem\n.", "opcode 0x69");
    check_refused(b"P1\n.", "opcode 0x50");
    let (heap, top, _) = pickle::run(b"cmy.training\nConfig\n(K\x01tR.").unwrap();
    assert_eq!(heap.class(top).as_deref(), Some("my.training.Config"));
}

#[test]
fn broken_programs_are_refused_with_offsets() {
    check_refused(b"", "no STOP");
    check_refused(b".", "none");
    check_refused(b"K\x01K\x02", "no STOP before its end at offset 4");
    check_refused(b"X\xff\xff\xff\x7fab", "ends at offset 0");
    check_refused(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "ends at offset 0");
    check_refused(b"h\x01.", "memo 1");
    check_refused(b"t.", "a mark");
    check_refused(b"K\x01(K\x01K\x01u.", "another value");
    check_refused(b"}(K\x01u.", "an odd number");
    check_refused(b"\x80\x09.", "protocol 9");
    check_refused(b"Inot\n.", "a number");
    check_refused(b"X\x01\0\0\0\xff.", "UTF-8");
}

#[test]
fn a_bomb_of_shared_dictionaries_is_refused() {
    // d0 = {}; d1 = {a: d0, b: d0}; d2 = {a: d1, b: d1}; ..
    let mut program = b"}q\x00".to_vec();
    for i in 1..40u8 {
        program.extend_from_slice(b"}(X\x01\0\0\0ah");
        program.push(i - 1);
        program.extend_from_slice(b"X\x01\0\0\0bh");
        program.push(i - 1);
        program.extend_from_slice(b"uq");
        program.push(i);
    }
    program.push(b'.');
    let (heap, top, _) = pickle::run(&program).unwrap();
    let error = super::state::collect(&heap, top, |_, _, _| unreachable!()).unwrap_err();
    assert!(
        matches!(
            error,
            super::Problem::Depth { .. } | super::Problem::Shared { .. }
        ),
        "{error}"
    );
}

#[test]
fn overlapping_zip_members_are_refused() {
    let mut bytes = std::fs::read(golden("zip.pt")).unwrap();
    let directories: Vec<usize> = bytes
        .windows(4)
        .enumerate()
        .filter(|(_, w)| w == b"PK\x01\x02")
        .map(|(i, _)| i)
        .collect();
    let first: [u8; 4] = bytes[directories[0] + 42..][..4].try_into().unwrap();
    bytes[directories[2] + 42..][..4].copy_from_slice(&first);
    let error = parse(&bytes[..], 0).unwrap_err().to_string();
    assert!(error.contains("overlaps"), "{error}");
}

/// Forty megabytes each, as a file may have. Each is refused before it takes much memory: every
/// value costs 32 bytes, every place on the stack four, every mark and memo eight.
#[test]
fn bombs_are_refused_early() {
    const BYTES: usize = 40_000_000;
    let long = vec![b'm'; 1 << 20];
    let mut long_name = b"X\0\0\x10\0".to_vec();
    long_name.extend(&long);
    long_name.extend(b"q\0");
    for (start, piece, says) in [
        (&b""[..], &b"]"[..], "more than 4000000 values"),
        (b"K\x01", b"\x94", "more than 4000000 values"),
        (b"K\x01", b"2", "more than 4000000 values"),
        (b"", b"(", "more than 4000000 values"),
        (b"K\x01q\0", b"h\0", "more than 4000000 values"),
        // One long string as module and name of a class, again and again.
        (&long_name, b"h\0h\0\x93", "name of 1048576 bytes"),
    ] {
        let mut program = start.to_vec();
        program.extend(piece.repeat((BYTES - program.len()) / piece.len()));
        program.push(b'.');
        let started = std::time::Instant::now();
        check_refused(&program, says);
        assert!(started.elapsed().as_secs() < 20, "{says}");
    }
}

/// A name, a value or a shape that is stored once and used again and again: small files that would
/// become huge indexes.
#[test]
fn shared_strings_and_shapes_do_not_multiply() {
    let collect = |program: &[u8]| {
        let (heap, top, _) = pickle::run(program).unwrap();
        let span = crate::Span {
            file: 0,
            offset: 0,
            len: 4,
        };
        super::state::collect(&heap, top, |_, _, _| Ok(span)).unwrap_err()
    };
    let string = |len: usize| {
        let mut out = b"X".to_vec();
        out.extend((len as u32).to_le_bytes());
        out.extend(vec![b'k'; len]);
        out
    };
    // {"0": {key: 1}, "1": {key: 1}, ..}, all with one key of a thousand bytes.
    let mut program = string(1000);
    program.extend(b"q\x000}(");
    for i in 0..80_000 {
        let name = format!("{i}");
        program.push(b'X');
        program.extend((name.len() as u32).to_le_bytes());
        program.extend(name.as_bytes());
        program.extend(b"}(h\0K\x01u");
    }
    program.extend(b"u.");
    let error = collect(&program);
    assert!(matches!(error, super::Problem::Names { .. }), "{error}");

    // _rebuild_tensor_v2(storage, 0, shape, shape) with a shape of 100 ones.
    let mut program = b"}(X\x01\0\0\0tctorch._utils\n_rebuild_tensor_v2\n(".to_vec();
    program.extend(b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000");
    program.extend(b"X\x03\0\0\0cpuK\x01tQK\0(");
    program.extend(b"K\x01".repeat(100));
    program.extend(b"tq\x00h\x00tRu.");
    let error = collect(&program).to_string();
    assert!(error.contains("dimensions"), "{error}");
}

proptest! {
    #[test]
    fn random_programs_never_panic(program in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = pickle::run(&program);
    }

    #[test]
    fn edited_files_never_panic_and_stay_inside(
        file in prop_oneof![Just("zip.pt"), Just("legacy.pt"), Just("lightning.ckpt")],
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = std::fs::read(golden(file)).unwrap();
        for (at, with) in edits {
            let at = at.index(bytes.len());
            bytes[at] = with;
        }
        if let Ok(parsed) = parse(&bytes[..], 0) {
            for e in parsed.entries {
                prop_assert!(e.spans[0].offset + e.spans[0].len <= bytes.len() as u64);
            }
        }
    }
}
