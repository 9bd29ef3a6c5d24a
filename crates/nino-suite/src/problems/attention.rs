//! Attention.

use super::{ACTIVATIONS, Problem};
use crate::{Case, CaseBuilder, Class, Long, Rng, Tensor};
use nino_dtype::DType;
use nino_graph::{Attention, Graph, Node, Op};

pub(super) const PROBLEMS: &[Problem] = &[
    Problem {
        name: "attention",
        ops: &["attention"],
        cases: attention,
    },
    Problem {
        name: "attention of text encoders",
        ops: &["attention"],
        cases: text_attention,
    },
];

fn attention(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    let sizes = [
        (1, 1, 1, 1, 1),
        (1, 70, 70, 2, 40),
        (2, 33, 77, 3, 64),
        (1, 17, 130, 1, 128),
        (1, 20, 45, 1, 80),
        (1, 40, 40, 1, 512),
        (1, 75, 33, 2, 256),
        (2, 66, 200, 2, 64),
        (1, 40, 100, 1, 160),
        (1, 130, 97, 46, 40),
        (1, 130, 97, 46, 72),
        // These are cut by keys where a device binds little at once.
        (2, 70, 700, 2, 64),
        (1, 40, 700, 1, 512),
    ];
    for dtype in ACTIVATIONS {
        for (b, n, m, heads, hd) in sizes {
            // With many heads some devices choose other tiles for f16, so f16 is enough here.
            let many = heads > 40;
            if many && dtype != DType::F16 {
                continue;
            }
            for mask in [None, Some([1, 1, n, m]), Some([b, heads, 1, m])] {
                if mask.is_some() && (n == 1 || hd > 100 || many) {
                    continue;
                }
                let mut c = CaseBuilder::new(rng);
                let q = c.input([b, n, heads, hd], dtype);
                let k = c.input([b, m, heads, hd], dtype);
                let v = c.input([b, m, heads, hd], dtype);
                let mask_node = mask.map(|shape| {
                    // As in a causal mask, some scores are ruled out.
                    let mut values = Tensor::normal(shape, 0.0, 1.0, c.rng);
                    values
                        .values
                        .iter_mut()
                        .step_by(3)
                        .skip(1)
                        .for_each(|v| *v = -30000.0);
                    c.input_of(&values, dtype)
                });
                let scale = 1.0 / (hd as f32).sqrt();
                let out = c.g.push(Op::Attention(Attention {
                    q,
                    k,
                    v,
                    mask: mask_node,
                    scale,
                    by_keys: false,
                }));
                let with = mask.map(|m| format!(", mask {m:?}")).unwrap_or_default();
                cases.push(c.finish(
                    format!("attention {b}x{heads} heads {n}x{m} hd {hd}{with} {dtype}"),
                    out,
                    Class::of(dtype),
                ));
            }
        }
    }
    cases
}

/// Tokens that are ruled out by far less than any score could be: all of the last ones, or all
/// later ones. Masks stay in f32, whatever the activations are.
fn text_attention(rng: &mut Rng) -> Vec<Case> {
    const NEVER: f64 = -1e30;
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for (b, n, heads, hd) in [
            (1, 200, 2, 64),
            (2, 150, 3, 128),
            (1, 78, 2, 64),
            (1, 67, 1, 40),
        ] {
            for (kind, shape) in [
                ("padded", [1, heads, n, n]),
                ("padded for all", [b, 1, 1, n]),
                ("causal", [1, 1, n, n]),
            ] {
                let mut c = CaseBuilder::new(rng);
                let [q, k, v] = [(); 3].map(|()| c.input([b, n, heads, hd], dtype));
                let mut values = Tensor::normal(shape, 0.0, 1.0, c.rng);
                for (i, value) in values.values.iter_mut().enumerate() {
                    let (query, key) = (i / n % n, i % n);
                    let seen = match kind {
                        "causal" => key <= query,
                        _ => key < n / 2,
                    };
                    if !seen {
                        *value = NEVER;
                    }
                }
                let mask = c.input_of(&values, DType::F32);
                let scale = 1.0 / (hd as f32).sqrt();
                let out = c.g.push(Op::Attention(Attention {
                    q,
                    k,
                    v,
                    mask: Some(mask),
                    scale,
                    by_keys: false,
                }));
                cases.push(c.finish(
                    format!("{kind} attention {b}x{heads} heads {n} hd {hd} {dtype}"),
                    out,
                    Class::of(dtype),
                ));
            }
        }
    }
    cases
}

/// Kernels over more than 2^32 elements.
pub(super) const LONG: &[Long] = &[
    Long::new("attention", 8 * 48, 16, |g, b, t| {
        long_attention(g, [b, 8, 2, 24], 9, t)
    }),
    Long::new("attention, cut", 8 * 48, 11, |g, b, t| {
        long_attention(g, [b, 8, 2, 24], 9, t)
    }),
    Long::new("attention of many queries", 48, 40, |g, n, t| {
        long_attention(g, [1, n * 2, 2, 24], 9, t)
    }),
];

fn long_attention(g: &mut Graph, q: [usize; 4], m: usize, dtype: DType) -> Node {
    let [b, _, heads, hd] = q;
    let q = g.input("q", q, dtype);
    let [k, v] = ["k", "v"].map(|name| g.input(name, [b, m, heads, hd], dtype));
    let (mask, scale) = (None, 0.2);
    let op = Attention {
        q,
        k,
        v,
        mask,
        scale,
        by_keys: false,
    };
    g.push(Op::Attention(op))
}
