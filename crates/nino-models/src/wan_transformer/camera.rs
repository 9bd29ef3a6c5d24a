//! The camera control adapter of Wan Fun camera. Behavior: ComfyUI's `WanCamAdapter`.

use super::{Config, patch_conv};
use crate::Params;
use nino_graph::{Act, Graph, Node};

/// Camera embeddings `[b, t, h, w, camera]` to residuals for the tokens, `[b, n, d]`.
pub(super) fn control_adapter(g: &mut Graph, p: &Params, c: &Config, camera: Node) -> Node {
    let shape = g.shape(camera);
    let [b, t, h, w] = [0, 1, 2, 3].map(|axis| shape[axis]);
    let frames = g.reshape(camera, [b * t, h, w, shape.last_dim()]);
    let x = p.conv_with(g, "conv", frames, patch_conv(c.hidden)); // [b·t, h/2, w/2, d]
    let p = &p.at("residual_blocks.0");
    let y = p.conv(g, "conv1", x, c.hidden, 3);
    let y = g.act(y, Act::Relu);
    let y = p.conv(g, "conv2", y, c.hidden, 3);
    let y = g.add(y, x);
    let n = g.shape(y)[1] * g.shape(y)[2];
    g.reshape(y, [b, t * n, c.hidden])
}
