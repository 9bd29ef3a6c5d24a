//! Chains that the rewriter fuses: each is run unfused and fused.

use super::Problem;
use super::product::class;
use crate::{Case, CaseBuilder, Class, Rng};
use nino_dtype::DType;
use nino_graph::{Act, UpsampleMode};

pub(super) const PROBLEMS: &[Problem] = &[
    Problem {
        name: "norm into conv",
        ops: &["conv", "linear"],
        cases: norm_into_conv,
    },
    Problem {
        name: "activation into norm",
        ops: &["row_norm", "unary"],
        cases: act_into_norm,
    },
    Problem {
        name: "epilogue",
        ops: &["conv", "linear"],
        cases: epilogue,
    },
    Problem {
        name: "gate after linear",
        ops: &["linear", "gate"],
        cases: gate_into_linear,
    },
    Problem {
        name: "parts of a linear",
        ops: &["linear", "slice"],
        cases: parts_of_a_linear,
    },
    Problem {
        name: "factor after linear",
        ops: &["linear", "binary"],
        cases: factor_after_linear,
    },
    Problem {
        name: "product after linear",
        ops: &["linear", "binary"],
        cases: product_after_linear,
    },
    Problem {
        name: "gate and residual after norm",
        ops: &["row_norm", "binary"],
        cases: gate_and_residual_after_norm,
    },
    Problem {
        name: "computed bias",
        ops: &["conv", "linear"],
        cases: computed_bias,
    },
    Problem {
        name: "upsample into conv",
        ops: &["conv"],
        cases: upsample_into_conv,
    },
];

fn norm_into_conv(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        for (b, h, w, cin, cout, k) in [
            (1, 6, 7, 32, 20, 3),
            (2, 9, 5, 12, 33, 1),
            (1, 16, 16, 64, 64, 3),
        ] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([b, h, w, cin], dtype);
            let weight = c.param([cin], DType::F32, 1.0, 0.3);
            let bias = c.param([cin], DType::F32, 0.5, 0.3);
            let kernel = c.weight([cout, k, k, cin], DType::F32);
            let norm = c.g.group_norm(x, 4, weight, bias, 1e-6);
            let act = c.g.silu(norm);
            let out = c.g.conv2d(act, kernel, None, k / 2);
            cases.push(c.finish(
                format!("norm+silu+conv {b}x{h}x{w} {cin}->{cout} {k}x{k} {dtype}"),
                out,
                Class::of(dtype),
            ));
        }
        for (rows, k, n) in [(5, 33, 20), (64, 96, 70)] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([1, rows, k], dtype);
            let weight = Some(c.param([k], DType::F32, 1.0, 0.3));
            let bias = Some(c.param([k], DType::F32, 0.5, 0.3));
            let matrix = c.weight([n, k], DType::F32);
            let norm = c.g.layer_norm(x, weight, bias, 1e-5);
            let out = c.g.linear(norm, matrix, None);
            cases.push(c.finish(
                format!("layer norm+linear [{rows},{k}]->{n} {dtype}"),
                out,
                Class::of(dtype),
            ));
        }
        let mut c = CaseBuilder::new(rng);
        let x = c.input([2, 10, 48], dtype);
        let (weight, matrix) = (
            c.param([48], DType::F32, 1.0, 0.3),
            c.weight([40, 48], DType::F16),
        );
        let bias = c.param([48], DType::F32, 0.0, 0.3);
        let norm = c.g.group_norm(x, 6, weight, bias, 1e-6);
        let out = c.g.linear(norm, matrix, None);
        cases.push(c.finish(format!("group norm+linear {dtype}"), out, Class::of(dtype)));
    }
    cases
}

/// Row norms with an activation after them, which is read by one op, by several, by a convolution
/// or by a linear layer.
fn act_into_norm(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        for after in ["nothing", "another reader", "conv", "linear"] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([1, 6, 7, 48], dtype);
            let weight = c.param([48], DType::F32, 1.0, 0.3);
            let norm = c.g.rms_norm(x, Some(weight), 1e-6);
            let act = c.g.silu(norm);
            let out = match after {
                "conv" => {
                    let kernel = c.weight([20, 3, 3, 48], DType::F32);
                    c.g.conv2d(act, kernel, None, 1)
                }
                "linear" => {
                    let matrix = c.weight([20, 48], DType::F32);
                    c.g.linear(act, matrix, None)
                }
                "another reader" => c.g.add(norm, act),
                _ => act,
            };
            cases.push(c.finish(
                format!("rms norm+silu, {after} {dtype}"),
                out,
                Class::of(dtype),
            ));
        }
    }
    cases
}

