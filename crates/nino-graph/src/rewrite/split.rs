//! A linear layer whose result is only ever cut by columns becomes one layer for each part.
//!
//! Models that keep queries, keys, values and more in one weight make one wide product of them and
//! then copy its parts out. A part's own product needs no copy, and takes in what follows the part
//! alone. Products of the same rows do not wait for each other, so many small ones keep a device as
//! busy as the wide one.

use super::drop_unused;
use crate::{Def, Epilogue, Graph, Linear, Node, Op, Slice, WeightRows};

/// `align` is what the bytes must be a multiple of that a part's weights begin at.
pub(super) fn linears(g: &mut Graph, align: usize) {
    let mut users: Vec<Vec<Node>> = vec![Vec::new(); g.len()];
    for (node, op) in g.ops() {
        for n in op.operands() {
            users[n.index()].push(node);
        }
    }
    let linears: Vec<(Node, Linear)> = g
        .ops()
        .filter_map(|(node, op)| match op {
            Op::Linear(linear) => Some((node, *linear)),
            _ => None,
        })
        .collect();
    for (node, linear) in linears {
        let parts = parts(g, node, &linear, &users[node.index()], align);
        for (slice, rows) in parts.unwrap_or_default() {
            g.value_mut(slice).def = Def::Op(Op::Linear(Linear {
                rows: Some(rows),
                ..linear
            }));
        }
    }
    drop_unused(g);
}

/// The slices that read the result, with the rows of the weight that each needs; nothing where
/// something else reads it, or the layer is not plain.
fn parts(
    g: &Graph,
    node: Node,
    linear: &Linear,
    users: &[Node],
    align: usize,
) -> Option<Vec<(Node, WeightRows)>> {
    let epi = linear.epi;
    let plain = Epilogue {
        scale: epi.scale,
        ..Epilogue::bias(epi.bias)
    };
    let is_plain = epi == plain
        && linear.pre.is_none()
        && linear.rows.is_none()
        && linear.gate.is_none()
        && g.is_param(linear.w)
        && !g.outputs().contains(&node);
    if !is_plain {
        return None;
    }
    let last = g.shape(node).rank() - 1;
    let row = g.bytes(linear.w) / g.shape(linear.w)[0].max(1);
    let vector = size_of::<f32>();
    let part = |&user: &Node| match g.op(user) {
        Some(&Op::Slice(Slice {
            x,
            axis,
            start,
            end,
        })) if x == node
            && axis == last
            && [row, vector]
                .iter()
                .all(|n| (n * start).is_multiple_of(align)) =>
        {
            let count = end - start;
            Some((
                user,
                WeightRows {
                    first: start,
                    count,
                },
            ))
        }
        _ => None,
    };
    let parts: Vec<_> = users.iter().map(part).collect::<Option<_>>()?;
    // Columns that several slices share would be computed several times.
    let used: usize = parts.iter().map(|(_, rows)| rows.count).sum();
    (used <= g.shape(node).last_dim()).then_some(parts)
}
