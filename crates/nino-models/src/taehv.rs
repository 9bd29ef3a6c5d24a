//! TAEHV, the tiny video autoencoder: Hunyuan, Wan 2.1 and Wan 2.2 layouts. Behavior:
//! <https://github.com/madebyollin/taehv>, `taehv.py` (MIT). Latents `[b, t, h, w, z]` (the
//! model's) ↔ frames `[b, t', 8h, 8w, 3]` in 0..1 (Wan 2.2: 16h, 16w).
//!
//! A memory block also takes its input of the previous frame, which is all that is cached between
//! chunks ([`crate::Stream`]).

use crate::stream::fold_axis;
use crate::taesd::{clamp, three_convs};
use crate::{ConvShape, Find, Params, Stream};
use nino_graph::{Act, Graph, Node, UpsampleMode};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub latent_channels: usize,
    pub encoder_width: usize,
    /// Channels of the decoder's three levels and of its output layers.
    pub decoder_widths: [usize; 4],
    /// Temporal downsampling of each encoder level (TPool).
    pub pool: [usize; 3],
    /// Temporal upsampling of each decoder level (TGrow).
    pub grow: [usize; 3],
    /// Patch size: pixels along one side that are packed into the channels of one.
    pub patch: usize,
}

impl Config {
    /// Hunyuan Video and Wan 2.1.
    pub fn hunyuan() -> Config {
        Config {
            latent_channels: 16,
            encoder_width: 64,
            decoder_widths: [256, 128, 64, 64],
            pool: [2, 2, 1],
            grow: [1, 2, 2],
            patch: 1,
        }
    }

    pub fn wan22() -> Config {
        Config {
            latent_channels: 48,
            patch: 2,
            ..Config::hunyuan()
        }
    }

    /// Hunyuan Video 1.5.
    pub fn hunyuan15() -> Config {
        Config {
            latent_channels: 32,
            patch: 2,
            ..Config::hunyuan()
        }
    }

    /// Pixels per latent pixel along one side.
    pub fn scale(&self) -> usize {
        8 * self.patch
    }

