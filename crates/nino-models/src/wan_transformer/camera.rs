//! What a camera's path adds to the tokens (Wan Fun camera). Behaviour: ComfyUI's `WanCamAdapter`.

use super::{Config, patch_conv};
use crate::Params;
use nino_graph::{Act, Graph, Node};

/// How the camera sees the pixels under every latent pixel, `[b, t, h, w, camera]`, as tokens
/// `[b, n, d]`.
pub(super) fn tokens(g: &mut Graph, p: &Params, c: &Config, seen: Node) -> Node {
    let shape = g.shape(seen);
    let [b, t, h, w] = [0, 1, 2, 3].map(|axis| shape[axis]);
    let frames = g.reshape(seen, [b * t, h, w, shape.last_dim()]);
    let x = p.conv_with(g, "conv", frames, patch_conv(c.hidden)); // [b·t, h/2, w/2, d]
    let p = &p.at("residual_blocks.0");
    let y = p.conv(g, "conv1", x, c.hidden, 3);
    let y = g.act(y, Act::Relu);
    let y = p.conv(g, "conv2", y, c.hidden, 3);
    let y = g.add(y, x);
    let n = g.shape(y)[1] * g.shape(y)[2];
    g.reshape(y, [b, t * n, c.hidden])
}
