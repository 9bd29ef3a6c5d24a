//! Residual block, spatial transformer and resampling of the UNet.

use super::Config;
use super::hypertile::Tiles;
use super::shrink::{Resize, resize};
use crate::{ConvShape, Params};
use nino_dtype::DType;
use nino_graph::{Act, Graph, MatMul, Node, ReduceFn, UpsampleMode};

pub(super) const EPS: f32 = 1e-5;
const TRANSFORMER_EPS: f32 = 1e-6;

/// x `[b, h, w, c]`, emb `[b, e]` → `[b, h, w, cout]`
pub(super) fn resblock(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    x: Node,
    emb: Node,
    cout: usize,
) -> Node {
    let b = g.shape(x)[0];
    // The shortcut is recorded first, so that a wide x can be freed after its norm.
    let shortcut = if g.shape(x).last_dim() == cout {
        x
    } else {
        p.conv(g, "skip_connection", x, cout, 1)
    };
    let mut h = p.group_norm(g, "in_layers.0", x, c.groups, EPS);
    h = g.silu(h);
    h = p.conv(g, "in_layers.2", h, cout, 3);
    let e = p.linear(g, "emb_layers.1", emb, cout);
    let e = g.reshape(e, [b, 1, 1, cout]);
    h = g.add(h, e);
    h = p.group_norm(g, "out_layers.0", h, c.groups, EPS);
    h = g.silu(h);
    h = p.conv(g, "out_layers.3", h, cout, 3);
    g.add(shortcut, h)
}

/// What every place looks at in self-attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attend {
    Everywhere,
    ToItself,
    Tiles(Tiles),
}

pub(super) fn transformer(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    x: Node,
    context: Node,
    depth: usize,
    attend: Attend,
) -> Node {
    let shape = g.shape(x);
    let mut h = tokens(g, p, c, x);
    for i in 0..depth {
        h = transformer_block(
            g,
            &p.at(format_args!("transformer_blocks.{i}")),
            c,
            h,
            context,
            attend,
        );
    }
    h = p.linear(g, "proj_out", h, shape[3]);
    h = g.reshape(h, shape);
    g.add(x, h)
}

/// The tokens of the first transformer block, `[b, n, d]`, of x `[b, h, w, d]`.
fn tokens(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let shape = g.shape(x);
    let (b, n, d) = (shape[0], shape[1] * shape[2], shape[3]);
    let h = p.group_norm(g, "norm", x, c.groups, TRANSFORMER_EPS);
    let h = g.reshape(h, [b, n, d]);
    p.linear(g, "proj_in", h, d)
}

/// How much each place of x `[b, h, w, c]` is looked at by all others in the first self-attention
/// of a transformer, on average over its heads: `[b, n]`, f32.
pub(super) fn attended(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let h = tokens(g, p, c, x);
    let p = &p.at("transformer_blocks.0");
    let h = p.layer_norm(g, "norm1", h, EPS);
    let (b, n, d) = (g.shape(h)[0], g.shape(h)[1], g.shape(h)[2]);
    let heads = c.heads.count(d);
    let [q, k] = ["to_q", "to_k"].map(|name| {
        let y = p.at("attn1").linear_no_bias(g, name, h, d);
        let y = g.reshape(y, [b, n, heads, d / heads]);
        g.permute(y, &[0, 2, 1, 3]) // [b, heads, n, hd]
    });
    let scores = g.push(MatMul {
        a: q,
        b: k,
        b_transposed: true,
        scale: 1.0 / ((d / heads) as f32).sqrt(),
    });
    let scores = g.cast(scores, DType::F32);
    let shares = g.softmax(scores); // [b, heads, n, n]
    let sums = g.reduce(shares, 2, ReduceFn::Sum);
    let sums = g.reduce(sums, 1, ReduceFn::Mean);
    g.reshape(sums, [b, n])
}

