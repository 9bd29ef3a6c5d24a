//! ControlNets of Qwen-Image by InstantX: a few of its blocks over the latent plus the hint, each
//! with a linear layer whose output is added to the image tokens of the diffusion model.
//! Behaviour: ComfyUI's `QwenImageControlNetModel`; names are diffusers'.
//! Latent `[b, h, w, 16]`, hint `[b, h, w, c]` → residuals of the image tokens `[b, n_img, d]`.

use super::block::{self, BlockArgs, block};
use super::{Config, Inputs, positions, text, time_embedding};
use crate::flux::patchify;
use crate::mods::Mods;
use crate::{Find, Params};
use nino_graph::{Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControlConfig {
    pub blocks: Config,
    /// Channels of the hint: those of the latent, and one for the mask of an inpainting model.
    pub hint: usize,
}

/// Residuals of the image tokens after each block of the ControlNet, `[b, n_img, d]`.
#[derive(Clone, Debug)]
pub struct Residuals(Vec<Node>);

/// Blocks of the published diffusion model, over which residuals are spread.
const BLOCKS: usize = 60;

impl ControlConfig {
    /// `None` when this is not a ControlNet of Qwen-Image.
    pub fn detect(find: &Find) -> Option<ControlConfig> {
        find("controlnet_blocks.0.weight")?;
        let [_, columns] = *find("controlnet_x_embedder.weight")?.0 else {
            return None;
        };
        Some(ControlConfig {
            blocks: Config::detect(find)?,
            hint: columns / (super::PATCH * super::PATCH),
        })
    }

    /// Whether the hint ends with an inpainting mask.
    pub fn is_masked(&self) -> bool {
        self.hint == self.blocks.channels + 1
    }
}

impl Residuals {
    /// The residual after block `i` of the diffusion model.
    pub(super) fn after(&self, i: usize) -> Option<Node> {
        let n = Some(self.0.len()).filter(|&n| n > 0 && i < BLOCKS)?;
        self.0.get(i / BLOCKS.div_ceil(n)).copied()
    }

    /// `f` of each residual.
    #[must_use]
    pub(crate) fn map(&self, f: impl FnMut(Node) -> Node) -> Residuals {
        Residuals(self.0.iter().copied().map(f).collect())
    }
}

/// `hint` has [`ControlConfig::hint`] channels.
pub fn control(
    g: &mut Graph,
    p: &Params,
    c: &ControlConfig,
    inputs: Inputs<'_>,
    hint: Node,
) -> Residuals {
    let blocks = &c.blocks;
    let (x, size) = patchify(g, inputs.x);
    let (hint, _) = patchify(g, hint);
    let x = p.linear(g, "img_in", x, blocks.dim);
    let hint = p.linear(g, "controlnet_x_embedder", hint, blocks.dim);
    let mut img = g.add(x, hint);
    let mut txt = text(g, p, blocks, inputs.context);
    let temb = time_embedding(g, p, blocks, inputs.t, g.dtype(inputs.x));
    let rope = positions::rope_table(g, blocks, g.shape(inputs.context)[1], &[size]);
    let mut residuals = Vec::new();
    for i in 0..blocks.n_layers {
        let block_params = &p.at(format_args!("transformer_blocks.{i}"));
        let mods = ["img", "txt"].map(|stream| Mods {
            at_t: block::modulation(g, block_params, blocks, stream, temb),
            at_zero: None,
            n_at_t: size[0] * size[1],
        });
        (img, txt) = block(
            g,
            block_params,
            blocks,
            [img, txt],
            BlockArgs { mods, rope },
        );
        residuals.push(p.linear(g, &format!("controlnet_blocks.{i}"), img, blocks.dim));
    }
    Residuals(residuals)
}
