//! Gates go into linear layers where the device says so, and only where the result stays the same.

use super::*;

fn on(takes: TakesGate) -> Rewrites {
    Rewrites {
        gate_into_linear: Some(takes),
        ..Rewrites::ALL
    }
}

/// A linear layer of 3 rows, K = 128 and 48 columns, and what `rest` records behind it, rewritten.
fn rewritten(on: Rewrites, rest: impl Fn(&mut Graph, Node) -> Node) -> Graph {
    let mut g = Graph::new();
    let x = g.input("x", [3, 128], DType::F16);
    let w = g.param("w", [48, 128], DType::F16);
    let bias = g.param("b", [48], DType::F32);
    let both = g.linear(x, w, Some(bias));
    let out = rest(&mut g, both);
    g.output(out);
    rewrite(&g.finish().unwrap(), on)
}

fn names(g: &Graph) -> Vec<&str> {
    g.ops().map(|(_, op)| op.name()).collect()
}

#[test]
fn a_gate_goes_into_the_linear_before_it_where_the_device_takes_it() {
    let fused = |on: Rewrites| {
        let g = rewritten(on, |g, both| g.gate(both, Act::Gelu));
        assert_eq!(*g.shape(g.outputs()[0]), [3, 24]);
        g
    };
    let g = fused(on(|g, gated| {
        g.shape(gated.w)[1] == 128 && gated.gate == Some(Act::Gelu)
    }));
    assert_eq!(names(&g), ["linear"]);
    assert!((g.total_cost().flops - 2.0 * 3.0 * 48.0 * 128.0).abs() < 0.5);
    assert_eq!(names(&fused(on(|_, _| false))), ["linear", "gate"]);
    assert_eq!(names(&fused(Rewrites::ALL)), ["linear", "gate"]);
}

#[test]
fn a_linear_takes_one_gate_and_nothing_behind_it() {
    let twice = rewritten(on(|_, _| true), |g, both| {
        let once = g.gate(both, Act::Gelu);
        g.gate(once, Act::Silu)
    });
    assert_eq!(names(&twice), ["linear", "gate"]);
    let gated = rewritten(on(|_, _| true), |g, both| {
        let gated = g.gate(both, Act::Gelu);
        g.silu(gated)
    });
    assert_eq!(names(&gated), ["linear", "unary"]);
    assert_eq!(names(&rewrite(&gated, Rewrites::ALL)), ["linear", "unary"]);
}

/// The parts of a layer of 256 columns, cut at some, on a device whose bindings begin at multiples
/// of 256 bytes.
fn parts(cuts: &[usize], also_whole: bool) -> Graph {
    let mut g = Graph::new();
    let x = g.input("x", [3, 128], DType::F16);
    let w = g.param("w", [256, 128], DType::F16);
    let bias = g.param("b", [256], DType::F32);
    let all = g.linear(x, w, Some(bias));
    for pair in cuts.windows(2) {
        let part = g.slice(all, 1, pair[0], pair[1]);
        let part = g.silu(part);
        g.output(part);
    }
    if also_whole {
        g.output(all);
    }
    let on = Rewrites {
        split_linear: Some(256),
        ..Rewrites::ALL
    };
    rewrite(&g.finish().unwrap(), on)
}

#[test]
fn a_linear_that_is_cut_apart_becomes_one_for_each_part() {
    let g = parts(&[0, 64, 256], false);
    assert_eq!(names(&g), ["linear", "linear"]);
    let rows = g.ops().map(|(_, op)| match op {
        Op::Linear(o) => (o.rows.map(|r| (r.first, r.count)), o.epi.act),
        _ => (None, None),
    });
    let silu = Some(Act::Silu);
    let expected = [(Some((0, 64)), silu), (Some((64, 192)), silu)];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    assert!((g.total_cost().flops - 2.0 * 3.0 * 256.0 * 128.0).abs() < 0.5);
    // A part that nothing needs is not computed.
    assert_eq!(names(&parts(&[64, 128], false)), ["linear"]);
}

#[test]
fn a_linear_stays_whole_where_parts_cannot_begin_or_the_whole_is_needed() {
    let whole = ["linear", "slice", "unary", "slice", "unary"];
    assert_eq!(names(&parts(&[0, 60, 256], false)), whole);
    assert_eq!(names(&parts(&[0, 64, 256], true)), whole);
}