fn transformer_block(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    x: Node,
    context: Node,
    attend: Attend,
) -> Node {
    let h = p.layer_norm(g, "norm1", x, EPS);
    let h = match attend {
        Attend::Everywhere => attention(g, &p.at("attn1"), c, h, h),
        Attend::ToItself => values(g, &p.at("attn1"), h),
        Attend::Tiles(tiles) => tiled(g, &p.at("attn1"), c, h, tiles),
    };
    let x = g.add(x, h);
    let h = p.layer_norm(g, "norm2", x, EPS);
    let h = attention(g, &p.at("attn2"), c, h, context);
    let x = g.add(x, h);
    let h = p.layer_norm(g, "norm3", x, EPS);
    let h = feed_forward(g, &p.at("ff"), h);
    g.add(x, h)
}

/// Attention of x `[b, n, d]` to context `[b, m, e]`.
fn attention(g: &mut Graph, p: &Params, c: &Config, x: Node, context: Node) -> Node {
    let (b, n, d) = (g.shape(x)[0], g.shape(x)[1], g.shape(x)[2]);
    let m = g.shape(context)[1];
    let heads = c.heads.count(d);
    let [q, k, v] =
        [("to_q", x, n), ("to_k", context, m), ("to_v", context, m)].map(|(name, from, len)| {
            let y = p.linear_no_bias(g, name, from, d);
            g.reshape(y, [b, len, heads, d / heads]) // [b, n, heads, hd]
        });
    let y = g.attention(q, k, v, None);
    let y = g.reshape(y, [b, n, d]);
    p.linear(g, "to_out.0", y, d)
}

/// Attention of the tiles of x `[b, n, d]`: the queries of each to a run of keys.
fn tiled(g: &mut Graph, p: &Params, c: &Config, x: Node, tiles: Tiles) -> Node {
    let cut = tiles.cut(g, x);
    let (b, n, d) = (g.shape(cut)[0], g.shape(cut)[1], g.shape(cut)[2]);
    let heads = c.heads.count(d);
    let [q, k, v] = [("to_q", cut), ("to_k", x), ("to_v", x)].map(|(name, from)| {
        let y = p.linear_no_bias(g, name, from, d);
        g.reshape(y, [b, n, heads, d / heads]) // [b·tiles, n / tiles, heads, hd]
    });
    let y = g.attention(q, k, v, None);
    let y = g.reshape(y, [b, n, d]);
    let y = p.linear(g, "to_out.0", y, d);
    tiles.join(g, y)
}

/// Attention of every place of x `[b, n, d]` to itself.
fn values(g: &mut Graph, p: &Params, x: Node) -> Node {
    let d = g.shape(x).last_dim();
    let v = p.linear_no_bias(g, "to_v", x, d);
    p.linear(g, "to_out.0", v, d)
}

/// GEGLU: one half of the first layer's output gates the other.
fn feed_forward(g: &mut Graph, p: &Params, x: Node) -> Node {
    let d = g.shape(x).last_dim();
    let wide = p.linear(g, "net.0.proj", x, 8 * d);
    let h = g.gate(wide, Act::Gelu);
    p.linear(g, "net.2", h, d)
}

pub(super) fn down(g: &mut Graph, p: &Params, x: Node) -> Node {
    let conv = ConvShape {
        stride: [1, 2, 2],
        ..ConvShape::same(g.shape(x).last_dim(), 3)
    };
    p.conv_with(g, "op", x, conv)
}

/// Upsampling by 2, cropped to `size`, that of the skip connection it is concatenated with: where
/// downsampling rounded up, this is one pixel less.
pub(super) fn up(g: &mut Graph, p: &Params, x: Node, size: Option<[usize; 2]>) -> Node {
    let doubled = [2 * g.shape(x)[1], 2 * g.shape(x)[2]];
    let size = size.unwrap_or(doubled);
    // A skip connection of another size is one beside activations that were made smaller.
    if (0..2).any(|axis| size[axis] > doubled[axis] || size[axis] + 1 < doubled[axis]) {
        let h = resize(g, x, size, Resize::Nearest);
        return p.conv(g, "conv", h, g.shape(x).last_dim(), 3);
    }
    let mut h = g.upsample(x, 2, UpsampleMode::Nearest);
    for axis in 0..2 {
        if size[axis] < doubled[axis] {
            h = g.slice(h, axis + 1, 0, size[axis]);
        }
    }
    p.conv(g, "conv", h, g.shape(x).last_dim(), 3)
}
