//! The additional layers of a union `ControlNet` for SDXL, which take the control type.
//! Behavior: <https://github.com/xinsir6/ControlNetPlus>, as ComfyUI runs it, with one hint.

use super::control::ControlConfig;
use crate::Params;
use nino_graph::{Act, Graph, Node};

/// Width of the sinusoidal embedding of one flag of the control type.
const FREQ_DIM: usize = 256;
const HEADS: usize = 8;
const EPS: f32 = 1e-5;

/// Embedding of the one-hot control type, added to the time embedding, `[b, 4·model_channels]`.
pub(super) fn control_embedding(
    g: &mut Graph,
    p: &Params,
    c: &ControlConfig,
    x: Node,
    mode: Option<usize>,
) -> Node {
    let (b, dtype) = (g.shape(x)[0], g.dtype(x));
    let flags = (0..c.modes).flat_map(|i| flag_embedding(mode == Some(i)));
    let flags: Vec<f32> = flags.collect();
    let name = format!("kind {mode:?} of {} for {b} rows", c.modes);
    let flags = g.constant(&name, [b, c.modes * FREQ_DIM], &flags.repeat(b));
    let flags = g.cast(flags, dtype);
    let width = 4 * c.unet.model_channels;
    let h = p.linear(g, "control_add_embedding.linear_1", flags, width);
    let h = g.silu(h);
    p.linear(g, "control_add_embedding.linear_2", h, width)
}

/// Shifts the encoded hint `[b, h, w, d]` by the output of a transformer layer, whose input is the
/// sum of the hint's mean and the embedding of the control type.
pub(super) fn fuse_control_type(
    g: &mut Graph,
    p: &Params,
    c: &ControlConfig,
    x: Node,
    mode: usize,
) -> Node {
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
    let task = g.gather(table, ids, g.dtype(x)); // [b, 1, d]
    let y = g.add(mean, task);
    let y = transformer_layer(g, &p.at("transformer_layes.0"), y);
    let shift = p.linear(g, "spatial_ch_projs", y, d);
    let shift = g.reshape(shift, [b, 1, 1, d]);
    g.add(x, shift)
}

fn transformer_layer(g: &mut Graph, p: &Params, x: Node) -> Node {
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

/// Sinusoidal embedding of 1 or 0: cosines, then sines.
fn flag_embedding(is_set: bool) -> impl Iterator<Item = f32> {
    let half = FREQ_DIM / 2;
    let angle = move |i: usize| {
        let frequency = (-(10_000f64.ln()) * i as f64 / half as f64).exp();
        if is_set { frequency } else { 0.0 }
    };
    let cosines = (0..half).map(move |i| angle(i).cos() as f32);
    cosines.chain((0..half).map(move |i| angle(i).sin() as f32))
}
