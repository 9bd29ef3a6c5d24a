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