/// `x + gate * f(h)`, clamped.
fn gated_residual(gate: Shape, factor_into_linear: bool) -> Graph {
    let on = Rewrites {
        factor_into_linear,
        ..Rewrites::ALL
    };
    rewritten(on, |g, h| {
        let gate = g.input("gate", gate, DType::F16);
        let residual = g.input("residual", [3, 48], DType::F16);
        let h = g.mul(gate, h);
        let y = g.add(residual, h);
        g.act(y, Act::Clamp { lo: -1.0, hi: 1.0 })
    })
}

#[test]
fn a_factor_of_one_row_goes_into_the_linear_before_it() {
    let g = gated_residual([1, 48].into(), true);
    assert_eq!(names(&g), ["linear"]);
    let apart = ["linear", "binary", "binary", "unary"];
    assert_eq!(names(&gated_residual([1, 48].into(), false)), apart);
    assert_eq!(names(&gated_residual([3, 48].into(), true)), apart);
    assert_eq!(names(&gated_residual([3, 1].into(), true)), apart);
}

/// `silu(f(x)) * h`, where h is a value of another kind.
fn swiglu(product_into_linear: bool, h: impl Fn(&mut Graph) -> Node) -> Graph {
    let on = Rewrites {
        product_into_linear,
        factor_into_linear: true,
        ..Rewrites::ALL
    };
    rewritten(on, |g, up| {
        let up = g.silu(up);
        let h = h(g);
        g.mul(up, h)
    })
}

#[test]
fn a_product_goes_into_the_linear_before_it() {
    let same = |g: &mut Graph| g.input("h", [3, 48], DType::F16);
    let g = swiglu(true, same);
    assert_eq!(names(&g), ["linear"]);
    let Some(Op::Linear(fused)) = g.op(g.outputs()[0]) else {
        panic!("the output is {:?}", g.op(g.outputs()[0]));
    };
    assert!(fused.epi.multiplier.is_some() && fused.epi.act == Some(Act::Silu));
    assert_eq!(names(&swiglu(false, same)), ["linear", "binary"]);
    let column = swiglu(true, |g| g.input("h", [3, 1], DType::F16));
    assert_eq!(names(&column), ["linear", "binary"]);
    let parameter = swiglu(true, |g| g.param("h", [3, 48], DType::F16));
    assert_eq!(names(&parameter), ["linear", "binary"]);
    // A residual that was added before the product, and a value times itself.
    let added = rewritten(
        Rewrites {
            product_into_linear: true,
            ..Rewrites::ALL
        },
        |g, y| {
            let [a, b] = ["a", "b"].map(|name| g.input(name, [3, 48], DType::F16));
            let y = g.add(y, a);
            let y = g.mul(y, b);
            g.mul(y, y)
        },
    );
    assert_eq!(names(&added), ["linear", "binary", "binary"]);
}

/// `residual + gate * norm(x)` in two batch elements of five rows.
fn after_norm(epilogue_into_norm: bool, gate: Shape, residual: Shape) -> Graph {
    let mut g = Graph::new();
    let x = g.input("x", [2, 5, 64], DType::F16);
    let weight = g.param("weight", [64], DType::F32);
    let gate = g.input("gate", gate, DType::F16);
    let residual = g.input("residual", residual, DType::F16);
    let y = g.rms_norm(x, Some(weight), 1e-5);
    let y = g.mul(gate, y);
    let y = g.add(residual, y);
    g.output(y);
    let on = Rewrites {
        epilogue_into_norm,
        ..Rewrites::ALL
    };
    rewrite(&g.finish().unwrap(), on)
}

#[test]
fn a_gate_and_a_residual_go_into_the_norm_before_them() {
    let (row, whole) = (Shape::from([2, 1, 64]), Shape::from([2, 5, 64]));
    let g = after_norm(true, row, whole);
    assert_eq!(names(&g), ["row_norm"]);
    let apart = ["row_norm", "binary", "binary"];
    assert_eq!(names(&after_norm(false, row, whole)), apart);
    // Gates of all batch elements, of each row and of rows alone stay outside, and so does what is
    // added behind them.
    for gate in [[1, 1, 64], [2, 5, 64], [2, 5, 1]] {
        assert_eq!(names(&after_norm(true, gate.into(), whole)), apart);
    }
    let fused_gate = after_norm(true, row, [1, 5, 64].into());
    assert_eq!(names(&fused_gate), ["row_norm", "binary"]);
}
