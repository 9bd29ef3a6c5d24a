//! `ControlNet`s of Flux.1: a few of its blocks, with a hint image as an additional input. A linear
//! layer after each block gives a residual for the image tokens of the base model.
//!
//! - XLabs: <https://github.com/XLabs-AI/x-flux> `controlnet.py`; the hint is an image.
//! - InstantX and Shakker, and their union models: diffusers' `FluxControlNetModel`; the hint is a
//!   latent. Union models have an embedding of the control mode, which becomes a text token.

use super::block::{AttentionArgs, double_block, single_block};
use super::modulation::Modulations;
use super::positions::{self, Grid};
use super::{Config, Inputs, patchify};
use crate::control::{hint_encoder, hint_widths};
use crate::{Find, Params};
use nino_graph::{Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControlConfig {
    pub blocks: Config,
    pub hint: Hint,
    /// Number of control modes of a union model; 0 for others.
    pub modes: usize,
}

/// The kind of hint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// An image in −1..1, at eight times the latent's size; output channels of the convolutions
    /// that encode it.
    Pixels(Vec<usize>),
    /// A latent of this many channels.
    Latent(usize),
}

/// Outputs of a `ControlNet`: residuals for the image tokens, `[b, n_img, d]` each.
#[derive(Clone, Debug)]
pub struct Residuals {
    doubles: Vec<Node>,
    singles: Vec<Node>,
    assignment: Assignment,
}

/// Which residual a block of the base model gets.
#[derive(Clone, Copy, Debug)]
enum Assignment {
    /// Residual `i % n` for block `i`.
    Cyclic,
    /// Each residual for an interval of consecutive blocks.
    Interval,
}

/// Double and single stream blocks of Flux.1 dev. Residuals are assigned to this many blocks, even
/// where the base model has fewer or more.
const BLOCKS: [usize; 2] = [19, 38];

impl ControlConfig {
    /// `None` when this is no `ControlNet` of Flux.
    pub fn detect(find: &Find) -> Option<ControlConfig> {
        let rows = |name: &str| find(name).map(|(shape, _)| shape[0]);
        let columns = |name: &str| find(name).and_then(|(shape, _)| shape.get(1).copied());
        rows("controlnet_blocks.0.weight")?;
        let in_channels = columns("img_in.weight")? / 4;
        let widths = hint_widths(find);
        Some(ControlConfig {
            blocks: Config::blocks(find, in_channels)?,
            hint: if widths.is_empty() {
                Hint::Latent(columns("pos_embed_input.weight")? / 4)
            } else {
                Hint::Pixels(widths)
            },
            modes: rows("controlnet_mode_embedder.weight").unwrap_or(0),
        })
    }
}

impl Residuals {
    /// For double block `i` of the base model.
    pub(super) fn double(&self, i: usize) -> Option<Node> {
        self.pick(&self.doubles, i, BLOCKS[0])
    }

    /// For single block `i`.
    pub(super) fn single(&self, i: usize) -> Option<Node> {
        self.pick(&self.singles, i, BLOCKS[1])
    }

    fn pick(&self, all: &[Node], i: usize, blocks: usize) -> Option<Node> {
        let n = Some(all.len()).filter(|&n| n > 0 && i < blocks)?;
        match self.assignment {
            Assignment::Cyclic => all.get(i % n).copied(),
            Assignment::Interval => all.get(i / blocks.div_ceil(n)).copied(),
        }
    }

    /// Applies `f` to every residual.
    #[must_use]
    pub(crate) fn map(&self, mut f: impl FnMut(Node) -> Node) -> Residuals {
        Residuals {
            doubles: self.doubles.iter().map(|&n| f(n)).collect(),
            singles: self.singles.iter().map(|&n| f(n)).collect(),
            assignment: self.assignment,
        }
    }
}

/// `hint` is of the kind [`ControlConfig::hint`]; `mode` is the control mode of a union model.
pub fn control(
    g: &mut Graph,
    p: &Params,
    c: &ControlConfig,
    inputs: Inputs<'_>,
    hint: Node,
    mode: Option<usize>,
) -> Residuals {
    let blocks = &c.blocks;
    let (x, size) = patchify(g, inputs.x);
    let mut img = p.linear(g, "img_in", x, blocks.hidden);
    let hint = match &c.hint {
        Hint::Latent(_) => hint,
        Hint::Pixels(widths) => hint_encoder(g, p, widths, hint),
    };
    let (hint, _) = patchify(g, hint);
    let hint = p.linear(g, "pos_embed_input", hint, blocks.hidden);
    img = g.add(img, hint);
    let mut txt = p.linear(g, "txt_in", inputs.context, blocks.hidden);
    if let Some(mode) = mode.filter(|&mode| mode < c.modes) {
        let b = g.shape(txt)[0];
        let table = p.matrix(g, "controlnet_mode_embedder.weight", c.modes, blocks.hidden);
        let ids = vec![mode as i32; b];
        let ids = g.constant_ids(&format!("mode {mode} of {b} rows"), [b, 1], &ids);
        let token = g.gather(table, ids, g.dtype(txt)); // [b, 1, d]
        txt = g.concat(&[token, txt], 1);
    }
    let n_txt = g.shape(txt)[1];
    let modulations = Modulations::record(g, p, blocks, inputs);
    let args = AttentionArgs {
        query_spans: &[],
        heads: blocks.heads(),
        rope: positions::rope_table(g, blocks, n_txt, &[Grid::target(size)]),
    };
    let mut doubles = Vec::new();
    for i in 0..blocks.depth {
        let p_block = &p.at(format_args!("double_blocks.{i}"));
        let mods = modulations.double(g, p_block, i);
        (img, txt) = double_block(g, p_block, blocks, [img, txt], mods, args);
        doubles.push(p.linear(g, &format!("controlnet_blocks.{i}"), img, blocks.hidden));
    }
    let mut singles = Vec::new();
    let mut x = g.concat(&[txt, img], 1); // [b, n_txt + n_img, d]
    let n = g.shape(x)[1];
    for i in 0..blocks.depth_single {
        let p_block = &p.at(format_args!("single_blocks.{i}"));
        let mods = modulations.single(g, p_block, i);
        x = single_block(g, p_block, blocks, x, mods, args);
        let img = g.slice(x, 1, n_txt, n);
        let name = format!("controlnet_single_blocks.{i}");
        singles.push(p.linear(g, &name, img, blocks.hidden));
    }
    Residuals {
        doubles,
        singles,
        assignment: match c.hint {
            Hint::Pixels(_) => Assignment::Cyclic,
            Hint::Latent(_) => Assignment::Interval,
        },
    }
}
