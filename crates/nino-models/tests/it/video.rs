//! Wan VAEs and TAEHV: any chunking gives what the reference gives for the whole video.

use crate::golden::{Golden, cpu, frames};
use nino_dtype::DType;
use nino_graph::{Graph, Node};
use nino_models::{Cache, Params, Stream, taehv, wan};
use nino_suite::Tensor;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Runs a chunk's graph and returns its outputs; the flag marks the first chunk.
type Eval<'a> = dyn Fn(&Graph, &BTreeMap<Node, Tensor>, bool) -> BTreeMap<Node, Tensor> + 'a;
type Record<'a> = dyn Fn(&mut Graph, &Params, &mut Stream, Node) -> Node + 'a;

/// Runs `input` in chunks of the given numbers of frames; gives all output frames.
fn run(golden: &Golden, input: &Tensor, chunks: &[usize], eval: &Eval, record: &Record) -> Tensor {
    let mut state: BTreeMap<String, Tensor> = BTreeMap::new();
    let (mut at, mut values, mut shape) = (0, Vec::new(), input.shape);
    for (i, &n) in chunks.iter().enumerate() {
        let mut g = Graph::new();
        let x = frames(input, at, at + n);
        let node = g.input("x", x.shape, DType::F32);
        let mut stream = Stream::new(i == 0);
        let out = record(&mut g, &golden.params(), &mut stream, node);
        g.output(out);
        let caches = stream.finish(&mut g);
        let g = g.finish().unwrap();
        let mut inputs = BTreeMap::from([(node, x)]);
        for Cache {
            name, shape, input, ..
        } in &caches
        {
            let zeros = || Tensor::zeros(*shape);
            assert_eq!(input.is_some(), i > 0, "{name}");
            if let Some(input) = input {
                inputs.insert(*input, state.remove(name).unwrap_or_else(zeros));
            }
        }
        let found = eval(&g, &inputs, i == 0);
        for c in caches {
            state.insert(c.name, found[&c.output].clone());
        }
        let y = &found[&out];
        values.extend_from_slice(&y.values);
        shape = y.shape;
        at += n;
    }
    assert_eq!(at, input.shape[1]);
    shape[1] = values.len() / (shape.numel() / shape[1]);
    Tensor::new(shape, values)
}

/// Every chunking agrees with the golden, and on the CPU bit for bit with every other.
fn check(golden: &Golden, names: [&str; 2], chunkings: &[&[usize]], clamp: bool, record: &Record) {
    let input = golden.tensor(names[0]);
    let expected = golden.tensor(names[1]);
    let close = |mut found: Tensor| {
        if clamp {
            let values = found.values.iter_mut();
            values.for_each(|v| *v = v.clamp(-1.0, 1.0));
        }
        golden.close(names[1], &found, &expected);
    };
    let mut on_cpu: Option<Tensor> = None;
    for (i, chunks) in chunkings.iter().enumerate() {
        println!("chunks {chunks:?}");
        if i == 0 {
            let labels = golden.name.starts_with("wan");
            let plain: &Eval = &|g, inputs, first| golden.run(g, inputs, labels && first);
            close(run(golden, &input, chunks, plain, record));
        }
        let device: &Eval = &|g, inputs, _| cpu(g, inputs, Arc::new(golden.source()));
        let found = run(golden, &input, chunks, device, record);
        close(found.clone());
        let same = on_cpu.get_or_insert_with(|| found.clone());
        assert!(
            *same == found,
            "{}: other bits with {chunks:?}",
            golden.name
        );
    }
}

#[test]
fn wan_vae() {
    for (name, patch, decoder) in [("wan21", 1, [4, 8, 16, 16]), ("wan22", 2, [5, 10, 20, 20])] {
        let golden = Golden::open(name);
        let c = wan::Config::detect(&golden.find("")).unwrap();
        let want = wan::Config {
            z_dim: 4,
            encoder: vec![4, 8, 16, 16],
            decoder: decoder.to_vec(),
            n_res_blocks: 1,
            time_down: vec![false, true, true],
            residual: patch == 2,
            patch,
        };
        assert_eq!(c, want);
        for by_frame in [false, true] {
            let decode: &Record = &|g, p, s, z| wan::decoder(g, p, &c, s, by_frame, z);
            let chunks: &[&[usize]] = &[&[1, 1, 1], &[1, 2], &[3], &[2, 1]];
            check(&golden, ["in.z", "out.x"], chunks, true, decode);
            let encode: &Record = &|g, p, s, x| wan::encoder(g, p, &c, s, by_frame, x);
            let chunks: &[&[usize]] = &[&[1, 4, 4], &[9], &[5, 4], &[1, 8]];
            check(&golden, ["in.x", "out.moments"], chunks, false, encode);
        }
    }
}

#[test]
fn tiny_video_autoencoder() {
    for (name, latent_channels, patch) in [("taehv", 16, 1), ("taew2_2", 48, 2)] {
        let golden = Golden::open(name);
        let c = taehv::Config::detect(&golden.find("")).unwrap();
        let want = taehv::Config {
            latent_channels,
            encoder_width: 8,
            decoder_widths: [16, 8, 6, 6],
            pool: [2, 2, 1],
            grow: [1, 2, 2],
            patch,
        };
        assert_eq!(c, want);
        let decode: &Record = &|g, p, s, z| taehv::decoder(g, p, &c, s, z);
        let chunks: &[&[usize]] = &[&[1, 1, 1], &[2, 1], &[3]];
        check(&golden, ["in.z", "out.x"], chunks, false, decode);
        let encode: &Record = &|g, p, s, x| taehv::encoder(g, p, &c, s, x);
        check(&golden, ["in.x", "out.z"], &[&[4, 4], &[8]], false, encode);
    }
}

#[test]
fn memory_is_flat_in_frames() {
    // Inputs and outputs of a later chunk do not depend on how many came before: the caches a
    // chunk leaves are those the next one takes.
    let c = wan::Config::wan21();
    let record = |first: bool| {
        let mut g = Graph::new();
        let z = g.input("z", [1, 1, 4, 4, 16], DType::F16);
        let mut s = Stream::new(first);
        let x = wan::decoder(&mut g, &Params::uniform(DType::F16), &c, &mut s, true, z);
        g.output(x);
        let caches = s.finish(&mut g);
        (
            *g.shape(x).first_chunk().unwrap(),
            caches,
            g.finish().unwrap(),
        )
    };
    let (shape, first, _): ([usize; 5], _, _) = record(true);
    assert_eq!(shape, [1, 1, 32, 32, 3]);
    let (shape, later, _): ([usize; 5], _, _) = record(false);
    assert_eq!(shape, [1, 4, 32, 32, 3]);
    for c in &later {
        assert!(c.input.is_some());
        let before = first.iter().find(|f| f.name == c.name);
        assert!(before.is_none_or(|f| f.shape == c.shape), "{}", c.name);
    }
    let new = later.len() - first.len();
    assert_eq!(new, 2, "only the two time convolutions start with zeros");
}