fn epilogue(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        for (linear, act, add, post) in [
            (true, Some(Act::Gelu), true, None),
            (false, Some(Act::Silu), true, None),
            (false, None, true, Some(Act::Relu)),
            (true, None, false, Some(Act::QuickGelu)),
            (false, Some(Act::Clamp { lo: -0.5, hi: 0.5 }), false, None),
        ] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([2, 7, 9, 24], dtype);
            let bias = c.param([37], DType::F32, 0.0, 0.5);
            let mut out = if linear {
                let w = c.weight([37, 24], DType::F32);
                let out = c.g.linear(x, w, None);
                c.g.add(out, bias)
            } else {
                let w = c.weight([37, 3, 3, 24], DType::F32);
                c.g.conv2d(x, w, Some(bias), 1)
            };
            if let Some(act) = act {
                out = c.g.act(out, act);
            }
            if add {
                let residual = c.input([2, 7, 9, 37], dtype);
                out = c.g.add(residual, out);
            }
            if let Some(post) = post {
                out = c.g.act(out, post);
            }
            let kind = if linear { "linear" } else { "conv" };
            cases.push(c.finish(
                format!("{kind}+bias, {act:?}, add {add}, {post:?} {dtype}"),
                out,
                Class::of(dtype),
            ));
        }
    }
    cases
}

/// GEGLU and SwiGLU after a linear layer: halves that are whole panels of a kernel and such that
/// are not, few and many values of k, weights of several types, a norm in front.
fn gate_into_linear(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for (rows, k, n, weights, biased, act) in [
            (37, 128, 72, dtype, true, Act::Gelu),
            (70, 64, 200, dtype, false, Act::Gelu),
            (130, 192, 64, dtype, true, Act::Silu),
            (5, 24, 6, dtype, true, Act::Gelu),
            (45, 1280, 96, dtype, true, Act::Gelu),
            (50, 320, 128, DType::Q8_0, true, Act::Gelu),
            (7, 1280, 160, DType::Q8_0, false, Act::Silu),
            (19, 768, 96, DType::Q4_K, true, Act::Gelu),
            (19, 96, 32, DType::F8E4M3, true, Act::Gelu),
        ] {
            for normed in [false, true] {
                let mut c = CaseBuilder::new(rng);
                let mut x = c.input([2, rows, k], dtype);
                if normed {
                    x = c.g.layer_norm(x, None, None, 1e-5);
                }
                let values = c.weight([2 * n, k], weights);
                let bias = biased.then(|| c.param([2 * n], DType::F32, 0.0, 0.5));
                let both = c.g.linear(x, values, bias);
                let out = c.g.gate(both, act);
                let name = format!(
                    "linear [2,{rows},{k}]->2x{n} {weights}, norm {normed}, bias {biased}, \
                     gate {act:?} {dtype}"
                );
                cases.push(c.finish(name, out, class(dtype, weights, 1)));
            }
        }
    }
    cases
}

/// One weight for several layers, whose results are cut apart: with what follows one part alone,
/// parts of parts, a part that nothing needs, and columns that begin where no kernel can.
fn parts_of_a_linear(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        for weights in [dtype, DType::Q8_0] {
            for (rows, k, cuts) in [
                (70, 128, [0, 64, 192, 256]),
                (1, 256, [0, 128, 192, 320]),
                (5, 32, [8, 24, 40, 72]),
            ] {
                let mut c = CaseBuilder::new(rng);
                let x = c.input([1, rows, k], dtype);
                let w = c.weight([cuts[3], k], weights);
                let bias = c.param([cuts[3]], DType::F32, 0.0, 0.5);
                let all = c.g.linear(x, w, Some(bias));
                let both = c.g.slice(all, 2, cuts[0], cuts[2]);
                let first = c.g.slice(both, 2, 0, cuts[1] - cuts[0]);
                let second = c.g.slice(both, 2, cuts[1] - cuts[0], cuts[2] - cuts[0]);
                let third = c.g.slice(all, 2, cuts[2], cuts[3]);
                let third = c.g.act(third, Act::GeluTanh);
                let out = c.g.concat(&[third, first, second], 2);
                let class = class(dtype, weights, 1);
                let name = format!("linear [1,{rows},{k}] cut at {cuts:?}, {weights} {dtype}");
                cases.push(c.finish(name, out, class));
            }
        }
    }
    cases
}

