//! Tests across formats: golden files against the values PyTorch and gguf-py read from them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nino_dtype::DType;

use crate::safetensors::NewTensor;
use crate::{
    Entry, Error, Format, MemoryTensor, Metadata, Value, from_memory, gguf, open, safetensors,
    torch,
};

pub(crate) fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../goldens/weights")
        .join(name)
}

#[test]
fn golden_files_read_bit_for_bit() {
    let expected = open(golden("expected.safetensors")).unwrap();
    let mut failures = Vec::new();
    for want in expected.index().entries() {
        let (file, name) = want.name.split_once('/').unwrap();
        let reader = open(golden(file)).unwrap();
        let entry = reader.entry(name).unwrap();
        assert_eq!(entry.shape, want.shape, "{}", want.name);
        let (mut a, mut b) = (vec![0.0; want.n_values()], vec![0.0; want.n_values()]);
        expected.read_f32(want, &mut a).unwrap();
        reader.read_f32(entry, &mut b).unwrap();
        if a.iter().zip(&b).any(|(a, b)| a.to_bits() != b.to_bits()) {
            failures.push(format!(
                "{}: {:?} != {:?}",
                want.name,
                &a[..a.len().min(4)],
                &b[..b.len().min(4)]
            ));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(expected.index().entries().len() > 40);
}

#[test]
fn headers_say_format_types_and_metadata() {
    let reader = open(golden("all.safetensors")).unwrap();
    let index = reader.index();
    assert_eq!(index.format, Format::Safetensors);
    assert_eq!(index.metadata["note"], Value::Str("every type".into()));
    let dtype = |name: &str| index.get(name).unwrap().dtype;
    assert_eq!(dtype("e4m3"), DType::F8E4M3);
    assert_eq!(dtype("bool"), DType::Bool);
    assert_eq!(index.shape("scalar"), Some(&[][..]));
    assert_eq!(index.shape("empty"), Some(&[0, 4][..]));
    let mut buf = [0; 32];
    reader.read(index.get("i64").unwrap(), &mut buf).unwrap();
    assert_eq!(buf[8..16], 1u64.to_le_bytes());

    let ckpt = open(golden("lightning.ckpt")).unwrap();
    assert_eq!(ckpt.index().format, Format::Torch);
    assert_eq!(ckpt.index().entries().len(), 1);
    assert_eq!(ckpt.index().metadata["epoch"], Value::I64(3));
}

#[test]
fn scales_leave_the_list_of_tensors() {
    let index = open(golden("scaled_marker.safetensors")).unwrap();
    let names: Vec<_> = index
        .index()
        .entries()
        .iter()
        .map(|e| e.name.as_str())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let entry = index.entry("model.diffusion_model.x.weight").unwrap();
    let scale = entry.scale.unwrap();
    assert_eq!(
        index.index().side[scale.weight].name,
        "model.diffusion_model.x.scale_weight"
    );
    assert!(scale.input.is_some());
    // Its factors are missing.
    let error = open(golden("scaled_nvfp4.safetensors")).unwrap_err();
    assert!(
        matches!(&error, Error::QuantFormat { format, .. } if format.contains("nvfp4")),
        "{error}"
    );
}

/// Against what the libraries of these encodings read.
#[test]
fn packed_weights_are_read_as_blocks_of_their_own_encoding() {
    let reader = open(golden("packed.safetensors")).unwrap();
    assert_eq!(reader.index().entries().len(), 8);
    let values = |name: &str| {
        let entry = reader.entry(name).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        reader.read_f32(entry, &mut values).unwrap();
        values
    };
    for (name, encoding, bits) in [
        ("a", "nvfp4 scaled", 4.5),
        ("b", "mxfp8", 8.25),
        ("c", "nf4", 4.5),
        ("d", "nf4", 4.5),
    ] {
        let weight = format!("{name}.weight");
        let entry = reader.entry(&weight).unwrap();
        assert_eq!(entry.encoding(), encoding);
        let (found, wanted) = (values(&weight), values(&format!("expected.{name}")));
        assert_eq!(
            entry.shape,
            reader.entry(&format!("expected.{name}")).unwrap().shape
        );
        let square = |v: f32| f64::from(v) * f64::from(v);
        let error: f64 = found.iter().zip(&wanted).map(|(f, w)| square(f - w)).sum();
        let nmse = error / wanted.iter().map(|&w| square(w)).sum::<f64>();
        println!("{name}: NMSE {nmse:.1e}");
        // The order of two multiplications is all that may differ.
        assert!(nmse <= 1e-14, "{name}: NMSE {nmse:.1e}");
        let held = entry.n_bytes() as f64 * 8.0 / entry.n_values() as f64;
        assert!((held - bits).abs() < 1e-9, "{name}: {held} bits a value");
        // Any part of it is the same as in the whole.
        let mut bytes = vec![0; entry.n_bytes() as usize];
        reader.read(entry, &mut bytes).unwrap();
        let mut part = vec![0; 1000];
        for at in [0, 7, bytes.len() / 2 + 3, bytes.len() - 1000] {
            reader.read_range(entry, at as u64, &mut part).unwrap();
            assert!(part == bytes[at..at + 1000], "{name} at {at}");
        }
    }
}

/// Some files have no tensor beside a layer that describes it.
#[test]
fn layers_may_be_described_in_the_header_alone() {
    let new = |name: &str, dtype, shape: &[usize]| NewTensor {
        name: name.to_owned(),
        dtype,
        shape: shape.to_vec(),
    };
    let tensors = [
        new("x.weight", DType::I8, &[2, 64]),
        new("x.weight_scale", DType::F32, &[2, 1]),
    ];
    let layers = r#"{"layers": {"x": {"format": "int8_tensorwise", "convrot": true,
        "convrot_groupsize": 16}}}"#;
    let metadata = BTreeMap::from([("_quantization_metadata".to_owned(), layers.to_owned())]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let mut writer = safetensors::Writer::create(&path, &tensors, &metadata).unwrap();
    writer.write(&[3; 128]).unwrap();
    writer
        .write(&[0.5f32, 2.0].map(f32::to_le_bytes).concat())
        .unwrap();
    writer.finish().unwrap();
    let reader = open(&path).unwrap();
    let entry = reader.entry("x.weight").unwrap();
    assert_eq!(entry.scale.unwrap().rotated, Some(16));
    assert_eq!(reader.scales(entry).unwrap(), Some(vec![0.5, 2.0]));
    // Rows of the matrix of 16 sum to 1, since those of the one of 4 do: equal values stay.
    let mut values = vec![0.0; 128];
    reader.read_f32(entry, &mut values).unwrap();
    let near = |(v, expected): (&f32, f32)| (v - expected).abs() < 1e-4;
    let expected = [1.5; 64].into_iter().chain([6.0; 64]);
    assert!(values.iter().zip(expected).all(near), "{values:?}");
}

