//! Motion latents of a sound-to-video model (Wan 2.2 S2V): the latent frames before the video,
//! the older the more of them in one token. Behavior: ComfyUI's `FramePackMotioner`.

use super::positions::{Axis, Grid};
use super::{Config, PATCH};
use crate::{ConvShape, Params};
use nino_graph::{Graph, Node};

/// Latent frames before the video that the model sees.
pub const MOTION_FRAMES: usize = 19;

/// A stretch of those frames, the latest first.
struct Stretch {
    name: &'static str,
    /// Latent frames.
    frames: usize,
    /// Latent frames and pixels along one side of a token.
    patch: [usize; 2],
    /// Position of the first frame; the video begins at 0.
    first: isize,
}

const STRETCHES: [Stretch; 3] = [
    Stretch {
        name: "proj",
        frames: 1,
        patch: [1, PATCH],
        first: -1,
    },
    Stretch {
        name: "proj_2x",
        frames: 2,
        patch: [2, 2 * PATCH],
        first: -3,
    },
    Stretch {
        name: "proj_4x",
        frames: 16,
        patch: [4, 4 * PATCH],
        first: -19,
    },
];

/// Motion latents `[b, 19, h, w, c]` as tokens `[b, n, d]`, and where those are.
pub(super) fn motion_tokens(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    motion: Node,
) -> (Node, Vec<Grid>) {
    let [b, h, w] = [0, 2, 3].map(|axis| g.shape(motion)[axis]);
    let (mut tokens, mut grids) = (Vec::new(), Vec::new());
    let mut end = MOTION_FRAMES;
    for stretch in &STRETCHES {
        let frames = g.slice(motion, 1, end - stretch.frames, end);
        end -= stretch.frames;
        let [time, side] = stretch.patch;
        let conv = ConvShape {
            cout: c.hidden,
            kernel: [time, side, side],
            stride: [time, side, side],
            pad: [0; 4],
            bias: true,
        };
        let x = p.conv_with(g, stretch.name, frames, conv); // [b, t, rows, columns, d]
        let [t, rows, columns] = [1, 2, 3].map(|axis| g.shape(x)[axis]);
        tokens.push(g.reshape(x, [b, t * rows * columns, c.hidden]));
        grids.push([
            Axis::from(stretch.first, t),
            Axis::spread(rows, h.div_ceil(PATCH)),
            Axis::spread(columns, w.div_ceil(PATCH)),
        ]);
    }
    (g.concat(&tokens, 1), grids)
}
