//! The `ControlNet` of Stable Diffusion 1.x, 2.x and XL: a copy of the UNet's way down that sees a
//! picture, with a layer beside each block whose output is added to the UNet's.
//! Behaviour: <https://github.com/lllyasviel/ControlNet> `cldm.py`, whose names are canonical.

use super::{Config, Inputs, embedding, union, way_down};
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
    /// Kinds of pictures that a union model knows (xinsir's for SDXL); 0 where it is made for one.
    pub modes: usize,
}

/// What is added to a UNet's values.
#[derive(Clone, Debug)]
pub struct Residuals {
    /// What is added on the way down, and the block behind which; the first convolution is 0.
    pub down: Vec<(usize, Node)>,
    /// What is added to the values that the way up gets from the way down: one for the first
    /// convolution and one for every block; or none.
    pub skips: Vec<Node>,
    pub middle: Option<Node>,
}

impl Residuals {
    /// The same with each changed.
    #[must_use]
    pub(crate) fn map(&self, mut f: impl FnMut(Node) -> Node) -> Residuals {
        Residuals {
            down: self.down.iter().map(|&(i, n)| (i, f(n))).collect(),
            skips: self.skips.iter().map(|&n| f(n)).collect(),
            middle: self.middle.map(f),
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
            modes: find("task_embedding").map_or(0, |(shape, _)| shape[0]),
        })
    }
}

/// A picture of eight times the latent's sides, `[b, 8h, 8w, hint_channels]`, to what is added to a
/// UNet that sees the same inputs. `mode` is the kind of picture that a union model is told.
pub fn control(
    g: &mut Graph,
    p: &Params,
    c: &ControlConfig,
    inputs: Inputs,
    hint: Node,
    mode: Option<usize>,
) -> Residuals {
    let mode = mode.filter(|&mode| mode < c.modes);
    let mut seen = hint_layers(g, p, &c.hint_widths, hint);
    if let Some(mode) = mode {
        seen = union::seen(g, p, c, seen, mode);
    }
    let told = (c.modes > 0).then(|| union::told(g, p, c, inputs.x, mode));
    let emb = embedding(g, p, &c.unet, inputs, told);
    let (h, skips) = way_down(g, p, &c.unet, inputs, emb, &[(0, seen)]);
    let beside = |g: &mut Graph, name: &str, x: Node| {
        let width = g.shape(x).last_dim();
        p.conv(g, name, x, width, 1)
    };
    let skips = skips.into_iter().enumerate();
    Residuals {
        down: Vec::new(),
        skips: skips
            .map(|(i, skip)| beside(g, &format!("zero_convs.{i}.0"), skip))
            .collect(),
        middle: Some(beside(g, "middle_block_out.0", h)),
    }
}
