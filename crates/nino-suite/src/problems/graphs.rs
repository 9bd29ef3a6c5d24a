//! Whole random graphs: many values with crossing lifetimes, so that a buffer reused too early or
//! an in-place write that was not allowed shows against a NaN-filled arena.

use super::Problem;
use crate::{Case, CaseBuilder, Class, Rng};
use nino_dtype::DType;
use nino_graph::{Act, Node, UpsampleMode};

pub(super) const PROBLEMS: &[Problem] = &[
    Problem {
        name: "random graphs",
        ops: &[],
        cases: random,
    },
    Problem {
        name: "steady graphs",
        ops: &[],
        cases: steady,
    },
];

fn random(rng: &mut Rng) -> Vec<Case> {
    (0..24).map(|i| graph(rng, i, 0)).collect()
}

/// Random graphs in which some inputs stay between runs.
fn steady(rng: &mut Rng) -> Vec<Case> {
    (0..9).map(|i| graph(rng, i, 2)).collect()
}

fn graph(rng: &mut Rng, i: usize, kept: usize) -> Case {
    let dtype = if i % 3 == 2 { DType::F16 } else { DType::F32 };
    let mut c = CaseBuilder::new(rng);
    let (h, w, channels) = (
        3 + c.rng.below(6),
        2 + c.rng.below(7),
        4 * (1 + c.rng.below(5)),
    );
    let x = c.input([1, h, w, channels], dtype);
    let mut alive = Vec::new();
    for _ in 0..kept {
        let input = c.input([1, h, w, channels], dtype);
        c.g.keep(input);
        alive.push(input);
    }
    if kept > 0 {
        grow(&mut c, &mut alive, channels, 4);
    }
    alive.push(x);
    let more = 6 + c.rng.below(10);
    grow(&mut c, &mut alive, channels, more);
    // Half of the values that are still alive take part in the result.
    let mut out = alive[alive.len() - 1];
    for &other in alive.iter().rev().skip(1).step_by(2) {
        if c.g.shape(other) == c.g.shape(out) {
            out = c.g.add(out, other);
        }
    }
    let class = Class::of(dtype);
    let name = if kept > 0 { "steady" } else { "random" };
    c.finish(format!("{name} graph {i} {dtype}"), out, class)
}

fn grow(c: &mut CaseBuilder<'_>, alive: &mut Vec<Node>, channels: usize, ops: usize) {
    for _ in 0..ops {
        let next = step(c, alive, channels);
        alive.push(next);
    }
}

/// Adds one op over a value chosen among those alive. Every op here keeps its operand's scale.
fn step(c: &mut CaseBuilder<'_>, alive: &[Node], channels: usize) -> Node {
    let x = c.rng.pick(&alive[alive.len().saturating_sub(4)..]);
    let shape = c.g.shape(x);
    let small = shape[1] < 9;
    match c.rng.below(9) {
        0 => {
            let kernel = c.weight([channels, 3, 3, channels], DType::F32);
            let bias = c.param([channels], DType::F32, 0.0, 0.1);
            c.g.conv2d(x, kernel, Some(bias), 1)
        }
        1 => {
            let matrix = c.weight([channels, channels], DType::F16);
            c.g.linear(x, matrix, None)
        }
        2 => c.g.silu(x),
        3 => {
            let (weight, bias) = (
                c.param([channels], DType::F32, 1.0, 0.2),
                c.param([channels], DType::F32, 0.0, 0.2),
            );
            let norm = c.g.group_norm(x, 4, weight, bias, 1e-5);
            c.g.act(norm, Act::Silu)
        }
        4 => {
            let weight = c.param([channels], DType::F32, 1.0, 0.2);
            c.g.layer_norm(x, Some(weight), None, 1e-5)
        }
        5 => {
            let same: Vec<Node> = alive
                .iter()
                .copied()
                .filter(|&n| c.g.shape(n) == shape)
                .collect();
            let other = c.rng.pick(&same);
            let sum = c.g.add(x, other);
            c.g.affine(sum, 0.7, 0.0)
        }
        6 if small => {
            let up = c.g.upsample(x, 2, UpsampleMode::Nearest);
            let kernel = c.weight([channels, 3, 3, channels], DType::F32);
            c.g.conv2d(up, kernel, None, 1)
        }
        7 => {
            let tokens = c.g.reshape(x, [1, shape[1] * shape[2], 2, channels / 2]);
            let out = c.g.attention(tokens, tokens, tokens, None);
            c.g.reshape(out, shape)
        }
        _ => {
            let halves = c.g.split(x, 3, 2);
            c.g.concat(&[halves[1], halves[0]], 3)
        }
    }
}
