//! Upscalers against the networks that ComfyUI runs, under all the names their files have.

use crate::golden::{Golden, cpu, root};
use nino_dtype::DType;
use nino_graph::{Graph, Rewrites, Shape, rewrite};
use nino_models::upscaler::{Piece, rrdb, srvgg};
use nino_models::{FileParams, Network, Params, Upscaler};
use nino_suite::{Difference, Tensor, reference};
use nino_weights::names::{self, Dialect};
use std::collections::BTreeMap;
use std::sync::Arc;

fn small(doublings: usize, n_blocks: usize) -> rrdb::Config {
    rrdb::Config {
        unshuffle: 1,
        width: 12,
        growth: 8,
        n_blocks,
        doublings,
        plus: false,
    }
}

fn compact(scale: usize) -> Upscaler {
    Upscaler::Srvgg(srvgg::Config {
        width: 12,
        n_convs: 3,
        scale,
    })
}

/// The network of a golden file, in whatever names it has.
fn open(name: &str) -> (Upscaler, FileParams, Dialect) {
    let path = root().join(format!("goldens/models/{name}.safetensors"));
    let reader = Arc::new(nino_weights::open(path).unwrap());
    let (mut components, rest) = names::canonical(reader.index()).unwrap();
    assert!(rest.iter().all(|n| n.starts_with("golden.")), "{rest:?}");
    let component = components.remove(0);
    let dialect = component.dialect;
    let opened = nino_models::open(&reader, component).unwrap().unwrap();
    match opened.network {
        Network::Upscaler(upscaler) => (upscaler, opened.params, dialect),
        other => panic!("{name}: {other:?}"),
    }
}

/// Pixel unshuffle of an image `[1, h, w, 3]` whose sides are multiples of `by`.
fn unshuffled(x: &Tensor, by: usize) -> Tensor {
    let (h, w) = (x.shape[1] / by, x.shape[2] / by);
    let mut values = Vec::new();
    for (y, x0) in (0..h).flat_map(|y| (0..w).map(move |x| (y, x))) {
        for (c, at) in (0..3).flat_map(|c| (0..by * by).map(move |at| (c, at))) {
            let (row, column) = (y * by + at / by, x0 * by + at % by);
            values.push(x.values[(row * x.shape[2] + column) * 3 + c]);
        }
    }
    Tensor::new(Shape::from([1, h, w, 3 * by * by]), values)
}

