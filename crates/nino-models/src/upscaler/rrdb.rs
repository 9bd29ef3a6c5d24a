//! ESRGAN and Real-ESRGAN: residual-in-residual dense blocks (RRDB).
//! Behavior: <https://github.com/XPixelGroup/BasicSR>, `basicsr/archs/rrdbnet_arch.py`, and for
//! ESRGAN+'s extra residuals <https://github.com/ncarraz/ESRGANplus>.
//! Pixels `[b, h, w, 3·unshuffle²]` → features `[b, h, w, width]` → `[b, h·2^n, w·2^n, 3]`.

use super::{Piece, PieceShape};
use crate::{ConvShape, Find, Params};
use nino_graph::{Act, Graph, Node, UpsampleMode};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Factor of the pixel unshuffle before the network.
    pub unshuffle: usize,
    pub width: usize,
    /// Channels that each convolution of a dense block adds.
    pub growth: usize,
    pub n_blocks: usize,
    /// Number of upsamplings by 2.
    pub doublings: usize,
    /// Whether dense blocks have ESRGAN+'s extra residuals.
    pub plus: bool,
}

const LEAKY: Act = Act::LeakyRelu { slope: 0.2 };
/// Factor of a block's output before it is added to its input.
const RESIDUAL_SCALE: f32 = 0.2;
const DENSE: [&str; 3] = ["rdb1", "rdb2", "rdb3"];
/// Convolutions of a dense block; each extends the receptive field by one pixel.
const CONVS: usize = 5;
const MAX_BLOCKS: usize = 256;
const MAX_DOUBLINGS: usize = 4;

impl Config {
    /// ESRGAN, and Real-ESRGAN's `x4plus`.
    pub fn x4() -> Config {
        Config {
            unshuffle: 1,
            width: 64,
            growth: 32,
            n_blocks: 23,
            doublings: 2,
            plus: false,
        }
    }

    #[must_use]
    pub fn with_blocks(self, n_blocks: usize) -> Config {
        Config { n_blocks, ..self }
    }

    #[must_use]
    pub fn with_doublings(self, doublings: usize) -> Config {
        Config { doublings, ..self }
    }

    #[must_use]
    pub fn with_unshuffle(self, unshuffle: usize) -> Config {
        Config { unshuffle, ..self }
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not such a network, or not one for
    /// RGB images.
    pub fn detect(find: &Find) -> Option<Config> {
        let shape = |name: &str| find(name).map(|(s, _)| s);
        let [width, channels, 3, 3] = *shape("conv_first.weight")? else {
            return None;
        };
        let dense = |i: usize| shape(&format!("body.{i}.rdb1.conv1.weight"));
        let up = |i: usize| shape(&format!("conv_up{i}.weight"));
        let config = Config {
            unshuffle: (channels / 3).isqrt(),
            width,
            growth: dense(0)?[0],
            n_blocks: (0..MAX_BLOCKS).take_while(|&i| dense(i).is_some()).count(),
            doublings: (1..=MAX_DOUBLINGS).take_while(|&i| up(i).is_some()).count(),
            plus: shape("body.0.rdb1.conv1x1.weight").is_some(),
        };
        let is_color = shape("conv_last.weight")?[0] == 3 && config.channels() == channels;
        // The output must not be smaller than the image.
        let upscales = config.unshuffle > 0 && config.upsampling().is_multiple_of(config.unshuffle);
        (is_color && upscales).then_some(config)
    }

    /// Output pixels per image pixel along one side.
    pub fn scale(&self) -> usize {
        self.upsampling() / self.unshuffle
    }

    pub(super) fn shape(&self, piece: Piece) -> PieceShape {
        // `conv_first`, the blocks, and `conv_body`.
        let trunk = 2 + self.n_blocks * DENSE.len() * CONVS;
        // Convolutions after an upsampling reach half as many input rows each, so two rows are
        // enough for any number of upsamplings; without any, there are two convolutions.
        let head = 2;
        let (channels, width, pixels) = (self.channels(), self.width, 3);
        let (channels, out_channels, scale, reach) = match piece {
            Piece::Trunk => (channels, width, 1, trunk),
            Piece::Head => (width, pixels, self.upsampling(), head),
            Piece::Whole => (channels, pixels, self.upsampling(), trunk + head),
        };
        PieceShape {
            channels,
            out_channels,
            scale,
            reach,
        }
    }

    fn channels(&self) -> usize {
        3 * self.unshuffle * self.unshuffle
    }

    fn upsampling(&self) -> usize {
        1 << self.doublings
    }
}

/// Features of an image, at its size.
pub fn trunk(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let first = p.conv(g, "conv_first", x, c.width, 3);
    let mut h = p.at("conv_first").label(g, first);
    for i in 0..c.n_blocks {
        h = block(g, &p.at("body").at(i), c, h);
    }
    let h = p.conv(g, "conv_body", h, c.width, 3);
    g.add(h, first)
}

/// The upscaled image of features.
pub fn head(g: &mut Graph, p: &Params, c: &Config, features: Node) -> Node {
    let mut h = features;
    for i in 1..=c.doublings {
        h = g.upsample(h, 2, UpsampleMode::Nearest);
        h = p.conv(g, &format!("conv_up{i}"), h, c.width, 3);
        h = g.act(h, LEAKY);
    }
    let h = p.conv(g, "conv_hr", h, c.width, 3);
    let h = g.act(h, LEAKY);
    p.conv(g, "conv_last", h, 3, 3) // [b, h·2^n, w·2^n, 3]
}

fn block(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let dense = DENSE
        .iter()
        .fold(x, |h, name| dense_block(g, &p.at(name), c, h));
    let y = scaled_residual(g, dense, x);
    p.label(g, y)
}

fn dense_block(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let layer = |g: &mut Graph, i: usize, inputs: &[Node]| {
        let input = if inputs.len() == 1 {
            inputs[0]
        } else {
            g.concat(inputs, 3)
        };
        let h = p.conv(g, &format!("conv{i}"), input, c.growth, 3);
        g.act(h, LEAKY)
    };
    let x1 = layer(g, 1, &[x]);
    let mut x2 = layer(g, 2, &[x, x1]);
    if c.plus {
        let pointwise = ConvShape {
            bias: false,
            ..ConvShape::same(c.growth, 1)
        };
        let residual = p.conv_with(g, "conv1x1", x, pointwise);
        x2 = g.add(x2, residual);
    }
    let x3 = layer(g, 3, &[x, x1, x2]);
    let mut x4 = layer(g, 4, &[x, x1, x2, x3]);
    if c.plus {
        x4 = g.add(x4, x2);
    }
    let all = g.concat(&[x, x1, x2, x3, x4], 3);
    let h = p.conv(g, "conv5", all, c.width, 3);
    let y = scaled_residual(g, h, x);
    p.label(g, y)
}

/// `x + 0.2 · h`
fn scaled_residual(g: &mut Graph, h: Node, x: Node) -> Node {
    let h = g.affine(h, RESIDUAL_SCALE, 0.0);
    g.add(h, x)
}
