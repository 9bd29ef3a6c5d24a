//! What ops say of themselves holds for every case: they have rows and a cost, they write their
//! whole result, and a row depends on nothing but what it says it reads.

use nino_graph::{Graph, Kind, Node, Op, Rewrites, rewrite};
use nino_suite::{PROBLEMS, Problem, Tensor, reference};
use std::collections::BTreeMap;
use std::ops::Range;

/// Ops that compute nothing.
const MOVES: [&str; 7] = [
    "concat", "slice", "permute", "reshape", "pad", "gather", "cast",
];
/// Ops that are products.
const PRODUCTS: [&str; 4] = ["linear", "matmul", "conv", "attention"];
/// The reference computes whole ops; more arithmetic than this takes too long to do again for a few
/// rows.
const MOST_FLOPS: f64 = 2e6;

#[test]
fn every_op_has_rows_and_a_cost() {
    for (name, graph) in graphs() {
        for (node, op) in graph.ops() {
            let what = format!("{name}: {}", graph.op_label(node));
            let rows = graph.op_rows(node);
            assert!(rows > 0, "{what} has no rows");
            let cost = graph.cost(node);
            assert_eq!(cost.flops > 0.0, !MOVES.contains(&op.name()), "{what}");
            assert_eq!(cost.bytes > 0.0, op.name() != "reshape", "{what}");
            let product = Kind::of(&graph, node) != Kind::Other;
            assert_eq!(product, PRODUCTS.contains(&op.name()), "{what}");
            for cut in cuts(rows) {
                for used in graph.uses(node, &cut) {
                    let bytes = graph.bytes(used.node);
                    let inside = used.bytes.start <= used.bytes.end && used.bytes.end <= bytes;
                    assert!(
                        inside,
                        "{what}: rows {cut:?} touch {:?} of {bytes}",
                        used.bytes
                    );
                }
            }
            let whole = graph.uses(node, &(0..rows)).pop().unwrap();
            assert_eq!(whole.bytes, 0..graph.bytes(node), "{what}");
        }
    }
}

/// The reference gives the same rows when all else is NaN.
#[test]
fn rows_depend_on_what_they_read() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for case in PROBLEMS.iter().flat_map(Problem::cases) {
        let graph = rewrite(&case.graph, Rewrites::ALL);
        if graph.total_cost().flops > MOST_FLOPS {
            continue;
        }
        let known = reference::eval(&graph, &case.inputs, &case.params).unwrap();
        for (node, op) in graph.ops() {
            // Steps of grouped statistics make a part of every value.
            if matches!(op, Op::Stats(_)) {
                continue;
            }
            for cut in cuts(graph.op_rows(node)) {
                let what = format!("{}: {} rows {cut:?}", case.name, graph.op_label(node));
                check_reads(&graph, node, &cut, &known).unwrap_or_else(|e| panic!("{what}: {e}"));
                *seen.entry(op.name()).or_default() += 1;
            }
        }
    }
    let missing: Vec<&&str> = Op::NAMES
        .iter()
        .filter(|n| **n != "stats" && !seen.contains_key(**n))
        .collect();
    assert!(missing.is_empty(), "never checked: {missing:?}");
}

fn check_reads(
    graph: &Graph,
    node: Node,
    rows: &Range<usize>,
    known: &BTreeMap<Node, Tensor>,
) -> Result<(), String> {
    let mut uses = graph.uses(node, rows);
    let result = uses.pop().ok_or("no result")?;
    let mut read = known.clone();
    for operand in graph.op(node).ok_or("no op")?.operands() {
        let parts = uses.iter().filter(|u| u.node == operand);
        let parts: Vec<Range<usize>> = parts.map(|u| values(graph, u.node, &u.bytes)).collect();
        let Some(tensor) = read.get_mut(&operand) else {
            return Err("an operand without a value".to_owned());
        };
        // Parameters are whole, and ids must stay within their table.
        if graph.is_param(operand) || !graph.dtype(operand).is_real() {
            continue;
        }
        for (i, value) in tensor.values.iter_mut().enumerate() {
            if !parts.iter().any(|part| part.contains(&i)) {
                *value = f64::NAN;
            }
        }
    }
    let again = reference::eval_op(graph, node, &read);
    let made = values(graph, node, &result.bytes);
    let same = |i: usize| again.values[i].to_bits() == known[&node].values[i].to_bits();
    match made.into_iter().find(|&i| !same(i)) {
        Some(i) => Err(format!("value {i} depends on more")),
        None => Ok(()),
    }
}

/// A range of bytes as one of values.
fn values(graph: &Graph, node: Node, bytes: &Range<usize>) -> Range<usize> {
    let size = graph.dtype(node).block_bytes();
    bytes.start / size..bytes.end / size
}

/// Every case as it is recorded and as it is fused.
fn graphs() -> impl Iterator<Item = (String, Graph)> {
    let cases = PROBLEMS.iter().flat_map(Problem::cases);
    cases.flat_map(|case| {
        let fused = rewrite(&case.graph, Rewrites::ALL);
        [case.graph, fused].map(|graph| (case.name.clone(), graph))
    })
}

/// The first row, the last, and some in the middle.
fn cuts(rows: usize) -> [Range<usize>; 3] {
    [
        0..1,
        rows - 1..rows,
        rows / 3..(rows / 3 + 1 + rows / 2).min(rows),
    ]
}
