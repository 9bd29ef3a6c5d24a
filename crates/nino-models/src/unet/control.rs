//! The `ControlNet` of Stable Diffusion 1.x, 2.x and XL: a copy of the UNet's way down that sees a
//! picture, with a layer beside each block whose output is added to the UNet's.
//! Behaviour: <https://github.com/lllyasviel/ControlNet> `cldm.py`, whose names are canonical.

use super::{Config, Inputs, embedding, way_down};
use crate::control::{hint_layers, hint_widths};
use crate::{Find, Params};
use nino_graph::{Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControlConfig {
    /// Without a way up.
    pub unet: Config,
    /// Channels of the picture.
    pub hint_channels: usize,
    /// Outputs of the convolutions that the picture goes through.
    pub hint_widths: Vec<usize>,
}

/// What is added to a UNet's values.
#[derive(Clone, Debug)]
pub struct Residuals {
    /// One for the first convolution and one for every block on the way down.
    pub skips: Vec<Node>,
    pub middle: Node,
}

impl Residuals {
    /// The same with each changed.
    #[must_use]
    pub(crate) fn map(&self, mut f: impl FnMut(Node) -> Node) -> Residuals {
        Residuals {
            skips: self.skips.iter().map(|&n| f(n)).collect(),
            middle: f(self.middle),
        }
    }
}

impl ControlConfig {
    /// `None` when this is no `ControlNet` of a UNet.
    pub fn detect(find: &Find) -> Option<ControlConfig> {
        let (first, _) = find("input_hint_block.0.weight")?;
        find("zero_convs.0.0.weight")?;
        Some(ControlConfig {
            unet: Config::blocks(find, 0)?,
            hint_channels: *first.get(1)?,
            hint_widths: hint_widths(find),
        })
    }
}

/// A picture of eight times the latent's sides, `[b, 8h, 8w, hint_channels]`, to what is added to a
/// UNet that sees the same inputs.
pub fn control(
    g: &mut Graph,
    p: &Params,
    c: &ControlConfig,
    inputs: Inputs,
    hint: Node,
) -> Residuals {
    let seen = hint_layers(g, p, &c.hint_widths, hint);
    let emb = embedding(g, p, &c.unet, inputs);
    let (h, skips) = way_down(g, p, &c.unet, inputs, emb, Some(seen));
    let beside = |g: &mut Graph, name: &str, x: Node| {
        let width = g.shape(x).last_dim();
        p.conv(g, name, x, width, 1)
    };
    let skips = skips.into_iter().enumerate();
    Residuals {
        skips: skips
            .map(|(i, skip)| beside(g, &format!("zero_convs.{i}.0"), skip))
            .collect(),
        middle: beside(g, "middle_block_out.0", h),
    }
}