/// Rows of 48 values are three groups of 16, and not whole blocks of 64.
#[test]
fn packed_rows_that_blocks_do_not_fill_are_held_in_bf16() {
    let tensor = |name: &str, dtype, shape: &[usize], bytes: Vec<u8>| MemoryTensor {
        name: name.to_owned(),
        dtype,
        shape: shape.to_vec(),
        bytes: Arc::new(bytes),
    };
    let marker = br#"{"format": "nvfp4"}"#.to_vec();
    // The factors 1, 2 and 0.5 of row 0 and the same of row 1, which lies 16 bytes on.
    let mut scales = vec![0; 128 * 4];
    for row in [0, 16] {
        scales[row..row + 3].copy_from_slice(&[0x38, 0x40, 0x30]);
    }
    let reader = from_memory(
        "made up",
        vec![
            tensor("x.weight", DType::U8, &[2, 24], vec![0x27; 48]),
            tensor("x.weight_scale", DType::F8E4M3, &[128, 4], scales),
            tensor(
                "x.weight_scale_2",
                DType::F32,
                &[],
                0.5f32.to_le_bytes().to_vec(),
            ),
            tensor("x.comfy_quant", DType::U8, &[marker.len()], marker),
        ],
    )
    .unwrap();
    let entry = reader.entry("x.weight").unwrap();
    assert_eq!(
        (entry.encoding().as_str(), &entry.shape[..]),
        ("nvfp4 as bf16", &[2, 48][..])
    );
    let mut values = vec![0.0; 96];
    reader.read_f32(entry, &mut values).unwrap();
    // Codes 2 and 7 are 1 and 6.
    let groups = [1.0, 2.0, 0.5].repeat(2);
    let expected = groups
        .iter()
        .flat_map(|factor| [0.5 * factor, 3.0 * factor].repeat(8));
    assert_eq!(values, expected.collect::<Vec<f32>>());
}

