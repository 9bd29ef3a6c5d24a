//! The `ControlNet` of Stable Diffusion 1.x, 2.x and XL: a copy of the UNet's input and middle
//! blocks with a hint image as an additional input. A zero convolution after each block gives a
//! residual for the UNet's skip connections.
//! Behavior: <https://github.com/lllyasviel/ControlNet> `cldm.py`, whose names are canonical.

use super::{Config, Down, Inputs, down_path, time_embedding, union};
use crate::control::{hint_encoder, hint_widths};
use crate::{Find, Params};
use nino_graph::{Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControlConfig {
    /// The blocks; without output blocks.
    pub unet: Config,
    /// Channels of the hint image.
    pub hint_channels: usize,
    /// Output channels of the convolutions of `input_hint_block`.
    pub hint_widths: Vec<usize>,
    /// Number of control types of a union model (xinsir's for SDXL); 0 for others.
    pub modes: usize,
}

/// Outputs of a `ControlNet` or a T2I adapter, which are added to a UNet's activations.
#[derive(Clone, Debug)]
pub struct Residuals {
    /// Residuals for input blocks, each with the block's index; the first convolution is block 0.
    pub down: Vec<(usize, Node)>,
    /// Residuals for the skip connections: one for the first convolution and one for every input
    /// block; or none.
    pub skips: Vec<Node>,
    /// Residual for the output of the middle block.
    pub middle: Option<Node>,
}

impl Residuals {
    /// Applies `f` to every residual.
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

/// Residuals for a UNet with the same inputs. The hint is an image at eight times the latent's
/// size, `[b, 8h, 8w, hint_channels]`; `mode` is the control type of a union model.
pub fn control(
    g: &mut Graph,
    p: &Params,
    c: &ControlConfig,
    inputs: Inputs,
    hint: Node,
    mode: Option<usize>,
) -> Residuals {
    let mode = mode.filter(|&mode| mode < c.modes);
    let mut hint = hint_encoder(g, p, &c.hint_widths, hint);
    if let Some(mode) = mode {
        hint = union::fuse_control_type(g, p, c, hint, mode);
    }
    let control_type = (c.modes > 0).then(|| union::control_embedding(g, p, c, inputs.x, mode));
    let emb = time_embedding(g, p, &c.unet, inputs, control_type);
    let Down { h, skips, .. } = down_path(g, p, &c.unet, inputs, emb, &[(0, hint)]);
    let zero_conv = |g: &mut Graph, name: &str, x: Node| {
        let width = g.shape(x).last_dim();
        p.conv(g, name, x, width, 1)
    };
    let skips = skips.into_iter().enumerate();
    Residuals {
        down: Vec::new(),
        skips: skips
            .map(|(i, skip)| zero_conv(g, &format!("zero_convs.{i}.0"), skip))
            .collect(),
        middle: Some(zero_conv(g, "middle_block_out.0", h)),
    }
}
