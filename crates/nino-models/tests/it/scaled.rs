//! Linear layers whose weights are stored divided by factors stay so in memory, and give what the
//! real weights give.

use crate::golden::cpu;
use nino_dtype::DType;
use nino_graph::{Graph, Node, ParamSource, ParamSpec, Shape};
use nino_models::{FileParams, Params};
use nino_suite::{Difference, Rng, Tensor};
use nino_weights::{MemoryTensor, TensorReader, from_memory};
use std::collections::BTreeMap;
use std::sync::Arc;

const ROWS: usize = 12;
const COLUMNS: usize = 512;

fn tensor(name: &str, dtype: DType, shape: &[usize], bytes: Vec<u8>) -> MemoryTensor {
    MemoryTensor {
        name: name.to_owned(),
        dtype,
        shape: shape.to_vec(),
        bytes: Arc::new(bytes),
    }
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// A layer of a stored type with its factors and, where given, its description.
fn layer(stored: DType, scales: &[f32], marker: Option<&str>) -> Arc<TensorReader> {
    let mut rng = Rng::new(7);
    let values = Tensor::normal([ROWS, COLUMNS], 0.0, 60.0, &mut rng);
    let weight: Vec<u8> = match stored {
        DType::I8 => values.values.iter().map(|&v| v as i8 as u8).collect(),
        _ => values.encode(stored).unwrap(),
    };
    let mut tensors = vec![
        tensor("x.weight", stored, &[ROWS, COLUMNS], weight),
        tensor("x.bias", DType::F32, &[ROWS], floats(&[0.25; ROWS])),
        tensor(
            "x.weight_scale",
            DType::F32,
            &[scales.len()],
            floats(scales),
        ),
    ];
    if let Some(json) = marker {
        let bytes = json.as_bytes().to_vec();
        tensors.push(tensor("x.comfy_quant", DType::U8, &[bytes.len()], bytes));
    }
    Arc::new(from_memory("made up", tensors).unwrap())
}

/// The outputs of layer `x` for the same input: with what the file stores, and with the real
/// weights.
fn outputs(reader: &Arc<TensorReader>) -> (DType, Tensor, Tensor) {
    outputs_of(reader, &|g, p, x| p.linear(g, "x", x, ROWS))
}

/// The same of any layer without branches.
fn outputs_of(
    reader: &Arc<TensorReader>,
    record: &dyn Fn(&mut Graph, &Params<'_>, Node) -> Node,
) -> (DType, Tensor, Tensor) {
    let file = FileParams::new(reader);
    let run = |params: &Params<'_>, source: Arc<dyn ParamSource>| {
        let mut g = Graph::new();
        let x = g.input("x", [5, COLUMNS], DType::F32);
        let out = record(&mut g, params, x);
        g.output(out);
        let graph = g.finish().unwrap();
        let held = graph.params().find(|(_, p)| p.name.ends_with(".weight"));
        let held = held.unwrap();
        let dtype = held.1.dtype;
        let values = Tensor::normal([5, COLUMNS], 0.0, 1.0, &mut Rng::new(8));
        let mut found = cpu(&graph, &BTreeMap::from([(x, values)]), source);
        (dtype, found.remove(&out).unwrap())
    };
    let scaled = file.params();
    let (dtype, stored) = run(&scaled, Arc::new(file.clone()));
    let (_, real) = run(&Params::uniform(DType::F32), Arc::new(file.clone()));
    (dtype, stored, real)
}

fn assert_close(found: &Tensor, expected: &Tensor, nmse: f64, what: &str) {
    let d = Difference::between(&found.values, &expected.values);
    assert!(d.nmse <= nmse && d.not_finite == 0, "{what}: {d}");
}

#[test]
fn fp8_stays_fp8_with_one_factor_or_one_for_each_row() {
    let each: Vec<f32> = (0..ROWS).map(|i| 0.01 * (i + 1) as f32).collect();
    for scales in [&[0.0125][..], &each] {
        for stored in [DType::F8E4M3, DType::F8E5M2] {
            let (held, found, real) = outputs(&layer(stored, scales, None));
            assert_eq!(held, stored);
            assert_close(&found, &real, 1e-12, &format!("{stored} {}", scales.len()));
        }
    }
}

#[test]
fn int8_becomes_blocks_of_8_bits_and_its_rotation_an_operation() {
    let scales: Vec<f32> = (0..ROWS).map(|i| 0.002 * (i + 1) as f32).collect();
    for (marker, is_turned) in [
        (r#"{"format":"int8_tensorwise"}"#, false),
        (
            r#"{"format":"int8_tensorwise","convrot":true,"convrot_groupsize":64}"#,
            true,
        ),
        (
            r#"{"format":"int8_tensorwise","params":{"convrot":true}}"#,
            true,
        ),
    ] {
        let reader = layer(DType::I8, &scales, Some(marker));
        let (held, found, real) = outputs(&reader);
        assert_eq!(held, DType::Q8_0);
        // Activations are rounded to 8 bits where processors multiply such integers.
        assert_close(&found, &real, 3e-4, marker);
        let spec = ParamSpec {
            name: "x.weight".to_owned(),
            shape: Shape::from([ROWS, COLUMNS]),
            dtype: DType::F32,
            inline: None,
        };
        let mut bytes = vec![0; ROWS * COLUMNS * 4];
        FileParams::new(&reader).read(&spec, &mut bytes).unwrap();
        let values = bytes.as_chunks::<4>().0[..64].iter();
        let mut values = values.map(|b| f32::from_le_bytes(*b) / scales[0]);
        let whole = values.all(|v| (v - v.round()).abs() < 1e-3);
        assert_eq!(whole, !is_turned, "{marker}");
    }
}

#[test]
fn packed_weights_are_held_in_blocks_of_their_own_encoding() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../goldens/weights/packed.safetensors"
    );
    let reader = Arc::new(nino_weights::open(file).unwrap());
    for (name, rows, dtype) in [("a", 144, DType::NVFP4), ("c", 40, DType::NF4)] {
        let (held, found, real) =
            outputs_of(&reader, &|g, p, x| p.linear_no_bias(g, name, x, rows));
        assert_eq!(held, dtype);
        assert_close(&found, &real, 1e-11, name);
    }
}

#[test]
fn rotations_that_do_not_exist_are_refused() {
    for group in [32, 100, 1024, 0] {
        let json =
            format!(r#"{{"format":"int8_tensorwise","convrot":true,"convrot_groupsize":{group}}}"#);
        let bytes = json.as_bytes().to_vec();
        let tensors = vec![
            tensor(
                "x.weight",
                DType::I8,
                &[ROWS, COLUMNS],
                vec![1; ROWS * COLUMNS],
            ),
            tensor("x.weight_scale", DType::F32, &[1], floats(&[1.0])),
            tensor("x.comfy_quant", DType::U8, &[bytes.len()], bytes),
        ];
        let error = from_memory("made up", tensors).unwrap_err().to_string();
        assert!(error.contains(&group.to_string()), "{error}");
    }
}