#[test]
fn svdquant_is_refused_in_a_sentence() {
    let qweight = MemoryTensor {
        name: "blocks.0.qkv.qweight".to_owned(),
        dtype: DType::I8,
        shape: vec![4, 2],
        bytes: Arc::new(vec![0u8; 8]),
    };
    let error = from_memory("made up", vec![qweight])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("SVDQuant") && error.contains("GGUF"),
        "{error}"
    );
}

/// Writes part `i` of `of` with one tensor; it says that it is the part `told`.
fn write_part(folder: &Path, i: u16, of: u16, told: u16) -> PathBuf {
    let path = folder.join(format!("m-{i:05}-of-{of:05}.gguf"));
    let metadata = Metadata::from([
        ("split.no".to_owned(), Value::U16(told - 1)),
        ("split.count".to_owned(), Value::U16(of)),
        ("split.tensors.count".to_owned(), Value::I32(of.into())),
    ]);
    let tensor = NewTensor {
        name: format!("x{i}"),
        dtype: DType::F32,
        shape: vec![2],
    };
    let mut writer = gguf::Writer::create(&path, &[tensor], &metadata).unwrap();
    let values = [f32::from(i), 0.5].map(f32::to_le_bytes).concat();
    writer.write(&values).unwrap();
    writer.finish().unwrap();
    path
}

#[test]
fn a_model_in_several_gguf_files_opens_by_any_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let parts: Vec<PathBuf> = (1..=3).map(|i| write_part(dir.path(), i, 3, i)).collect();
    for path in parts.iter().map(PathBuf::as_path).chain([dir.path()]) {
        let reader = open(path).unwrap();
        assert_eq!(reader.index().entries().len(), 3);
        let mut values = [0.0; 2];
        let entry = reader.entry("x3").unwrap();
        reader.read_f32(entry, &mut values).unwrap();
        assert_eq!(values.map(f32::to_bits), [3f32, 0.5].map(f32::to_bits));
    }
    write_part(dir.path(), 2, 3, 1);
    let error = open(&parts[0]).unwrap_err().to_string();
    assert!(error.contains("is not part 2 of 3"), "{error}");
    std::fs::remove_file(&parts[1]).unwrap();
    let error = open(&parts[0]).unwrap_err().to_string();
    assert!(error.contains("m-00002-of-00003.gguf"), "{error}");
}

