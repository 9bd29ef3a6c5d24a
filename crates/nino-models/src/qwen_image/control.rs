//! `ControlNet`s of Qwen-Image by InstantX: a few of its blocks that see the encoded picture beside
//! the latent, with a linear layer beside each whose output is added to the picture's tokens in the
//! large model. Behaviour: ComfyUI's `QwenImageControlNetModel`; names are diffusers'. Latent
//! `[b, h, w, 16]`, hint `[b, h, w, c]` → values of the picture's tokens `[b, n_img, d]`.

use super::block::{self, Told, block};
use super::{Config, Inputs, embedded, positions, text};
use crate::flux::patches;
use crate::mods::Mods;
use crate::{Find, Params};
use nino_graph::{Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControlConfig {
    pub blocks: Config,
    /// Channels of what it sees: the encoded picture's, and one for a mask where it paints.
    pub hint: usize,
}

/// What is added to the picture's tokens behind each block of the network, `[b, n_img, d]`.
#[derive(Clone, Debug)]
pub struct Residuals(Vec<Node>);

/// Blocks of the published model: residuals are spread over so many, however many a model has.
const BLOCKS: usize = 60;

impl ControlConfig {
    /// `None` when this is no `ControlNet` of Qwen-Image.
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

    /// Whether the last channel of what it sees says what stays of a picture.
    pub fn is_masked(&self) -> bool {
        self.hint == self.blocks.channels + 1
    }
}

impl Residuals {
    /// Behind block `i` of the large model.
    pub(super) fn behind(&self, i: usize) -> Option<Node> {
        let n = Some(self.0.len()).filter(|&n| n > 0 && i < BLOCKS)?;
        self.0.get(i / BLOCKS.div_ceil(n)).copied()
    }

    /// The same with each changed.
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
    let (x, size) = patches(g, inputs.x);
    let (hint, _) = patches(g, hint);
    let x = p.linear(g, "img_in", x, blocks.dim);
    let hint = p.linear(g, "controlnet_x_embedder", hint, blocks.dim);
    let mut img = g.add(x, hint);
    let mut txt = text(g, p, blocks, inputs.context);
    let t = embedded(g, p, blocks, inputs.t, g.dtype(inputs.x));
    let table = positions::table(g, blocks, g.shape(inputs.context)[1], &[size]);
    let mut residuals = Vec::new();
    for i in 0..blocks.n_layers {
        let place = &p.at(format_args!("transformer_blocks.{i}"));
        let mods = ["img", "txt"].map(|stream| Mods {
            noisy: block::mods(g, place, blocks, stream, t),
            clean: None,
            n_noisy: size[0] * size[1],
        });
        (img, txt) = block(g, place, blocks, [img, txt], Told { mods, table });
        residuals.push(p.linear(g, &format!("controlnet_blocks.{i}"), img, blocks.dim));
    }
    Residuals(residuals)
}
