//! What the list of ops promises, and reads that no suite case reaches.

use super::*;
use nino_dtype::DType;

#[test]
fn names_are_one_each() {
    let mut names = Op::NAMES.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Op::NAMES.len());
    let mut g = Graph::new();
    let x = g.input("x", [2, 8], DType::F32);
    let out = g.rms_norm(x, None, 1e-6);
    assert_eq!(g.op(out).unwrap().name(), "row_norm");
}

/// A table that was computed is read by ids from any of its rows, like one that is a parameter.
#[test]
fn a_gather_reads_all_of_its_table() {
    let mut g = Graph::new();
    let table = g.input("table", [100, 8], DType::F32);
    let ids = g.input("ids", [10], DType::I32);
    let out = g.gather(table, ids, DType::F32);
    let uses = g.uses(out, &(4..6));
    assert_eq!(uses[0].bytes, 0..g.bytes(table));
    assert_eq!(uses[1].bytes, 16..24);
    assert_eq!(uses[2].bytes, 4 * 32..6 * 32);
}

#[test]
fn replacing_operands_reaches_each_of_them() {
    let mut g = Graph::new();
    let x = g.input("x", [2, 8], DType::F32);
    let [scale, shift] = ["scale", "shift"].map(|name| g.input(name, [2, 8], DType::F32));
    let [gate, residual] = ["gate", "residual"].map(|name| g.input(name, [2, 8], DType::F32));
    let out = g.push(RowNorm {
        scale: Some(scale),
        shift: Some(shift),
        gate: Some(gate),
        residual: Some(residual),
        ..RowNorm::plain(x, NormKind::Layer, None, None, 1e-5)
    });
    let mut op = g.op(out).unwrap().clone();
    assert_eq!(op.operands(), [x, scale, shift, gate, residual]);
    op.map_operands(|_| x);
    assert_eq!(op.operands(), [x; 5]);
}

#[test]
fn values_in_blocks_are_not_moved_one_by_one() {
    let mut g = Graph::new();
    let w = g.param("w", [64, 32], DType::Q8_0);
    let turned = g.permute(w, &[1, 0]);
    g.output(turned);
    let error = g.finish().unwrap_err().to_string();
    assert!(
        error.contains("permute") && error.contains("q8_0"),
        "{error}"
    );
}
