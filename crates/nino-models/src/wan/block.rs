//! Causal convolution, residual and attention blocks of the Wan VAEs.

use crate::{ConvShape, Params, Stream};
use nino_graph::{Graph, Node};

/// The reference divides by the L2 norm, clamped to at least 1e-12.
const EPS: f32 = 1e-24;

/// 3×3×3 over the frame and the two before it: x `[b, t, h, w, c]` → `[b, t, h, w, cout]`.
pub(super) fn causal_conv(
    g: &mut Graph,
    p: &Params,
    s: &mut Stream,
    name: &str,
    x: Node,
    cout: usize,
) -> Node {
    let window = s.window(g, &p.path(name), x, 2);
    let conv = ConvShape {
        kernel: [3, 3, 3],
        ..ConvShape::same(cout, 3)
    };
    p.conv_with(g, name, window, conv)
}

pub(super) fn norm(g: &mut Graph, p: &Params, name: &str, x: Node) -> Node {
    let c = g.shape(x).last_dim();
    let gamma = p.vector(g, &format!("{name}.gamma"), c);
    g.rms_norm(x, Some(gamma), EPS)
}

pub(super) fn residual_block(
    g: &mut Graph,
    p: &Params,
    s: &mut Stream,
    x: Node,
    cout: usize,
) -> Node {
    // The shortcut is recorded first, so that a wide x can be freed after its norm.
    let shortcut = if g.shape(x).last_dim() == cout {
        x
    } else {
        p.linear(g, "shortcut", x, cout)
    };
    let mut h = norm(g, p, "residual.0", x);
    h = g.silu(h);
    h = causal_conv(g, p, s, "residual.2", h, cout);
    h = norm(g, p, "residual.3", h);
    h = g.silu(h);
    h = causal_conv(g, p, s, "residual.6", h, cout);
    let y = g.add(shortcut, h);
    p.label(g, y)
}

/// Self-attention over the pixels of each frame, with one head.
fn attention_block(g: &mut Graph, p: &Params, x: Node) -> Node {
    let shape = g.shape(x);
    let (frames, n, d) = (shape[0] * shape[1], shape[2] * shape[3], shape[4]);
    let h = norm(g, p, "norm", x);
    let h = g.reshape(h, [frames, n, d]);
    let qkv = p.linear(g, "to_qkv", h, 3 * d);
    let qkv = g.split(qkv, 2, 3);
    let qkv: Vec<Node> = qkv
        .into_iter()
        .map(|y| g.reshape(y, [frames, n, 1, d])) // [b·t, n, heads, hd]
        .collect();
    let h = g.attention(qkv[0], qkv[1], qkv[2], None);
    let h = g.reshape(h, [frames, n, d]);
    let h = p.linear(g, "proj", h, d);
    let h = g.reshape(h, shape);
    let y = g.add(x, h);
    p.label(g, y)
}

/// The middle block: `middle.0`, `.1`, `.2`.
pub(super) fn middle(g: &mut Graph, p: &Params, s: &mut Stream, x: Node) -> Node {
    let d = g.shape(x).last_dim();
    let h = residual_block(g, &p.at(0), s, x, d);
    let h = attention_block(g, &p.at(1), h);
    residual_block(g, &p.at(2), s, h, d)
}

pub(super) fn head(g: &mut Graph, p: &Params, s: &mut Stream, x: Node, cout: usize) -> Node {
    let h = norm(g, p, "0", x);
    let h = g.silu(h);
    causal_conv(g, p, s, "2", h, cout)
}

/// 3×1×1 temporal convolution over `window`, without padding.
pub(super) fn time_conv(
    g: &mut Graph,
    p: &Params,
    window: Node,
    cout: usize,
    stride: usize,
) -> Node {
    let conv = ConvShape {
        cout,
        kernel: [3, 1, 1],
        stride: [stride, 1, 1],
        pad: [0; 4],
        bias: true,
    };
    p.conv_with(g, "time_conv", window, conv)
}
