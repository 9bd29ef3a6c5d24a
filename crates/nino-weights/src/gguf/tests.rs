//! Tests of the GGUF reader and writer.

use nino_dtype::DType;
use proptest::prelude::*;

use super::{Writer, parse};
use crate::safetensors::NewTensor;
use crate::tests::golden;
use crate::{Array, Metadata, Value, open};

#[derive(Clone)]
struct Info {
    name: &'static str,
    dims: Vec<u64>,
    dtype: u32,
    offset: u64,
}

fn file(keys: &[(&str, u32, Vec<u8>)], infos: &[Info], data: usize) -> Vec<u8> {
    let mut out = b"GGUF\x03\0\0\0".to_vec();
    out.extend_from_slice(&(infos.len() as u64).to_le_bytes());
    out.extend_from_slice(&(keys.len() as u64).to_le_bytes());
    let string = |out: &mut Vec<u8>, s: &str| {
        out.extend_from_slice(&(s.len() as u64).to_le_bytes());
        out.extend_from_slice(s.as_bytes());
    };
    for (key, kind, value) in keys {
        string(&mut out, key);
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(value);
    }
    for i in infos {
        string(&mut out, i.name);
        out.extend_from_slice(&(i.dims.len() as u32).to_le_bytes());
        i.dims
            .iter()
            .for_each(|d| out.extend_from_slice(&d.to_le_bytes()));
        out.extend_from_slice(&i.dtype.to_le_bytes());
        out.extend_from_slice(&i.offset.to_le_bytes());
    }
    out.resize(out.len().next_multiple_of(32) + data, 0);
    out
}

fn info(name: &'static str, dims: &[u64], dtype: u32, offset: u64) -> Info {
    Info {
        name,
        dims: dims.to_vec(),
        dtype,
        offset,
    }
}

#[track_caller]
fn check_refused(bytes: &[u8], reason: &str) {
    let error = parse(bytes, 0).unwrap_err().to_string();
    assert!(error.contains(reason), "{error:?} does not say {reason:?}");
}

#[test]
fn all_value_types_and_the_tokenizer_are_kept() {
    let reader = open(golden("all.gguf")).unwrap();
    let meta = &reader.index().metadata;
    for (key, value) in [
        ("t.u8", Value::U8(1)),
        ("t.i8", Value::I8(-1)),
        ("t.u16", Value::U16(2)),
        ("t.i16", Value::I16(-2)),
        ("t.u32", Value::U32(3)),
        ("t.i32", Value::I32(-3)),
        ("t.u64", Value::U64(4)),
        ("t.i64", Value::I64(-4)),
        ("t.f32", Value::F32(0.5)),
        ("t.f64", Value::F64(-0.5)),
        ("t.bool", Value::Bool(true)),
        ("t.str", Value::Str("grüße".into())),
        ("general.architecture", Value::Str("flux".into())),
        ("t.array", Value::Array(Array::I32(vec![1, 2, 3]))),
    ] {
        assert_eq!(meta[key], value, "{key}");
    }
    let Value::Array(Array::Str(tokens)) = &meta["tokenizer.ggml.tokens"] else {
        panic!()
    };
    assert_eq!(tokens, &["<s>", "a", "b"]);
    assert_eq!(reader.index().shape("conv"), Some(&[4, 8, 3, 3][..]));
    assert_eq!(reader.index().get("iq4_xs").unwrap().dtype, DType::IQ4_XS);
}