/// The image with reflection padding at the bottom and on the right.
fn padded(x: &Tensor, by: usize) -> Tensor {
    let (h, w) = (x.shape[1], x.shape[2]);
    let at = |i: usize, n: usize| if i < n { i } else { 2 * n - 2 - i };
    let (height, width) = (h.next_multiple_of(by), w.next_multiple_of(by));
    let places = (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
    let values = places.flat_map(|(y, column)| {
        let from = (at(y, h) * w + at(column, w)) * 3;
        x.values[from..from + 3].to_vec()
    });
    Tensor::new(Shape::from([1, height, width, 3]), values.collect())
}

fn cut(x: &Tensor, height: usize, width: usize) -> Tensor {
    let rows = x.values.chunks_exact(x.shape[2] * 3).take(height);
    let values = rows.flat_map(|row| row[..width * 3].to_vec());
    Tensor::new(Shape::from([1, height, width, 3]), values.collect())
}

#[test]
fn upscalers_are_their_references() {
    let plus = rrdb::Config {
        plus: true,
        ..small(1, 1)
    };
    for (name, expected, scale, dialect) in [
        (
            "esrgan_x4",
            Upscaler::Rrdb(small(2, 2)),
            4,
            Dialect::Original,
        ),
        (
            "esrgan_x2",
            Upscaler::Rrdb(small(2, 2).with_unshuffle(2)),
            2,
            Dialect::Original,
        ),
        ("esrgan_x1", Upscaler::Rrdb(small(0, 1)), 1, Dialect::Esrgan),
        ("esrgan_plus", Upscaler::Rrdb(plus), 2, Dialect::Esrgan),
        (
            "esrgan_trunk",
            Upscaler::Rrdb(small(2, 1)),
            4,
            Dialect::Esrgan,
        ),
        ("compact_x4", compact(4), 4, Dialect::Original),
        ("compact_x1", compact(1), 1, Dialect::Original),
    ] {
        let golden = Golden::open(name);
        let (upscaler, params, found) = open(name);
        assert_eq!((&upscaler, found), (&expected, dialect), "{name}");
        assert_eq!(upscaler.scale(), scale, "{name}");
        let by = upscaler.unshuffle();
        let image = golden.tensor("in.x");
        let x = unshuffled(&padded(&image, by), by);
        let mut g = Graph::new();
        let node = g.input("x", x.shape, DType::F32);
        let p = Params::new(|name| params.dtype(name));
        let out = upscaler.record(&mut g, &p, Piece::Whole, node);
        g.output(out);
        let g = g.finish().unwrap();
        let inputs = BTreeMap::from([(node, x)]);
        let values = reference::eval(&g, &inputs, &params).unwrap();
        golden.intermediates(&g, &values);
        let expected = golden.tensor("out.x");
        let whole = |made: &Tensor| cut(made, expected.shape[1], expected.shape[2]);
        golden.close("reference", &whole(&values[&out]), &expected);
        let fused = reference::eval(&rewrite(&g, Rewrites::ALL), &inputs, &params).unwrap();
        let d = Difference::between(&fused[&out].values, &values[&out].values);
        assert!(d.nmse < 1e-20, "{name}: fused: {d}");
        let on_cpu = cpu(&g, &inputs, Arc::new(params.clone()));
        golden.close("on the CPU", &whole(&on_cpu[&out]), &expected);
    }
}

/// Changing pixels farther away than the reach changes nothing, and nearer ones do.
#[test]
fn reach_is_as_far_as_a_row_sees() {
    for (name, piece) in [
        ("esrgan_x4", Piece::Trunk),
        ("esrgan_x4", Piece::Head),
        ("esrgan_x1", Piece::Head),
        ("esrgan_plus", Piece::Head),
        ("compact_x4", Piece::Whole),
    ] {
        let (upscaler, params, _) = open(name);
        let shape = upscaler.shape(piece);
        let (height, width) = (2 * shape.reach + 5, 3);
        let run = |changed: usize| {
            let mut g = Graph::new();
            let size = Shape::from([1, height, width, shape.channels]);
            let node = g.input("x", size, DType::F32);
            let p = Params::new(|name| params.dtype(name));
            let out = upscaler.record(&mut g, &p, piece, node);
            g.output(out);
            let g = g.finish().unwrap();
            assert_eq!(g.shape(out).last_dim(), shape.out_channels, "{name}");
            let row = width * shape.channels;
            let value = |i: usize| {
                let new = if i / row == changed { 0.7 } else { 0.0 };
                new + (i % 17) as f64 / 40.0
            };
            let x = Tensor::new(size, (0..height * row).map(value).collect());
            let mut made = reference::eval(&g, &BTreeMap::from([(node, x)]), &params).unwrap();
            made.remove(&out).unwrap()
        };
        let (changed, plain) = (shape.reach + 2, run(usize::MAX));
        let other = run(changed);
        let row = width * shape.scale * shape.out_channels;
        let pairs = plain
            .values
            .chunks_exact(row)
            .zip(other.values.chunks_exact(row));
        let rows: Vec<bool> = pairs.map(|(a, b)| a != b).collect();
        let first = rows.iter().position(|&c| c).unwrap() / shape.scale;
        let last = rows.iter().rposition(|&c| c).unwrap() / shape.scale;
        assert!(first >= changed - shape.reach, "{name} {piece:?}: {first}");
        assert!(last <= changed + shape.reach, "{name} {piece:?}: {last}");
        assert!(last > changed, "{name} {piece:?}");
    }
}
