//! T2I adapters of Stable Diffusion 1.x and XL: a few convolutions over a hint image, whose outputs
//! are added to the activations of a UNet's input blocks. They depend neither on the latent nor on
//! the timestep.
//! Behavior: <https://github.com/TencentARC/T2I-Adapter> `adapter.py`, whose names are canonical.
//! Hint `[b, h, w, c]` → residuals of four levels.

use crate::unet::Residuals;
use crate::{ConvShape, Find, Params};
use nino_graph::{Act, Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Channels of the hint image.
    pub channels: usize,
    /// Channels of the levels.
    pub widths: [usize; LEVELS],
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The full adapter: residual blocks, whose `in_conv` and `block2` have this kernel size.
    Full {
        kernel: usize,
        /// Whether downsampling is a convolution instead of an average pool.
        conv_down: bool,
        /// Whether it is SDXL's.
        xl: bool,
    },
    /// The light adapter: residual blocks of reduced width between two 1×1 convolutions.
    Light,
}

const LEVELS: usize = 4;
/// Residual blocks per level.
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
        let unshuffled = if let Some([_, unshuffled, _]) = kernel("conv_in") {
            for (i, width) in widths.iter_mut().enumerate() {
                *width = kernel(&format!("body.{}.block1", BLOCKS * i))?[0];
            }
            let has_conv = |i: usize| kernel(&format!("body.{i}.down_opt.op")).is_some();
            kind = Kind::Full {
                kernel: kernel("body.0.block2")?[2],
                conv_down: (0..BLOCKS * LEVELS).any(has_conv),
                xl: [256, 768].contains(&unshuffled),
            };
            unshuffled
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
        let area = config.unshuffle() * config.unshuffle();
        (unshuffled >= area).then_some(Config {
            channels: unshuffled / area,
            ..config
        })
    }

    /// Factor of the pixel unshuffle before the first layer.
    pub fn unshuffle(&self) -> usize {
        match self.kind {
            Kind::Full { xl: true, .. } => 16,
            Kind::Full { .. } | Kind::Light => 8,
        }
    }

    /// Whether it is an adapter for SDXL.
    pub fn is_xl(&self) -> bool {
        matches!(self.kind, Kind::Full { xl: true, .. })
    }

    /// Whether a level begins with downsampling.
    fn is_downsampled(&self, level: usize) -> bool {
        if self.is_xl() { level == 2 } else { level > 0 }
    }
}

/// Residuals for a UNet.
pub fn adapter(g: &mut Graph, p: &Params, c: &Config, hint: Node) -> Residuals {
    let mut x = g.pixel_unshuffle(hint, c.unshuffle());
    let mut levels = Vec::new();
    if matches!(c.kind, Kind::Full { .. }) {
        x = p.conv(g, "conv_in", x, c.widths[0], 3);
    }
    for (level, &width) in c.widths.iter().enumerate() {
        let down = c.is_downsampled(level);
        x = match c.kind {
            Kind::Light => light(g, &p.at(format_args!("body.{level}")), x, width, down),
            Kind::Full {
                kernel, conv_down, ..
            } => {
                let first = BLOCKS * level;
                for i in first..first + BLOCKS {
                    let p = &p.at(format_args!("body.{i}"));
                    if down && i == first {
                        x = downsample(g, p, x, conv_down);
                    }
                    x = block(g, p, x, width, kernel);
                }
                x
            }
        };
        levels.push(p.at(format_args!("level.{level}")).label(g, x));
    }
    // The input blocks after which the levels are added; the first convolution is block 0.
    let (blocks, middle): (&[usize], _) = if c.is_xl() {
        (&[3, 5, 8], levels.last().copied())
    } else {
        (&[2, 5, 8, 11], None)
    };
    Residuals {
        down: blocks.iter().copied().zip(levels).collect(),
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

fn light(g: &mut Graph, p: &Params, mut x: Node, width: usize, down: bool) -> Node {
    if down {
        x = downsample(g, p, x, false);
    }
    let narrow = width / 4;
    x = p.conv(g, "in_conv", x, narrow, 1);
    for i in 0..LIGHT_BLOCKS {
        x = block(g, &p.at(format_args!("body.{i}")), x, narrow, 3);
    }
    p.conv(g, "out_conv", x, width, 1)
}

/// Downsampling by 2 along both sides, rounded up: by a convolution with stride 2, or by an average
/// pool with odd sides zero-padded at the start.
fn downsample(g: &mut Graph, p: &Params, mut x: Node, conv_down: bool) -> Node {
    if conv_down {
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
