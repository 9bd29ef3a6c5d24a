//! Wan VAE encoder. Frames `[b, t, 8h, 8w, 3]` in −1..1 → mean and log variance `[b, t', h, w,
//! 2z]`. The first chunk has 1 + 4k frames and gives 1 + k latent frames, later ones have 4k and
//! give k.

use super::Config;
use super::block::{causal_conv, head, middle, residual_block, time_conv};
use super::shortcut::{avg_down, patchify};
use crate::stream::{by_frame as each_frame, join};
use crate::{ConvShape, Params, Stream};
use nino_graph::{Graph, Node};

/// `p` is the root of the checkpoint's names. The first `z` channels are the mean, the latent.
pub fn encoder(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    s: &mut Stream,
    by_frame: bool,
    x: Node,
) -> Node {
    let root = p;
    let p = &p.at("encoder");
    let first = s.is_first();
    let mut h = patchify(g, x, c.patch);
    let n_levels = c.encoder.len();
    for (i, &width) in c.encoder.iter().enumerate() {
        let down = i + 1 < n_levels;
        let time = down && c.time_down[i];
        let block = |j: usize| {
            let p = p.at("downsamples");
            if c.residual {
                p.at(format_args!("{i}.downsamples.{j}"))
            } else {
                p.at(i * (c.n_res_blocks + 1) + j)
            }
        };
        let mut frames = |g: &mut Graph, x: Node| {
            let mut h = x;
            if i == 0 {
                h = causal_conv(g, p, s, "conv1", h, width);
                h = p.at("conv1").label(g, h);
            }
            let start = h;
            for j in 0..c.n_res_blocks {
                h = residual_block(g, &block(j), s, h, width);
            }
            if down {
                h = spatial_downsample(g, &block(c.n_res_blocks), h);
            }
            if c.residual && !time {
                let shortcut = avg_down(g, start, 1, 1 + usize::from(down), width);
                h = g.add(shortcut, h);
            }
            h
        };
        let start = h;
        h = if by_frame {
            each_frame(g, h, |g, frame, _| frames(g, frame))
        } else {
            frames(g, h)
        };
        if time {
            h = temporal_downsample(g, &block(c.n_res_blocks), s, h, first);
            if c.residual {
                let shortcut = avg_down(g, start, 2, 2, width);
                h = g.add(shortcut, h);
            }
        }
        if c.residual {
            p.at(format_args!("downsamples.{i}")).label(g, h);
        } else if down {
            block(c.n_res_blocks).label(g, h);
        }
    }
    h = middle(g, &p.at("middle"), s, h);
    h = head(g, &p.at("head"), s, h, 2 * c.z_dim);
    root.linear(g, "conv1", h, 2 * c.z_dim) // [b, t', h, w, 2z]
}

/// Downsampling by 2 along both sides, padded at the bottom and on the right only.
fn spatial_downsample(g: &mut Graph, p: &Params, x: Node) -> Node {
    let conv = ConvShape {
        stride: [1, 2, 2],
        pad: [0, 1, 0, 1],
        ..ConvShape::same(g.shape(x).last_dim(), 3)
    };
    p.conv_with(g, "resample.1", x, conv)
}

/// Temporal convolution with stride 2; the first frame of a video is not changed.
fn temporal_downsample(g: &mut Graph, p: &Params, s: &mut Stream, x: Node, first: bool) -> Node {
    let (t, c) = (g.shape(x)[1], g.shape(x).last_dim());
    let layer = p.path("time_conv");
    if !first {
        let window = s.window(g, &layer, x, 1);
        return time_conv(g, p, window, c, 2);
    }
    let last = g.slice(x, 1, t - 1, t);
    s.cache(&layer, last);
    let one = g.slice(x, 1, 0, 1);
    if t == 1 {
        return one;
    }
    let rest = time_conv(g, p, x, c, 2);
    join(g, &[one, rest])
}