#[test]
fn a_pickle_that_calls_is_refused_by_name() {
    let error = open(golden("evil.pt")).unwrap_err().to_string();
    assert!(
        error.contains("posix.system") && error.contains("offset"),
        "{error}"
    );
    let error = open(golden("deflated.pt")).unwrap_err().to_string();
    assert!(error.contains("compressed"), "{error}");
    let error = open(golden("expanded.pt")).unwrap_err();
    let Error::Torch {
        reason: torch::Problem::Expanded { tensor, .. },
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(tensor, "big");
}

#[test]
fn strided_tensors_are_gathered_and_views_share_bytes() {
    let reader = open(golden("zip.pt")).unwrap();
    assert!(reader.entry("transposed").unwrap().strides.is_some());
    let (whole, part) = (reader.entry("f32").unwrap(), reader.entry("slice").unwrap());
    assert_eq!(part.spans[0].offset, whole.spans[0].offset + 2 * 4 * 4);
}

#[test]
fn a_file_may_hold_one_tensor_without_a_name() {
    for name in ["single.pt", "single_legacy.pt"] {
        let reader = open(golden(name)).unwrap();
        let [entry] = reader.index().entries() else {
            panic!("{name}: {:?}", reader.index().entries());
        };
        assert_eq!(
            (entry.name.as_str(), &entry.shape[..]),
            ("tensor", &[1, 4, 4, 6][..])
        );
        let mut values = vec![0.0; 96];
        reader.read_f32(entry, &mut values).unwrap();
        assert!((values[95] - 0.9).abs() < 1e-6, "{name}: {values:?}");
    }
}

#[test]
fn every_truncation_of_every_golden_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    for name in [
        "all.safetensors",
        "all.gguf",
        "zip.pt",
        "legacy.pt",
        "single.pt",
        "single_legacy.pt",
        "lightning.ckpt",
    ] {
        let bytes = std::fs::read(golden(name)).unwrap();
        let step = (bytes.len() / 97).max(1);
        for len in (0..bytes.len()).step_by(step) {
            let path = dir.path().join(name);
            std::fs::write(&path, &bytes[..len]).unwrap();
            let error = open(&path).expect_err(&format!("{name} cut to {len} bytes"));
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}

#[test]
fn the_fuzzing_corpus_is_answered() {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut n = 0;
    for (target, parse) in [
        (
            "safetensors",
            spans_of_safetensors as fn(&[u8]) -> Option<Vec<Entry>>,
        ),
        ("gguf", |bytes| {
            Some(crate::gguf::parse(bytes, 0).ok()?.entries)
        }),
        ("torch", |bytes| {
            let _ = torch::pickle::run(bytes);
            Some(torch::parse(bytes, 0).ok()?.entries)
        }),
    ] {
        for file in std::fs::read_dir(corpus.join(target)).unwrap() {
            let path = file.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            for span in parse(&bytes)
                .unwrap_or_default()
                .iter()
                .flat_map(|e| &e.spans)
            {
                assert!(
                    span.offset + span.len <= bytes.len() as u64,
                    "{}",
                    path.display()
                );
            }
            n += 1;
        }
    }
    assert!(n > 20, "{n} seeds");
}

fn spans_of_safetensors(bytes: &[u8]) -> Option<Vec<Entry>> {
    Some(crate::safetensors::parse(bytes, 0).ok()?.entries)
}

/// A file that is written to in place while it is read must not become a mixture of two.
#[test]
fn a_file_that_changes_while_it_is_read_is_told() {
    use std::io::{Seek, SeekFrom, Write};
    type Change = fn(&mut std::fs::File);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.safetensors");
    let bytes = std::fs::read(golden("all.safetensors")).unwrap();
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let write = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(long_ago).unwrap();
        file
    };
    let overwrite: Change = |file| {
        file.seek(SeekFrom::End(-4)).unwrap();
        file.write_all(b"othr").unwrap();
    };
    let cut: Change = |file| file.set_len(300).unwrap();
    for change in [overwrite, cut] {
        let mut file = write(&bytes);
        let reader = open(&path).unwrap();
        let entry = reader.entry("f32").unwrap();
        let mut values = vec![0.0; entry.n_values()];
        reader.read_f32(entry, &mut values).unwrap();
        change(&mut file);
        // Weights that are streamed are read again.
        let error = reader.read_f32(entry, &mut values).unwrap_err();
        assert!(
            matches!(error, Error::File(nino_files::FileError::Changed { .. })),
            "{error}"
        );
        assert!(error.to_string().contains("a.safetensors"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn devices_are_neither_models_nor_shard_lists() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.safetensors", "a.json", "a.gguf"] {
        let path = dir.path().join(name);
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let error = open(&path).unwrap_err().to_string();
        assert!(error.contains("this is a device"), "{error}");
    }
}
