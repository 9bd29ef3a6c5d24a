//! Real TAESD weights, where there are any: the round trip of a synthetic image against
//! PyTorch's.

use crate::golden::{Golden, cpu};
use nino_dtype::DType;
use nino_models::{Chunk, FileParams, Frames, Recording, Storage, Vae, kl};
use nino_suite::Tensor;
use nino_testing::data_or_skip;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The same image as `picture` in `goldens/models/make.py`.
fn picture(size: usize) -> Tensor {
    let mut values = Vec::with_capacity(size * size * 3);
    for i in 0..size * size {
        let (y, x) = (
            (i / size) as f64 / size as f64,
            (i % size) as f64 / size as f64,
        );
        let disc = (x - 0.5).powi(2) + (y - 0.5).powi(2) < 0.09;
        values.push(0.5 + 0.4 * (6.0 * x + 2.0 * y).sin());
        values.push(0.5 + 0.4 * (5.0 * y - 3.0 * x).cos());
        values.push(if disc { 0.8 } else { 0.2 + 0.3 * x });
    }
    Tensor::new([1, size, size, 3], values)
}

/// Runs one half of a model from a file.
fn run(path: &Path, input: &Tensor, record: impl Fn(&Vae, Chunk, &Storage) -> Recording) -> Tensor {
    let reader = Arc::new(nino_weights::open(path).unwrap());
    let (mut parts, _) = nino_weights::names::canonical(reader.index()).unwrap();
    let source = FileParams::of(&reader, parts.remove(0).index);
    let vae = Vae::detect(&|name| source.find(name)).unwrap();
    let storage = Storage {
        activations: DType::F32,
        weights: &|name| source.dtype(name),
        scale: kl::Scale::default(),
    };
    let chunk = Chunk {
        batch: 1,
        frames: 1,
        height: input.shape[1],
        width: input.shape[2],
        first: true,
        at_once: Frames::Together,
    };
    let r = record(&vae, chunk, &storage);
    let inputs = BTreeMap::from([(r.input, input.clone())]);
    cpu(&r.graph, &inputs, Arc::new(source.clone()))
        .remove(&r.output)
        .unwrap()
}

#[test]
fn taesd_round_trip() {
    for model in ["taesd", "taef1"] {
        let file = |half| data_or_skip(&format!("taesd/{model}_{half}.safetensors"));
        let (Some(encoder), Some(decoder)) = (file("encoder"), file("decoder")) else {
            continue;
        };
        let golden = Golden::open(&format!("{model}_real"));
        for size in [32, 128, 512] {
            let z = run(&encoder, &picture(size), |v, c, s| v.encode(c, s).unwrap());
            let few = every(&z, (size / 256).max(1));
            golden.close("latent", &few, &golden.tensor(&format!("out.z{size}")));
            let x = run(&decoder, &z, |v, c, s| v.decode(c, s).unwrap());
            let few = every(&x, size / 32);
            let expected = golden.tensor(&format!("out.x{size}"));
            golden.close("image", &few, &expected);
            let near = psnr(&few, &expected);
            assert!(near >= 60.0, "{model} {size}: {near:.1} dB to PyTorch");
            let back = psnr(&x, &picture(size));
            println!("{model} {size}: {near:.1} dB to PyTorch, round trip {back:.1} dB");
            // At 32 the latent is four pixels wide.
            assert!(
                size < 512 || back >= 30.0,
                "{model}: round trip {back:.1} dB"
            );
        }
    }
}

/// Gives the PSNR of values in 0..1, in dB.
fn psnr(a: &Tensor, b: &Tensor) -> f64 {
    let pairs = a.values.iter().zip(&b.values);
    let square = pairs.map(|(x, y)| (x - y).powi(2)).sum::<f64>();
    -10.0 * (square / a.values.len() as f64).log10()
}

/// Gives every nth row and column.
fn every(x: &Tensor, n: usize) -> Tensor {
    let (h, w) = (x.shape[1], x.shape[2]);
    let mut values = Vec::new();
    for y in (0..h).step_by(n) {
        for c in (0..w).step_by(n) {
            values.extend_from_slice(x.row(y * w + c));
        }
    }
    Tensor::new([1, h / n, w / n, x.shape[3]], values)
}
