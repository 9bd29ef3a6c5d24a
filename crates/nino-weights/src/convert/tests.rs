//! Tests of conversion.

use std::path::Path;

use nino_dtype::DType;

use super::{Options, Problem, Rule, convert};
use crate::safetensors::{NewTensor, Writer};
use crate::tests::golden;
use crate::{Error, TensorReader, open};

fn options(dtype: DType, keep: &[&str]) -> Options {
    Options {
        dtype,
        keep: keep.iter().map(|r| r.parse().unwrap()).collect(),
        architecture: "sd1".to_owned(),
    }
}

/// A small model: a matrix, a convolution, a 3-D convolution, an embedding, a norm.
fn model(path: &Path) -> TensorReader {
    let tensors = [
        ("blocks.0.weight", vec![40, 512]),
        ("conv.weight", vec![8, 32, 3, 3]),
        ("conv3d.weight", vec![4, 2, 3, 4, 32]),
        ("emb.weight", vec![16, 64]),
        ("norm.weight", vec![512]),
    ]
    .map(|(name, shape)| NewTensor {
        name: name.into(),
        dtype: DType::F32,
        shape,
    });
    let mut writer =
        Writer::create(path, &tensors, &[("k".to_owned(), "v".to_owned())].into()).unwrap();
    let mut state = 1u32;
    for t in &tensors {
        for _ in 0..t.shape.iter().product::<usize>() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = (state >> 8) as f32 / 16_777_216.0 - 0.5;
            writer.write(&value.to_le_bytes()).unwrap();
        }
    }
    writer.finish().unwrap();
    open(path).unwrap()
}

fn values(reader: &TensorReader, name: &str) -> Vec<f32> {
    let entry = reader.entry(name).unwrap();
    let mut out = vec![0.0; entry.n_values()];
    reader.read_f32(entry, &mut out).unwrap();
    out
}

#[test]
fn every_type_is_written_and_read_back_within_its_error() {
    let dir = tempfile::tempdir().unwrap();
    let source = model(&dir.path().join("in.safetensors"));
    for (dtype, out, tolerance) in [
        (DType::F32, "x.gguf", 0.0),
        (DType::F16, "x.safetensors", 0.001),
        (DType::BF16, "x.gguf", 0.005),
        (DType::F8E4M3, "x.safetensors", 0.05),
        (DType::F8E5M2, "x.safetensors", 0.1),
        (DType::Q8_0, "x.gguf", 0.01),
        (DType::Q6_K, "x.gguf", 0.04),
        (DType::Q5_K, "x.gguf", 0.06),
        (DType::Q4_K, "x.gguf", 0.1),
        (DType::Q3_K, "x.gguf", 0.2),
        (DType::Q2_K, "x.gguf", 0.4),
        (DType::Q4_0, "x.gguf", 0.2),
        (DType::Q4_1, "x.gguf", 0.1),
        (DType::Q5_0, "x.gguf", 0.1),
        (DType::Q5_1, "x.gguf", 0.06),
    ] {
        let path = dir.path().join(out);
        let report = convert(&source, &path, &options(dtype, &[]), |_| true).unwrap();
        let back = open(&path).unwrap();
        assert_eq!(back.index().get("blocks.0.weight").unwrap().dtype, dtype);
        assert_eq!(
            back.index().shape("conv3d.weight"),
            Some(&[4, 2, 3, 4, 32][..]),
            "{dtype}"
        );
        let (a, b) = (
            values(&source, "blocks.0.weight"),
            values(&back, "blocks.0.weight"),
        );
        let error: f32 = a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b)).sum();
        let energy: f32 = a.iter().map(|a| a * a).sum();
        let relative = (error / energy).sqrt();
        assert!(relative <= tolerance, "{dtype}: {relative}");
        let encoding = report.encodings.iter().find(|e| e.dtype == dtype).unwrap();
        assert!(
            encoding.relative_rmse <= f64::from(tolerance),
            "{dtype}: {encoding:?}"
        );
        assert_eq!(encoding.worst.is_some(), tolerance > 0.0, "{dtype}");
    }
}

#[test]
fn rules_small_tensors_and_fallbacks() {
    let dir = tempfile::tempdir().unwrap();
    let source = model(&dir.path().join("in.safetensors"));
    let path = dir.path().join("x.gguf");
    let report = convert(
        &source,
        &path,
        &options(DType::Q4_K, &["emb,head=f16"]),
        |_| true,
    )
    .unwrap();
    let back = open(&path).unwrap();
    let dtype = |name: &str| back.index().get(name).unwrap().dtype;
    assert_eq!(dtype("blocks.0.weight"), DType::Q4_K);
    assert_eq!(
        dtype("norm.weight"),
        DType::F32,
        "one dimension keeps its type"
    );
    assert_eq!(dtype("emb.weight"), DType::F16, "by rule");
    assert_eq!(dtype("conv.weight"), DType::F16, "rows of 3 fit no block");
    assert_eq!(
        dtype("conv3d.weight"),
        DType::Q5_0,
        "rows of 32 fit the smaller block"
    );
    let fallbacks: Vec<_> = report
        .fallbacks
        .iter()
        .map(|f| (f.tensor.as_str(), f.written))
        .collect();
    assert_eq!(
        fallbacks,
        [("conv.weight", DType::F16), ("conv3d.weight", DType::Q5_0)]
    );
    assert_eq!(back.index().metadata["k"].as_str(), Some("v"));
    let named = &back.index().metadata["general.architecture"];
    assert_eq!(named.as_str(), Some("sd1"));
    assert!(report.file_bytes_after < report.file_bytes_before);
    assert_eq!(
        "norm, bias =f16".parse::<Rule>().unwrap().words,
        ["norm", "bias"]
    );
    assert!(matches!("norm".parse::<Rule>(), Err(Problem::Rule(_))));
    assert!(matches!("norm=f17".parse::<Rule>(), Err(Problem::Type(_))));
}

#[test]
fn scaled_fp8_and_strided_tensors_convert_to_their_real_values() {
    let dir = tempfile::tempdir().unwrap();
    for (file, name) in [
        ("scaled_comfy.safetensors", "y.weight"),
        ("zip.pt", "transposed"),
    ] {
        let source = open(golden(file)).unwrap();
        let path = dir.path().join("x.safetensors");
        convert(&source, &path, &options(DType::F32, &[]), |_| true).unwrap();
        assert_eq!(
            values(&source, name),
            values(&open(&path).unwrap(), name),
            "{file}"
        );
    }
}

#[test]
fn what_cannot_be_written_is_refused_before_reading() {
    let dir = tempfile::tempdir().unwrap();
    let source = model(&dir.path().join("in.safetensors"));
    for (dtype, out) in [
        (DType::Q8_0, "x.safetensors"),
        (DType::F8E4M3, "x.gguf"),
        (DType::IQ4_NL, "x.gguf"),
        (DType::F16, "x.bin"),
    ] {
        let path = dir.path().join(out);
        let error = convert(&source, &path, &options(dtype, &[]), |_| true).unwrap_err();
        assert!(matches!(error, Error::Convert { .. }), "{error}");
        assert!(!path.exists());
    }
}

#[test]
fn stopping_leaves_nothing_and_keeps_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let source = model(&dir.path().join("in.safetensors"));
    let path = dir.path().join("x.gguf");
    std::fs::write(&path, "old").unwrap();
    let error = convert(&source, &path, &options(DType::Q8_0, &[]), |_| false).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Convert {
                reason: Problem::Cancelled,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}
