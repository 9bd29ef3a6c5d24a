//! Tests of the safetensors header parser and writer.

use std::collections::BTreeMap;

use nino_dtype::DType;
use proptest::prelude::*;

use super::{NewTensor, Writer, parse};
use crate::open;

fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn tensor(name: &str, dtype: &str, shape: &str, begin: u64, end: u64) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
}

#[track_caller]
fn check_refused(header: &str, data: usize, reason: &str) {
    let error = parse(&file(header, data)[..], 0).unwrap_err().to_string();
    assert!(error.contains(reason), "{error:?} does not say {reason:?}");
}

#[test]
fn what_two_readers_could_disagree_on_is_refused() {
    let a = tensor("a", "F32", "[2]", 0, 8);
    check_refused(&format!("{{{a},{a}}}"), 8, "\"a\" appears twice");
    check_refused(
        &format!("{{{a},{}}}", tensor("b", "F32", "[1]", 4, 8)),
        8,
        "overlapping",
    );
    check_refused(
        &format!("{{{a},{}}}", tensor("b", "F32", "[1]", 12, 16)),
        16,
        "hole",
    );
    check_refused(&format!("{{{a}}}"), 12, "which has");
    check_refused(&format!("{{{a}}}"), 4, "which has");
    check_refused(
        &format!("{{{}}}", tensor("a", "F32", "[2]", 8, 0)),
        8,
        "need 8 bytes",
    );
    check_refused(
        &format!("{{{}}}", tensor("a", "F32", "[3]", 0, 8)),
        8,
        "need 12 bytes",
    );
    check_refused(
        &format!("{{{}}}", tensor("a", "F32", "[-1]", 0, 8)),
        8,
        "invalid value",
    );
    check_refused(
        &format!("{{{}}}", tensor("a", "F4", "[16]", 0, 8)),
        8,
        "\"F4\"",
    );
    let huge = tensor("a", "F32", "[4294967296,4294967296,4294967296]", 0, 8);
    check_refused(&format!("{{{huge}}}"), 8, "more values than fit");
    let huge = tensor(
        "a",
        "F32",
        "[0,18446744073709551615,18446744073709551615]",
        0,
        0,
    );
    check_refused(&format!("{{{huge}}}"), 0, "more values than fit");
    check_refused(r#"{"__metadata__":{"k":1}}"#, 0, "expected a string");
    check_refused(
        r#"{"__metadata__":{"k":"1","k":"2"}}"#,
        0,
        "\"k\" appears twice",
    );
    check_refused("{", 0, "EOF");
}

#[test]
fn header_lengths_are_bounded_by_the_file() {
    for claimed in [1 << 20, u64::MAX, i64::MAX as u64] {
        let mut bytes = claimed.to_le_bytes().to_vec();
        bytes.extend_from_slice(b"{}");
        let error = parse(&bytes[..], 0).unwrap_err().to_string();
        assert!(error.contains("at most 2"), "{error}");
    }
    assert!(
        parse(&b"\x04\0\0\0\0\0\0\0\xff\xfe{}"[..], 0)
            .unwrap_err()
            .to_string()
            .contains("UTF-8")
    );
}

#[test]
fn what_is_written_reads_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.safetensors");
    let tensors = [
        ("b", DType::F16, vec![2, 3]),
        ("a", DType::U8, vec![5]),
        ("c", DType::F32, vec![]),
    ]
    .map(|(name, dtype, shape)| NewTensor {
        name: name.into(),
        dtype,
        shape,
    });
    let metadata = BTreeMap::from([("k".to_owned(), "v\"\\ü".to_owned())]);
    let mut writer = Writer::create(&path, &tensors, &metadata).unwrap();
    assert!(!path.exists(), "appears only when finished");
    let bytes: Vec<u8> = (0..12 + 5 + 4).collect();
    writer.write(&bytes[..7]).unwrap();
    writer.write(&bytes[7..]).unwrap();
    writer.finish().unwrap();
    let reader = open(&path).unwrap();
    assert_eq!(reader.index().metadata["k"].as_str(), Some("v\"\\ü"));
    let mut back = [0; 5];
    reader.read(reader.entry("a").unwrap(), &mut back).unwrap();
    assert_eq!(back, [12, 13, 14, 15, 16]);
}

#[test]
fn a_dropped_writer_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let tensors = [NewTensor {
        name: "a".into(),
        dtype: DType::F32,
        shape: vec![1000],
    }];
    let mut writer = Writer::create(
        &dir.path().join("x.safetensors"),
        &tensors,
        &BTreeMap::new(),
    )
    .unwrap();
    writer.write(&[0; 100]).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    drop(writer);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes[..], 0);
    }

    /// Any single edit of a valid header either still describes the file or is refused.
    #[test]
    fn edited_headers_stay_inside_the_file(at in 0usize..170, with in any::<u8>()) {
        let header = format!("{{{},{}}}", tensor("a", "F32", "[2,3]", 0, 24), tensor("b", "BF16", "[4]", 24, 32));
        let mut bytes = file(&header, 32);
        let n = bytes.len();
        bytes[at % n] = with;
        if let Ok(parsed) = parse(&bytes[..], 0) {
            for e in parsed.entries {
                prop_assert!(e.spans[0].offset + e.spans[0].len <= n as u64);
                prop_assert_eq!(e.n_bytes(), e.spans[0].len);
            }
        }
    }

    #[test]
    fn any_shapes_and_offsets_are_answered(
        shape in proptest::collection::vec(any::<u64>(), 0..5),
        begin in any::<u64>(), end in any::<u64>(), data in 0usize..64,
    ) {
        let header = format!("{{{}}}", tensor("a", "F16", &format!("{shape:?}"), begin, end));
        if let Ok(parsed) = parse(&file(&header, data)[..], 0) {
            prop_assert_eq!(parsed.entries[0].n_bytes(), data as u64);
        }
    }
}
