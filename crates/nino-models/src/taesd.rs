//! TAESD, the tiny autoencoder: SD, SDXL, SD3, Flux.1 and Flux.2 (32 channels, GroupNorm middle).
//! Behavior: <https://github.com/madebyollin/taesd>, `taesd.py` (MIT).
//! Latent `[b, h, w, z]` (the model's, scaled and shifted) ↔ image `[b, 8h, 8w, 3]` in 0..1.

use crate::{ConvShape, Find, Params};
use nino_graph::{Act, Graph, Node, UpsampleMode};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub latent_channels: usize,
    pub width: usize,
    /// Whether blocks at latent resolution begin with a group-normalized bottleneck (Flux.2).
    pub midblock_gn: bool,
}

const EPS: f32 = 1e-5;
const LEVELS: usize = 3;

impl Config {
    pub fn new(latent_channels: usize) -> Config {
        Config {
            latent_channels,
            width: 64,
            midblock_gn: latent_channels == 32,
        }
    }

    /// `find` takes names below the decoder's prefix: none in a file of its own, `decoder.` in a
    /// joined one.
    pub fn detect_decoder(find: &Find) -> Option<Config> {
        let (first, last) = (find("1.weight")?.0, find("19.weight")?.0);
        match (&*first, &*last) {
            (&[width, latent_channels, 3, 3], &[3, _, 3, 3]) => Some(Config {
                latent_channels,
                width,
                midblock_gn: find("3.pool.0.weight").is_some(),
            }),
            _ => None,
        }
    }

    /// `find` takes names below the encoder's prefix.
    pub fn detect_encoder(find: &Find) -> Option<Config> {
        let (first, last) = (find("0.weight")?.0, find("14.weight")?.0);
        match (&*first, &*last) {
            (&[width, 3, 3, 3], &[latent_channels, _, 3, 3]) => Some(Config {
                latent_channels,
                width,
                midblock_gn: find("11.pool.0.weight").is_some(),
            }),
            _ => None,
        }
    }
}

/// `p` is at the decoder's prefix; layers are named by their index in its `Sequential`.
pub fn decoder(g: &mut Graph, p: &Params, c: &Config, z: Node) -> Node {
    let mut h = clamp(g, z);
    h = layer(g, p, 1, h, ConvShape::same(c.width, 3));
    h = g.act(h, Act::Relu);
    let mut i = 3;
    for level in 0..LEVELS {
        for _ in 0..3 {
            h = block(g, &p.at(i), c.midblock_gn && level == 0, h);
            i += 1;
        }
        h = g.upsample(h, 2, UpsampleMode::Nearest);
        h = layer(g, p, i + 1, h, no_bias(c.width));
        i += 2;
    }
    h = block(g, &p.at(i), false, h);
    layer(g, p, i + 1, h, ConvShape::same(3, 3)) // [b, 8h, 8w, 3]
}

/// `p` is at the encoder's prefix.
pub fn encoder(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let mut h = layer(g, p, 0, x, ConvShape::same(c.width, 3));
    h = block(g, &p.at(1), false, h);
    let mut i = 2;
    for level in 0..LEVELS {
        let down = ConvShape {
            stride: [1, 2, 2],
            ..no_bias(c.width)
        };
        h = layer(g, p, i, h, down);
        for j in 1..=3 {
            let pool = c.midblock_gn && level == LEVELS - 1;
            h = block(g, &p.at(i + j), pool, h);
        }
        i += 4;
    }
    layer(g, p, i, h, ConvShape::same(c.latent_channels, 3)) // [b, h, w, z]
}

/// Soft clamp of latents to ±3.
pub(crate) fn clamp(g: &mut Graph, z: Node) -> Node {
    let z = g.affine(z, 1.0 / 3.0, 0.0);
    let z = g.act(z, Act::Tanh);
    g.affine(z, 3.0, 0.0)
}

fn layer(g: &mut Graph, p: &Params, i: usize, x: Node, conv: ConvShape) -> Node {
    let y = p.conv_with(g, &i.to_string(), x, conv);
    p.at(i).label(g, y)
}

fn no_bias(width: usize) -> ConvShape {
    ConvShape {
        bias: false,
        ..ConvShape::same(width, 3)
    }
}

fn block(g: &mut Graph, p: &Params, pool: bool, x: Node) -> Node {
    let n = g.shape(x).last_dim();
    let mut x = x;
    if pool {
        let h = p.linear_no_bias(g, "pool.0", x, 4 * n);
        let h = p.group_norm(g, "pool.1", h, 4, EPS);
        let h = g.act(h, Act::Relu);
        let h = p.linear_no_bias(g, "pool.3", h, n);
        x = g.add(x, h);
    }
    let h = three_convs(g, p, x, n);
    let h = g.add(x, h);
    let y = g.act(h, Act::Relu);
    p.label(g, y)
}

/// `conv.0`, `conv.2`, `conv.4` with a ReLU between them.
pub(crate) fn three_convs(g: &mut Graph, p: &Params, x: Node, n: usize) -> Node {
    let mut h = p.conv(g, "conv.0", x, n, 3);
    h = g.act(h, Act::Relu);
    h = p.conv(g, "conv.2", h, n, 3);
    h = g.act(h, Act::Relu);
    p.conv(g, "conv.4", h, n, 3)
}
