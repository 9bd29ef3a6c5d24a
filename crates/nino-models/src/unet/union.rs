//! What a union `ControlNet` for SDXL has beside others: it is told the kind of picture it sees.
//! Behaviour: <https://github.com/xinsir6/ControlNetPlus>, as ComfyUI runs it, with one picture.

use super::control::ControlConfig;
use crate::Params;
use nino_graph::{Act, Graph, Node};

/// Numbers that describe whether it is a kind.
const SINUSOIDS: usize = 256;
const HEADS: usize = 8;
const EPS: f32 = 1e-5;

/// The kind as a part of what all blocks are told, `[b, 4·model_channels]`; zeros count as no kind.
pub(super) fn told(
    g: &mut Graph,
    p: &Params,
    c: &ControlConfig,
    x: Node,
    mode: Option<usize>,
) -> Node {
    let (b, dtype) = (g.shape(x)[0], g.dtype(x));
    let kinds = (0..c.modes).flat_map(|kind| sinusoids(mode == Some(kind)));
    let kinds: Vec<f32> = kinds.collect();
    let name = format!("kind {mode:?} of {} for {b} rows", c.modes);
    let kinds = g.constant(&name, [b, c.modes * SINUSOIDS], &kinds.repeat(b));
    let kinds = g.cast(kinds, dtype);
    let width = 4 * c.unet.model_channels;
    let h = p.linear(g, "control_add_embedding.linear_1", kinds, width);
    let h = g.silu(h);
    p.linear(g, "control_add_embedding.linear_2", h, width)
}

/// The picture `[b, h, w, d]`, shifted by what a layer of attention makes of its mean and its kind.
pub(super) fn seen(g: &mut Graph, p: &Params, c: &ControlConfig, x: Node, mode: usize) -> Node {
    let [b, h, w, d] = [0, 1, 2, 3].map(|axis| g.shape(x)[axis]);
    let n = h * w;
    let name = format!("mean of {n} values for {b} rows");
    let mean = g.constant(&name, [b, 1, n], &vec![1.0 / n as f32; b * n]);
    let mean = g.cast(mean, g.dtype(x));
    let values = g.reshape(x, [b, n, d]);
    let mean = g.matmul(mean, values); // [b, 1, d]
    let table = p.matrix(g, "task_embedding", c.modes, d);
    let ids = g.constant_ids(
        &format!("kind {mode} of {b} rows"),
        [b, 1],
        &vec![mode as i32; b],
    );
    let kind = g.gather(table, ids, g.dtype(x)); // [b, 1, d]
    let y = g.add(mean, kind);
    let y = layer(g, &p.at("transformer_layes.0"), y);
    let shift = p.linear(g, "spatial_ch_projs", y, d);
    let shift = g.reshape(shift, [b, 1, 1, d]);
    g.add(x, shift)
}

fn layer(g: &mut Graph, p: &Params, x: Node) -> Node {
    let (b, n, d) = (g.shape(x)[0], g.shape(x)[1], g.shape(x)[2]);
    let h = p.layer_norm(g, "ln_1", x, EPS);
    let qkv = p.linear(g, "attn.in_proj", h, 3 * d);
    let parts = g.split(qkv, 2, 3);
    let [q, k, v] = [0, 1, 2].map(|i| g.reshape(parts[i], [b, n, HEADS, d / HEADS]));
    let h = g.attention(q, k, v, None);
    let h = g.reshape(h, [b, n, d]);
    let h = p.linear(g, "attn.out_proj", h, d);
    let x = g.add(x, h);
    let h = p.layer_norm(g, "ln_2", x, EPS);
    let h = p.linear(g, "mlp.c_fc", h, 4 * d);
    let h = g.act(h, Act::QuickGelu);
    let h = p.linear(g, "mlp.c_proj", h, d);
    g.add(x, h)
}

/// Cosines, then sines, of 1 or 0.
fn sinusoids(is: bool) -> impl Iterator<Item = f32> {
    let half = SINUSOIDS / 2;
    let angle = move |i: usize| {
        let falling = (-(10_000f64.ln()) * i as f64 / half as f64).exp();
        if is { falling } else { 0.0 }
    };
    let cosines = (0..half).map(move |i| angle(i).cos() as f32);
    cosines.chain((0..half).map(move |i| angle(i).sin() as f32))
}
