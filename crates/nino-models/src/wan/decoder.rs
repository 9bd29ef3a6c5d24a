//! Wan VAE decoder. Latents `[b, t, h, w, z]` → frames `[b, t', 8h, 8w, 3]` in about −1..1; t' is
//! 4t, and 4(t − 1) + 1 for the first chunk. Wan 2.2: 16h, 16w.

use super::Config;
use super::block::{causal_conv, head, middle, residual_block, time_conv};
use super::shortcut::{dup_up, unpatchify};
use crate::stream::{by_frame as each_frame, join};
use crate::{Params, Stream};
use nino_graph::{Graph, Node, UpsampleMode};

/// `p` is the root of the checkpoint's names.
pub fn decoder(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    s: &mut Stream,
    by_frame: bool,
    z: Node,
) -> Node {
    let x = p.linear(g, "conv2", z, c.z_dim);
    let first = s.is_first();
    let d = Decoder {
        p: p.at("decoder"),
        c,
        by_frame,
    };
    let y = if by_frame {
        each_frame(g, x, |g, frame, i| d.run(g, s, frame, first && i == 0))
    } else {
        d.run(g, s, x, first)
    };
    unpatchify(g, y, c.patch)
}

struct Decoder<'a, 'p> {
    p: Params<'p>,
    c: &'a Config,
    by_frame: bool,
}

impl Decoder<'_, '_> {
    /// `first`: x starts with the first frame of the video, which has no temporal upsampling.
    fn run(&self, g: &mut Graph, s: &mut Stream, x: Node, first: bool) -> Node {
        let width = self.c.decoder[self.c.decoder.len() - 1];
        let h = causal_conv(g, &self.p, s, "conv1", x, width);
        let h = self.p.at("conv1").label(g, h);
        let h = middle(g, &self.p.at("middle"), s, h);
        self.level(g, s, 0, h, first)
    }

    /// This level and all after it. With `by_frame`, each frame of a temporal upsampling runs
    /// through the levels after it alone.
    fn level(&self, g: &mut Graph, s: &mut Stream, i: usize, x: Node, first: bool) -> Node {
        let c = self.c;
        let n_levels = c.decoder.len();
        if i == n_levels {
            return head(g, &self.p.at("head"), s, x, 3 * c.patch * c.patch);
        }
        let width = c.decoder[n_levels - 1 - i];
        let mut h = x;
        for j in 0..=c.n_res_blocks {
            h = residual_block(g, &self.block(i, j), s, h, width);
        }
        if i + 1 == n_levels {
            if c.residual {
                self.p.at(format_args!("upsamples.{i}")).label(g, h);
            }
            return self.level(g, s, i + 1, h, first);
        }
        let time = c.time_down[n_levels - 2 - i];
        let shortcut = c.residual.then(|| {
            let dup = dup_up(g, x, 1 + usize::from(time), 2, width);
            let t = g.shape(dup)[1];
            g.slice(dup, 1, usize::from(time && first), t)
        });
        let resample = self.block(i, c.n_res_blocks + 1);
        if time {
            h = temporal_upsample(g, &resample, s, h, first);
        }
        let rest = |g: &mut Graph, s: &mut Stream, x: Node, dup: Option<Node>, first: bool| {
            let h = self.spatial_upsample(g, i, &resample, x, dup);
            self.level(g, s, i + 1, h, first)
        };
        if !(time && self.by_frame) {
            return rest(g, s, h, shortcut, first);
        }
        each_frame(g, h, |g, frame, k| {
            let dup = shortcut.map(|d| g.slice(d, 1, k, k + 1));
            rest(g, s, frame, dup, first && k == 0)
        })
    }

    /// Upsampling by 2 along both sides; Wan 2.1 halves the channels here.
    fn spatial_upsample(
        &self,
        g: &mut Graph,
        i: usize,
        p: &Params,
        x: Node,
        dup: Option<Node>,
    ) -> Node {
        let width = g.shape(x).last_dim() / if self.c.residual { 1 } else { 2 };
        let h = g.upsample(x, 2, UpsampleMode::Nearest);
        let h = p.conv(g, "resample.1", h, width, 3);
        match dup {
            Some(dup) => {
                let h = g.add(dup, h);
                self.p.at(format_args!("upsamples.{i}")).label(g, h)
            }
            None => p.label(g, h),
        }
    }

    fn block(&self, level: usize, i: usize) -> Params<'_> {
        let p = self.p.at("upsamples");
        if self.c.residual {
            p.at(format_args!("{level}.upsamples.{i}"))
        } else {
            p.at(level * (self.c.n_res_blocks + 2) + i)
        }
    }
}

/// `[b, t, h, w, c]` → `[b, 2t, h, w, c]`: a temporal convolution gives the channels of two frames.
fn temporal_upsample(g: &mut Graph, p: &Params, s: &mut Stream, x: Node, first: bool) -> Node {
    let t = g.shape(x)[1];
    if first {
        let one = g.slice(x, 1, 0, 1);
        if t == 1 {
            return one;
        }
        let rest = g.slice(x, 1, 1, t);
        // The first frame is not part of the cached frames of the others either.
        let rest = temporal_upsample(g, p, s, rest, false);
        return join(g, &[one, rest]);
    }
    let window = s.window(g, &p.path("time_conv"), x, 2);
    let shape = g.shape(x);
    let (b, h, w, c) = (shape[0], shape[2], shape[3], shape[4]);
    let y = time_conv(g, p, window, 2 * c, 1); // [b, t, h, w, 2·c]
    let y = g.reshape(y, [b * t, h * w, 2, c]);
    let y = g.permute(y, &[0, 2, 1, 3]); // [b·t, 2, h·w, c]
    g.reshape(y, [b, 2 * t, h, w, c])
}
