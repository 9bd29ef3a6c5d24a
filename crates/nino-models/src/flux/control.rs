//! `ControlNet`s of Flux.1: a few of its blocks that see a picture beside the latent, with a linear
//! layer beside each whose output is added to the picture's tokens in the large model.
//!
//! - XLabs: <https://github.com/XLabs-AI/x-flux> `controlnet.py`; sees the picture's pixels.
//! - InstantX and Shakker, and their union models: diffusers' `FluxControlNetModel`; sees the
//!   encoded picture, and may be told by a token what kind of picture it is.

use super::block::{Attended, double_block, single_block};
use super::modulation::Modulations;
use super::positions::{self, Grid};
use super::{Config, Inputs, patches};
use crate::control::{hint_layers, hint_widths};
use crate::{Find, Params};
use nino_graph::{Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControlConfig {
    pub blocks: Config,
    pub hint: Hint,
    /// Kinds of pictures that it knows by number; 0 where it is made for one.
    pub modes: usize,
}

/// What it sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// Pixels from -1 to 1, of eight times the latent's sides; outputs of the convolutions they go
    /// through.
    Pixels(Vec<usize>),
    /// The encoded picture, of so many channels.
    Latent(usize),
}

/// What is added to the picture's tokens, `[b, n_img, d]` each.
#[derive(Clone, Debug)]
pub struct Residuals {
    doubles: Vec<Node>,
    singles: Vec<Node>,
    spread: Spread,
}

/// Which of the residuals a block of the large model gets.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// They take turns.
    Turns,
    /// Each goes to as many neighbors.
    Neighbors,
}

/// Blocks of Flux.1 dev: residuals are spread over so many, however many the model has.
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
    /// For double block `i` of the large model.
    pub(super) fn double(&self, i: usize) -> Option<Node> {
        self.pick(&self.doubles, i, BLOCKS[0])
    }

    /// For single block `i`.
    pub(super) fn single(&self, i: usize) -> Option<Node> {
        self.pick(&self.singles, i, BLOCKS[1])
    }

    fn pick(&self, all: &[Node], i: usize, blocks: usize) -> Option<Node> {
        let n = Some(all.len()).filter(|&n| n > 0 && i < blocks)?;
        match self.spread {
            Spread::Turns => all.get(i % n).copied(),
            Spread::Neighbors => all.get(i / blocks.div_ceil(n)).copied(),
        }
    }

    /// The same with each changed.
    #[must_use]
    pub(crate) fn map(&self, mut f: impl FnMut(Node) -> Node) -> Residuals {
        Residuals {
            doubles: self.doubles.iter().map(|&n| f(n)).collect(),
            singles: self.singles.iter().map(|&n| f(n)).collect(),
            spread: self.spread,
        }
    }
}

/// `hint` is as [`ControlConfig::hint`] says, `mode` the kind of picture that a union model is
/// told.
pub fn control(
    g: &mut Graph,
    p: &Params,
    c: &ControlConfig,
    inputs: Inputs<'_>,
    hint: Node,
    mode: Option<usize>,
) -> Residuals {
    let blocks = &c.blocks;
    let (x, size) = patches(g, inputs.x);
    let mut img = p.linear(g, "img_in", x, blocks.hidden);
    let hint = match &c.hint {
        Hint::Latent(_) => hint,
        Hint::Pixels(widths) => hint_layers(g, p, widths, hint),
    };
    let (hint, _) = patches(g, hint);
    let hint = p.linear(g, "pos_embed_input", hint, blocks.hidden);
    img = g.add(img, hint);
    let mut txt = p.linear(g, "txt_in", inputs.context, blocks.hidden);
    if let Some(mode) = mode.filter(|&mode| mode < c.modes) {
        let b = g.shape(txt)[0];
        let table = p.matrix(g, "controlnet_mode_embedder.weight", c.modes, blocks.hidden);
        let ids = vec![mode as i32; b];
        let ids = g.constant_ids(&format!("mode {mode} of {b} rows"), [b, 1], &ids);
        let told = g.gather(table, ids, g.dtype(txt)); // [b, 1, d]
        txt = g.concat(&[told, txt], 1);
    }
    let n_txt = g.shape(txt)[1];
    let modulations = Modulations::record(g, p, blocks, inputs);
    let attended = Attended {
        parts: &[],
        heads: blocks.heads(),
        table: positions::table(g, blocks, n_txt, &[Grid::first(size)]),
    };
    let mut doubles = Vec::new();
    for i in 0..blocks.depth {
        let place = &p.at(format_args!("double_blocks.{i}"));
        let mods = modulations.double(g, place, i);
        (img, txt) = double_block(g, place, blocks, [img, txt], mods, attended);
        doubles.push(p.linear(g, &format!("controlnet_blocks.{i}"), img, blocks.hidden));
    }
    let mut singles = Vec::new();
    let mut x = g.concat(&[txt, img], 1); // [b, n_txt + n_img, d]
    let n = g.shape(x)[1];
    for i in 0..blocks.depth_single {
        let place = &p.at(format_args!("single_blocks.{i}"));
        let mods = modulations.single(g, place, i);
        x = single_block(g, place, blocks, x, mods, attended);
        let img = g.slice(x, 1, n_txt, n);
        let name = format!("controlnet_single_blocks.{i}");
        singles.push(p.linear(g, &name, img, blocks.hidden));
    }
    Residuals {
        doubles,
        singles,
        spread: match c.hint {
            Hint::Pixels(_) => Spread::Turns,
            Hint::Latent(_) => Spread::Neighbors,
        },
    }
}
