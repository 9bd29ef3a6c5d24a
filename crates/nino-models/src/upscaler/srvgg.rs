//! Real-ESRGAN's compact upscaler (SRVGG): convolutions at the size of the image, and a pixel
//! shuffle at the end.
//! Behavior: <https://github.com/xinntao/Real-ESRGAN>, `realesrgan/archs/srvgg_arch.py`.
//! Pixels `[b, h, w, 3]` → `[b, h·scale, w·scale, 3]`.

use super::PieceShape;
use crate::{Find, Params};
use nino_graph::{Act, Graph, Node, UpsampleMode};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub width: usize,
    /// Convolutions between the first and the last.
    pub n_convs: usize,
    pub scale: usize,
}

const MAX_CONVS: usize = 256;

impl Config {
    /// Real-ESRGAN's `general-x4v3`.
    pub fn x4() -> Config {
        Config {
            width: 64,
            n_convs: 32,
            scale: 4,
        }
    }

    #[must_use]
    pub fn with_convs(self, n_convs: usize) -> Config {
        Config { n_convs, ..self }
    }

    #[must_use]
    pub fn with_scale(self, scale: usize) -> Config {
        Config { scale, ..self }
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not such a network, or not one for
    /// RGB images.
    pub fn detect(find: &Find) -> Option<Config> {
        let kernel = |i: usize| match *find(&format!("body.{}.weight", 2 * i))?.0 {
            [cout, cin, 3, 3] => Some((cout, cin)),
            _ => None,
        };
        let (width, 3) = kernel(0)? else {
            return None;
        };
        let n_all = (0..MAX_CONVS).take_while(|&i| kernel(i).is_some()).count();
        let n_convs = n_all.checked_sub(2)?;
        let (out, _) = kernel(n_all - 1)?;
        let scale = (out / 3).isqrt();
        (3 * scale * scale == out && scale > 0).then_some(Config {
            width,
            n_convs,
            scale,
        })
    }

    pub(super) fn shape(&self) -> PieceShape {
        PieceShape {
            channels: 3,
            out_channels: 3,
            scale: self.scale,
            reach: self.n_convs + 2,
        }
    }
}

/// The upscaled image: the output of the convolutions plus the nearest-neighbor upsampling.
pub fn network(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let body = p.at("body");
    let mut h = x;
    for i in 0..=c.n_convs {
        h = body.conv(g, &(2 * i).to_string(), h, c.width, 3);
        h = prelu(g, &body.at(2 * i + 1), h);
    }
    let last = 2 * (c.n_convs + 1);
    h = body.conv(g, &last.to_string(), h, 3 * c.scale * c.scale, 3);
    let h = g.pixel_shuffle(h, c.scale); // [b, h·scale, w·scale, 3]
    let pixels = if c.scale == 1 {
        x
    } else {
        g.upsample(x, c.scale, UpsampleMode::Nearest)
    };
    g.add(h, pixels)
}

/// PReLU: negative values times a learned slope per channel.
fn prelu(g: &mut Graph, p: &Params, x: Node) -> Node {
    let slopes = p.vector(g, "weight", g.shape(x).last_dim());
    let positive = g.act(x, Act::Relu);
    let negative = g.sub(x, positive);
    let negative = g.mul(negative, slopes);
    let y = g.add(positive, negative);
    p.label(g, y)
}