    /// Frames per latent frame; the first latent frame is one frame.
    pub fn time_scale(&self) -> usize {
        self.grow.iter().product()
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not a TAEHV. Without an encoder
    /// in the file, its sizes are assumed to mirror the decoder's.
    pub fn detect(find: &Find) -> Option<Config> {
        let conv = |name: &str| match **find(&format!("{name}.weight")).as_ref().map(|(s, _)| s)? {
            // Some converters squeeze 1×1 kernels.
            [cout, cin] | [cout, cin, _, _] => Some((cout, cin)),
            _ => None,
        };
        let (w0, latent_channels) = conv("decoder.1")?;
        // The temporal ratio of a level; a damaged file may claim any number.
        let ratio = |wide: usize, narrow: usize| {
            let n = wide.checked_div(narrow)?;
            (1..=8).contains(&n).then_some(n)
        };
        let grow = |i: usize| {
            let (cout, cin) = conv(&format!("decoder.{i}.conv"))?;
            ratio(cout, cin)
        };
        let pool = |i: usize| {
            let (cout, cin) = conv(&format!("encoder.{i}.conv"))?;
            ratio(cin, cout)
        };
        let grow = [grow(7)?, grow(13)?, grow(19)?];
        let pool = [
            pool(2).unwrap_or(grow[2]),
            pool(7).unwrap_or(grow[1]),
            pool(12).unwrap_or(grow[0]),
        ];
        let (rgb, w3) = conv("decoder.22")?;
        Some(Config {
            latent_channels,
            encoder_width: conv("encoder.0").map_or(w3, |(cout, _)| cout),
            decoder_widths: [w0, conv("decoder.8")?.0, conv("decoder.14")?.0, w3],
            pool,
            grow,
            patch: (1..=8).find(|p| p * p * 3 == rgb)?,
        })
    }
}

/// `p` is the root of the checkpoint's names. The first chunk drops the frames before the video's
/// first.
pub fn decoder(g: &mut Graph, p: &Params, c: &Config, s: &mut Stream, z: Node) -> Node {
    let p = &p.at("decoder");
    let mut h = clamp(g, z);
    h = p.conv(g, "1", h, c.decoder_widths[0], 3);
    h = g.act(h, Act::Relu);
    for level in 0..3 {
        let i = 3 + 6 * level;
        for j in i..i + 3 {
            h = mem_block(g, &p.at(j), s, h);
        }
        // The reference upsamples first. The 1×1 convolution of `grow` gives the same values
        // before it, at a quarter of the cost.
        h = grow(g, &p.at(i + 4), h, c.grow[level]);
        h = g.upsample(h, 2, UpsampleMode::Nearest);
        let conv = no_bias(c.decoder_widths[level + 1]);
        h = p.conv_with(g, &(i + 5).to_string(), h, conv);
    }
    h = g.act(h, Act::Relu);
    if s.is_first() {
        let t = g.shape(h)[1];
        h = g.slice(h, 1, c.time_scale() - 1, t);
    }
    h = p.conv(g, "22", h, 3 * c.patch * c.patch, 3);
    shuffle(g, h, c.patch) // [b, t', 8h, 8w, 3]
}

/// The number of frames must be a multiple of the time scale; callers pad with the last frame.
pub fn encoder(g: &mut Graph, p: &Params, c: &Config, s: &mut Stream, x: Node) -> Node {
    let p = &p.at("encoder");
    let mut h = unshuffle(g, x, c.patch);
    h = p.conv(g, "0", h, c.encoder_width, 3);
    h = g.act(h, Act::Relu);
    for level in 0..3 {
        let i = 2 + 5 * level;
        h = pool(g, &p.at(i), h, c.pool[level]);
        let down = ConvShape {
            stride: [1, 2, 2],
            ..no_bias(c.encoder_width)
        };
        h = p.conv_with(g, &(i + 1).to_string(), h, down);
        for j in i + 2..i + 5 {
            h = mem_block(g, &p.at(j), s, h);
        }
    }
    p.conv(g, "17", h, c.latent_channels, 3) // [b, t', h, w, z]
}

fn mem_block(g: &mut Graph, p: &Params, s: &mut Stream, x: Node) -> Node {
    let shape = g.shape(x);
    let window = s.window(g, &p.path("conv"), x, 1);
    let past = g.slice(window, 1, 0, shape[1]);
    let h = g.concat(&[x, past], 4);
    let h = three_convs(g, p, h, shape.last_dim());
    let h = g.add(x, h);
    g.act(h, Act::Relu)
}

/// TPool: `[b, t, h, w, c]` → `[b, t/n, h, w, c]`
fn pool(g: &mut Graph, p: &Params, x: Node, n: usize) -> Node {
    let s = g.shape(x);
    let (b, t, h, w, c) = (s[0], s[1] / n, s[2], s[3], s[4]);
    let x = g.reshape(x, [b * t, n, h * w, c]);
    let x = fold_axis(g, x, 1, 3); // [b·t, 1, h·w, n·c]
    let x = g.reshape(x, [b, t, h, w, n * c]);
    p.linear_no_bias(g, "conv", x, c)
}

/// TGrow: `[b, t, h, w, c]` → `[b, n·t, h, w, c]`
fn grow(g: &mut Graph, p: &Params, x: Node, n: usize) -> Node {
    let s = g.shape(x);
    let (b, t, h, w, c) = (s[0], s[1], s[2], s[3], s[4]);
    let x = p.linear_no_bias(g, "conv", x, n * c);
    let x = g.reshape(x, [b * t, h * w, n, c]);
    let x = g.permute(x, &[0, 2, 1, 3]); // [b·t, n, h·w, c]
    g.reshape(x, [b, t * n, h, w, c])
}

fn no_bias(cout: usize) -> ConvShape {
    ConvShape {
        bias: false,
        ..ConvShape::same(cout, 3)
    }
}

fn shuffle(g: &mut Graph, x: Node, r: usize) -> Node {
    let s = g.shape(x);
    let (b, t, h, w) = (s[0], s[1], s[2], s[3]);
    let x = g.reshape(x, [b * t, h, w, s[4]]);
    let x = g.pixel_shuffle(x, r);
    g.reshape(x, [b, t, h * r, w * r, s[4] / (r * r)])
}

fn unshuffle(g: &mut Graph, x: Node, r: usize) -> Node {
    let s = g.shape(x);
    let (b, t, h, w) = (s[0], s[1], s[2], s[3]);
    let x = g.reshape(x, [b * t, h, w, s[4]]);
    let x = g.pixel_unshuffle(x, r);
    g.reshape(x, [b, t, h / r, w / r, s[4] * r * r])
}
