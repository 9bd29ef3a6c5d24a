//! DiffSynth-Studio's `ControlNet`s of Qwen-Image: two layers behind every block of the model,
//! which see the encoded picture beside the block's output. Behaviour: ComfyUI's
//! `QwenImageBlockWiseControlNet`; names are the authors'. Hint `[b, h, w, c]`, tokens `[b, n, d]`
//! → the same.

use super::{EPS, PATCH};
use crate::denoiser::scaled;
use crate::flux::patches;
use crate::{Find, Params};
use nino_graph::{Act, Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockwiseConfig {
    /// Channels of what it sees: the encoded picture's, and one for a mask where it paints.
    pub hint: usize,
    /// Width of a token.
    pub dim: usize,
    pub n_layers: usize,
}

/// One of a graph.
pub struct Blockwise<'a> {
    p: Params<'a>,
    /// What it made of the picture, `[b, n_img, d]`.
    seen: Node,
    /// What its changes are multiplied by, `[b]` in f32.
    strength: Node,
    config: &'a BlockwiseConfig,
}

impl BlockwiseConfig {
    /// `None` when this is no such network.
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
        let (hint, _) = patches(g, hint);
        let seen = p.linear(g, "img_in", hint, config.dim);
        Blockwise {
            p,
            seen,
            strength,
            config,
        }
    }

    /// What is added to the picture's tokens behind block `i`, which gave `x`, `[b, n, d]`.
    pub(super) fn behind(&self, g: &mut Graph, i: usize, x: Node) -> Option<Node> {
        let dim = self.config.dim;
        if i >= self.config.n_layers {
            return None;
        }
        let p = &self.p.at(format_args!("controlnet_blocks.{i}"));
        let x = g.slice(x, 1, 0, g.shape(self.seen)[1]);
        let [own, seen] = [("x_rms", x), ("y_rms", self.seen)].map(|(name, x)| {
            let weight = p.vector(g, &format!("{name}.weight"), dim);
            g.rms_norm(x, Some(weight), EPS)
        });
        let h = g.add(own, seen);
        let h = p.linear(g, "input_proj", h, dim);
        let h = g.act(h, Act::Gelu);
        let h = p.linear(g, "output_proj", h, dim);
        Some(scaled(g, h, self.strength))
    }

    /// All of it, for a graph of the network alone.
    pub(crate) fn alone(&self, g: &mut Graph) {
        for i in 0..self.config.n_layers {
            self.behind(g, i, self.seen);
        }
    }
}