/// `x + gate * f(h)` as in transformers that are told the time, and a factor alone.
fn factor_after_linear(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        for (rows, k, n, adds, clamps) in [
            (70, 128, 72, true, true),
            (3, 256, 64, true, false),
            (37, 64, 24, false, true),
            (9, 24, 7, true, true),
        ] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([1, rows, k], dtype);
            let factor = c.input([1, n], dtype);
            let w = c.weight([n, k], dtype);
            let bias = c.param([n], DType::F32, 0.0, 0.5);
            let residual = c.input([1, rows, n], dtype);
            let h = c.g.linear(x, w, Some(bias));
            let factor = c.g.reshape(factor, [1, 1, n]);
            let mut y = c.g.mul(h, factor);
            if adds {
                y = c.g.add(residual, y);
            }
            if clamps {
                y = c.g.act(y, Act::Clamp { lo: -1.0, hi: 1.0 });
            }
            let name = format!("linear [1,{rows},{k}]->{n} by a factor, added {adds} {dtype}");
            cases.push(c.finish(name, y, Class::of(dtype)));
        }
    }
    cases
}

/// SwiGLU: `act(f(h)) * g(h)`, of many rows and of few, and of rows that are not whole words.
fn product_after_linear(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        for (rows, k, n, clamps) in [
            (70, 128, 72, false),
            (300, 64, 64, true),
            (3, 256, 64, false),
            (9, 24, 7, true),
        ] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([1, rows, k], dtype);
            let gate = c.weight([n, k], DType::F16);
            let up = c.weight([n, k], DType::F16);
            let bias = c.param([n], DType::F32, 0.0, 0.5);
            let gate = c.g.linear(x, gate, None);
            let gate = c.g.silu(gate);
            let up = c.g.linear(x, up, Some(bias));
            let mut y = c.g.mul(gate, up);
            if clamps {
                y = c.g.act(y, Act::Clamp { lo: -0.5, hi: 0.5 });
            }
            let name = format!("linear [1,{rows},{k}]->{n} times another {dtype}");
            cases.push(c.finish(name, y, Class::of(dtype)));
        }
    }
    cases
}

/// `x + gate * norm(h)` as Z-Image has it, and each alone. The widths are those of rows held in
/// registers, of others, and of rows that are not whole words.
fn gate_and_residual_after_norm(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        for (b, n, d, gates, adds) in [
            (2, 9, 320, true, true),
            (1, 67, 96, true, false),
            (1, 5, 160, false, true),
            (2, 5, 100, true, true),
            (2, 3, 33, true, true),
        ] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([b, n, d], dtype);
            let residual = c.input([b, n, d], dtype);
            let gate = c.input([b, d], dtype);
            let weight = c.param([d], DType::F32, 1.0, 0.3);
            let mut y = c.g.rms_norm(x, Some(weight), 1e-5);
            if gates {
                let gate = c.g.reshape(gate, [b, 1, d]);
                y = c.g.mul(y, gate);
            }
            if adds {
                y = c.g.add(residual, y);
            }
            let name = format!("norm [{b},{n},{d}] gated {gates} added {adds} {dtype}");
            cases.push(c.finish(name, y, Class::of(dtype)));
        }
    }
    cases
}

/// A bias that an op has computed, as in a VAE whose activations are kept at another scale.
fn computed_bias(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        let mut c = CaseBuilder::new(rng);
        let x = c.input([1, 6, 5, 16], dtype);
        let kernel = c.weight([24, 3, 3, 16], DType::F16);
        let bias = c.param([24], DType::F32, 0.0, 2.0);
        let bias = c.g.affine(bias, 0.25, 0.0);
        let h = c.g.conv2d(x, kernel, Some(bias), 1);
        let matrix = c.weight([10, 24], DType::F32);
        let bias = c.param([10], DType::F32, 0.0, 2.0);
        let bias = c.g.affine(bias, 0.5, 0.0);
        let out = c.g.linear(h, matrix, Some(bias));
        cases.push(c.finish(
            format!("conv and linear with a scaled bias {dtype}"),
            out,
            Class::of(dtype),
        ));
    }
    cases
}

fn upsample_into_conv(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        for (h, w, cin, cout) in [(1, 1, 3, 2), (5, 7, 16, 12), (8, 8, 64, 64)] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([1, h, w, cin], dtype);
            let kernel = c.weight([cout, 3, 3, cin], DType::F32);
            let bias = Some(c.param([cout], DType::F32, 0.0, 0.5));
            let up = c.g.upsample(x, 2, UpsampleMode::Nearest);
            let out = c.g.conv2d(up, kernel, bias, 1);
            cases.push(c.finish(
                format!("upsample+conv {h}x{w} {cin}->{cout} {dtype}"),
                out,
                Class::of(dtype),
            ));
        }
    }
    cases
}
