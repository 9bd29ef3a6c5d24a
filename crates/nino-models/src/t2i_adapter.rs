//! T2I adapters of Stable Diffusion 1.x and XL: a few convolutions that see a picture, whose
//! results are added to a UNet's values on its way down. They see neither latent nor noise level.
//! Behaviour: <https://github.com/TencentARC/T2I-Adapter> `adapter.py`, whose names are canonical.
//! Picture `[b, h, w, c]` → values of four sizes.

use crate::unet::Residuals;
use crate::{ConvShape, Find, Params};
use nino_graph::{Act, Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Channels of the picture.
    pub channels: usize,
    /// Width of each of the levels.
    pub widths: [usize; LEVELS],
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Residual blocks, whose outer kernels are `kernel` wide.
    Whole {
        kernel: usize,
        /// Whether sides are halved by a convolution, not by a mean.
        halves: bool,
        /// Whether it is SDXL's.
        xl: bool,
    },
    /// Narrow residual blocks between two layers.
    Light,
}

const LEVELS: usize = 4;
/// Blocks of a level.
const BLOCKS: usize = 2;
const LIGHT_BLOCKS: usize = 4;

impl Config {
    /// `None` when this is no T2I adapter.
    pub fn detect(find: &Find) -> Option<Config> {
        let kernel = |name: &str| match *find(&format!("{name}.weight"))?.0 {
            [rows, columns, high, _] => Some([rows, columns, high]),
            _ => None,
        };
        let (mut widths, mut kind) = ([0; LEVELS], Kind::Light);
        let seen = if let Some([_, seen, _]) = kernel("conv_in") {
            for (i, width) in widths.iter_mut().enumerate() {
                *width = kernel(&format!("body.{}.block1", BLOCKS * i))?[0];
            }
            let halved = |i: usize| kernel(&format!("body.{i}.down_opt.op")).is_some();
            kind = Kind::Whole {
                kernel: kernel("body.0.block2")?[2],
                halves: (0..BLOCKS * LEVELS).any(halved),
                xl: [256, 768].contains(&seen),
            };
            seen
        } else {
            for (i, width) in widths.iter_mut().enumerate() {
                *width = kernel(&format!("body.{i}.out_conv"))?[0];
            }
            kernel("body.0.in_conv")?[1]
        };
        let config = Config {
            channels: 0,
            widths,
            kind,
        };
        let square = config.square() * config.square();
        (seen >= square).then_some(Config {
            channels: seen / square,
            ..config
        })
    }

    /// Pixels of the picture along a side of what the first layer sees.
    pub fn square(&self) -> usize {
        match self.kind {
            Kind::Whole { xl: true, .. } => 16,
            Kind::Whole { .. } | Kind::Light => 8,
        }
    }

    /// Whether it was made for SDXL.
    pub fn is_xl(&self) -> bool {
        matches!(self.kind, Kind::Whole { xl: true, .. })
    }

    /// Whether the sides are halved before a level.
    fn is_halved(&self, level: usize) -> bool {
        if self.is_xl() { level == 2 } else { level > 0 }
    }
}

/// What an adapter that sees a picture adds to a UNet.
pub fn adapter(g: &mut Graph, p: &Params, c: &Config, hint: Node) -> Residuals {
    let mut x = g.pixel_unshuffle(hint, c.square());
    let mut levels = Vec::new();
    if matches!(c.kind, Kind::Whole { .. }) {
        x = p.conv(g, "conv_in", x, c.widths[0], 3);
    }
    for (level, &width) in c.widths.iter().enumerate() {
        let halved = c.is_halved(level);
        x = match c.kind {
            Kind::Light => light(g, &p.at(format_args!("body.{level}")), x, width, halved),
            Kind::Whole { kernel, halves, .. } => {
                let first = BLOCKS * level;
                for i in first..first + BLOCKS {
                    let p = &p.at(format_args!("body.{i}"));
                    if halved && i == first {
                        x = half(g, p, x, halves);
                    }
                    x = block(g, p, x, width, kernel);
                }
                x
            }
        };
        levels.push(p.at(format_args!("level.{level}")).label(g, x));
    }
    // Behind which block on the way down each is added, the first convolution being block 0.
    let (places, middle): (&[usize], _) = if c.is_xl() {
        (&[3, 5, 8], levels.last().copied())
    } else {
        (&[2, 5, 8, 11], None)
    };
    Residuals {
        down: places.iter().copied().zip(levels).collect(),
        skips: Vec::new(),
        middle,
    }
}

fn block(g: &mut Graph, p: &Params, mut x: Node, width: usize, kernel: usize) -> Node {
    if g.shape(x).last_dim() != width {
        x = p.conv(g, "in_conv", x, width, kernel);
    }
    let h = p.conv(g, "block1", x, width, 3);
    let h = g.act(h, Act::Relu);
    let h = p.conv(g, "block2", h, width, kernel);
    g.add(h, x)
}

fn light(g: &mut Graph, p: &Params, mut x: Node, width: usize, halved: bool) -> Node {
    if halved {
        x = half(g, p, x, false);
    }
    let narrow = width / 4;
    x = p.conv(g, "in_conv", x, narrow, 1);
    for i in 0..LIGHT_BLOCKS {
        x = block(g, &p.at(format_args!("body.{i}")), x, narrow, 3);
    }
    p.conv(g, "out_conv", x, width, 1)
}

/// Half of the sides, rounded up: by a convolution, or by the mean of every four pixels, of which
/// those outside of an odd size are zeros before the first.
fn half(g: &mut Graph, p: &Params, mut x: Node, by_layer: bool) -> Node {
    if by_layer {
        let conv = ConvShape {
            stride: [1, 2, 2],
            ..ConvShape::same(g.shape(x).last_dim(), 3)
        };
        return p.conv_with(g, "down_opt.op", x, conv);
    }
    for axis in [1, 2] {
        if !g.shape(x)[axis].is_multiple_of(2) {
            let first = g.slice(x, axis, 0, 1);
            let zero = g.affine(first, 0.0, 0.0);
            x = g.concat(&[zero, x], axis);
        }
    }
    g.avg_pool(x, 2)
}