/// As files of Wan have the patch embedding.
#[test]
fn tensors_may_have_five_dimensions() {
    let bytes = file(
        &[],
        &[info("patch_embedding.weight", &[2, 2, 1, 3, 4], 0, 0)],
        192,
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("five.gguf");
    std::fs::write(&path, &bytes).unwrap();
    let reader = open(&path).unwrap();
    let shape = reader.index().shape("patch_embedding.weight");
    assert_eq!(shape, Some(&[4, 3, 1, 2, 2][..]));
}

#[test]
fn bad_headers_are_refused_with_names() {
    let a = info("a", &[32], 0, 0);
    check_refused(b"GGUG\x03\0\0\0", "GGUF");
    check_refused(b"GGUF\x01\0\0\0", "version 1");
    check_refused(b"GGUF\0\0\0\x03", "big-endian");
    check_refused(&file(&[], std::slice::from_ref(&a), 64), "needs 128 bytes");
    check_refused(&file(&[], &[a.clone(), a.clone()], 256), "appears twice");
    check_refused(
        &file(&[], &[a.clone(), info("b", &[32], 0, 64)], 256),
        "overlap",
    );
    check_refused(&file(&[], &[info("a", &[8], 0, 4)], 256), "multiple of 32");
    check_refused(
        &file(&[], &[info("a", &[8], 0, u64::MAX - 31)], 256),
        "needs 32 bytes",
    );
    check_refused(
        &file(&[], &[info("a", &[33], 8, 0)], 256),
        "whole q8_0 blocks",
    );
    check_refused(&file(&[], &[info("a", &[32], 19, 0)], 256), "IQ1_S");
    check_refused(
        &file(&[], &[info("a", &[1 << 40, 1 << 40], 0, 0)], 256),
        "too large",
    );
    check_refused(&file(&[], &[info("a", &[1; 9], 0, 0)], 256), "9 dimensions");
    let key = |v: &[u8]| vec![("k", 7u32, v.to_vec())];
    check_refused(&file(&key(&[2]), &[], 0), "not a boolean");
    check_refused(&file(&[("k", 13, vec![])], &[], 0), "value type 13");
    check_refused(
        &file(&[("k", 0, vec![1]), ("k", 0, vec![1])], &[], 0),
        "appears twice",
    );
    check_refused(
        &file(&[("general.alignment", 4, vec![3, 0, 0, 0])], &[], 0),
        "power of two",
    );
    let mut array = 10u32.to_le_bytes().to_vec();
    array.extend_from_slice(&u64::MAX.to_le_bytes());
    check_refused(&file(&[("k", 9, array)], &[], 0), "array");
    let mut nested = Vec::new();
    for _ in 0..6 {
        nested.extend_from_slice(&9u32.to_le_bytes());
        nested.extend_from_slice(&1u64.to_le_bytes());
    }
    check_refused(&file(&[("k", 9, nested)], &[], 64), "deeper than 4");
    let mut counts = file(&[], &[], 0);
    counts[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    check_refused(&counts, "tensor infos");
}

#[test]
fn what_is_written_reads_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.gguf");
    let metadata = open(golden("all.gguf")).unwrap().index().metadata.clone();
    let metadata: Metadata = metadata
        .into_iter()
        .filter(|(k, _)| !k.starts_with(super::ORIG_SHAPE))
        .collect();
    let tensors = [
        ("a", DType::Q8_0, vec![2, 32]),
        ("e", DType::F32, vec![0]),
        ("b", DType::F16, vec![3]),
    ]
    .map(|(name, dtype, shape)| NewTensor {
        name: name.into(),
        dtype,
        shape,
    });
    let mut writer = Writer::create(&path, &tensors, &metadata).unwrap();
    let bytes: Vec<u8> = (0..68 + 6).collect();
    writer.write(&bytes[..10]).unwrap();
    writer.write(&bytes[10..]).unwrap();
    writer.finish().unwrap();
    let reader = open(&path).unwrap();
    assert_eq!(reader.index().metadata, metadata);
    let mut back = [0; 6];
    reader.read(reader.entry("b").unwrap(), &mut back).unwrap();
    assert_eq!(back, [68, 69, 70, 71, 72, 73]);
}

proptest! {
    #[test]
    fn edited_files_never_panic_and_stay_inside(edits in proptest::collection::vec((0usize..2600, any::<u8>()), 1..4)) {
        let mut bytes = std::fs::read(golden("all.gguf")).unwrap();
        for (at, with) in edits {
            bytes[at] = with;
        }
        if let Ok(parsed) = parse(&bytes[..], 0) {
            for e in parsed.entries {
                prop_assert!(e.spans[0].offset + e.spans[0].len <= bytes.len() as u64);
            }
        }
    }

    #[test]
    fn any_shape_and_offset_is_answered(
        dims in proptest::collection::vec(prop_oneof![0u64..300, any::<u64>()], 0..6),
        dtype in 0u32..42, offset in prop_oneof![(0u64..8).prop_map(|n| n * 32), any::<u64>()],
    ) {
        let bytes = file(&[], &[Info { name: "a", dims, dtype, offset }], 512);
        if let Ok(parsed) = parse(&bytes[..], 0) {
            prop_assert!(parsed.entries[0].n_bytes() <= 512);
        }
    }
}
