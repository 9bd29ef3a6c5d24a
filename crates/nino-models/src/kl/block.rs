//! Residual and attention blocks, shared by encoder and decoder.

use super::Config;
use crate::{ConvShape, Params};
use nino_graph::{Graph, Node};

const EPS: f32 = 1e-6;

/// Scale of the residual stream, which is stored times 2^-shift so that activations beyond f16's
/// 65504 fit (SDXL). The results are the same: a GroupNorm removes the scale if its epsilon is
/// scaled too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    pub shift: u32,
}

impl Scale {
    fn factor(self) -> f32 {
        0.5f32.powi(self.shift as i32)
    }

    fn eps(self) -> f32 {
        EPS * self.factor() * self.factor()
    }

    /// Brings an unscaled value to the stream's scale. Fusion makes it part of the conv before it.
    pub(super) fn enter(self, g: &mut Graph, x: Node) -> Node {
        if self.shift == 0 {
            return x;
        }
        g.affine(x, self.factor(), 0.0)
    }

    pub(super) fn norm(self, g: &mut Graph, p: &Params, c: &Config, name: &str, x: Node) -> Node {
        p.group_norm(g, name, x, c.groups, self.eps())
    }

    /// A convolution whose input and output are the scaled stream: only its bias is scaled.
    pub(super) fn conv_scaled(
        self,
        g: &mut Graph,
        p: &Params,
        name: &str,
        x: Node,
        conv: ConvShape,
    ) -> Node {
        if self.shift == 0 {
            return p.conv_with(g, name, x, conv);
        }
        let w = p.kernel(g, name, x, &conv);
        let bias = p.vector(g, &format!("{name}.bias"), conv.cout);
        let bias = g.affine(bias, self.factor(), 0.0);
        g.causal_conv(x, w, Some(bias), conv.stride, conv.pad)
    }
}

/// x `[b, h, w, c]` → `[b, h, w, cout]`
pub(super) fn resnet(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    s: Scale,
    x: Node,
    cout: usize,
) -> Node {
    // The shortcut is recorded first, so that a wide x can be freed after its norm.
    let shortcut = if g.shape(x).last_dim() == cout {
        x
    } else {
        s.conv_scaled(g, p, "nin_shortcut", x, ConvShape::same(cout, 1))
    };
    let mut h = s.norm(g, p, c, "norm1", x);
    h = g.silu(h);
    h = p.conv(g, "conv1", h, cout, 3);
    h = s.enter(g, h);
    h = s.norm(g, p, c, "norm2", h);
    h = g.silu(h);
    h = p.conv(g, "conv2", h, cout, 3);
    h = s.enter(g, h);
    let y = g.add(shortcut, h);
    p.label(g, y)
}

/// Self-attention over all pixels, with one head.
pub(super) fn attn(g: &mut Graph, p: &Params, c: &Config, s: Scale, x: Node) -> Node {
    let shape = g.shape(x);
    let (b, n, d) = (shape[0], shape[1] * shape[2], shape[3]);
    let h = s.norm(g, p, c, "norm", x);
    let h = g.reshape(h, [b, n, d]);
    let [q, k, v] = ["q", "k", "v"].map(|name| {
        let y = p.linear(g, name, h, d);
        g.reshape(y, [b, n, 1, d]) // [b, n, heads, hd]
    });
    let h = g.attention(q, k, v, None);
    let h = g.reshape(h, [b, n, d]);
    let h = p.linear(g, "proj_out", h, d);
    let h = s.enter(g, h);
    let h = g.reshape(h, shape);
    let y = g.add(x, h);
    p.label(g, y)
}

pub(super) fn mid(g: &mut Graph, p: &Params, c: &Config, s: Scale, x: Node) -> Node {
    let d = g.shape(x).last_dim();
    let h = resnet(g, &p.at("block_1"), c, s, x, d);
    let h = attn(g, &p.at("attn_1"), c, s, h);
    resnet(g, &p.at("block_2"), c, s, h, d)
}
