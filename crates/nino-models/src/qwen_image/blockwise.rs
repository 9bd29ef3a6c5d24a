//! DiffSynth-Studio's ControlNets of Qwen-Image: after every block of the diffusion model, two
//! linear layers over the block's output plus the hint tokens.
//! Behaviour: ComfyUI's `QwenImageBlockWiseControlNet`; names are the authors'.
//! Hint `[b, h, w, c]`, image tokens `[b, n, d]` → residuals of the image tokens.

use super::{EPS, PATCH};
use crate::denoiser::scaled;
use crate::flux::patchify;
use crate::{Find, Params};
use nino_graph::{Act, Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockwiseConfig {
    /// Channels of the hint: those of the latent, and one for the mask of an inpainting model.
    pub hint: usize,
    /// Width of a token.
    pub dim: usize,
    pub n_layers: usize,
}

/// Such a ControlNet in a graph.
pub struct Blockwise<'a> {
    p: Params<'a>,
    /// Hint tokens, `[b, n_img, d]`.
    hint: Node,
    /// Factor of its residuals, `[b]`, f32.
    strength: Node,
    config: &'a BlockwiseConfig,
}

impl BlockwiseConfig {
    /// `None` when this is not such a ControlNet.
    pub fn detect(find: &Find) -> Option<BlockwiseConfig> {
        let there = |i: usize| find(&format!("controlnet_blocks.{i}.y_rms.weight")).is_some();
        let [dim, columns] = *find("img_in.weight")?.0 else {
            return None;
        };
        let n_layers = (0..256).take_while(|&i| there(i)).count();
        (n_layers > 0).then_some(BlockwiseConfig {
            hint: columns / (PATCH * PATCH),
            dim,
            n_layers,
        })
    }
}

impl<'a> Blockwise<'a> {
    /// `hint` has [`BlockwiseConfig::hint`] channels.
    pub fn begin(
        g: &mut Graph,
        p: Params<'a>,
        config: &'a BlockwiseConfig,
        hint: Node,
        strength: Node,
    ) -> Blockwise<'a> {
        let (hint, _) = patchify(g, hint);
        let hint = p.linear(g, "img_in", hint, config.dim);
        Blockwise {
            p,
            hint,
            strength,
            config,
        }
    }

    /// The residual of the image tokens after block `i`, whose output is `x`, `[b, n, d]`.
    pub(super) fn after(&self, g: &mut Graph, i: usize, x: Node) -> Option<Node> {
        let dim = self.config.dim;
        if i >= self.config.n_layers {
            return None;
        }
        let p = &self.p.at(format_args!("controlnet_blocks.{i}"));
        let x = g.slice(x, 1, 0, g.shape(self.hint)[1]);
        let [x, hint] = [("x_rms", x), ("y_rms", self.hint)].map(|(name, x)| {
            let weight = p.vector(g, &format!("{name}.weight"), dim);
            g.rms_norm(x, Some(weight), EPS)
        });
        let h = g.add(x, hint);
        let h = p.linear(g, "input_proj", h, dim);
        let h = g.act(h, Act::Gelu);
        let h = p.linear(g, "output_proj", h, dim);
        Some(scaled(g, h, self.strength))
    }

    /// Records all its layers, for a graph of the ControlNet alone.
    pub(crate) fn alone(&self, g: &mut Graph) {
        for i in 0..self.config.n_layers {
            self.after(g, i, self.hint);
        }
    }
}
