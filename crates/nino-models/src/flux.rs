//! Flux.1 by Black Forest Labs (dev, schnell, Krea, Kontext, Fill, Canny, Depth, lite) and Chroma.
//! Behaviour: <https://github.com/black-forest-labs/flux> `model.py`, whose names are canonical;
//! Chroma's is ComfyUI's.
//! Latent `[b, h, w, c]`, noise level `[b]`, text `[b, n, d]` → velocity `[b, h, w, 16]`.
//!
//! ```text
//!   latent ── patches ── img_in ──┐                                ┌── final_layer ── velocity
//!                                 ├─ double blocks ─ single blocks ┤
//!   text ──────────────── txt_in ─┘   ▲              ▲             └── (text is dropped)
//!   noise level, guidance, pooled ── modulation ─────┘
//! ```
//! A double block has weights of its own for picture and text, and attends over both; a single
//! block treats them as one sequence, text first.

mod bias;
mod block;
mod config;
mod control;
mod modulation;
mod positions;

pub use config::{Config, Modulation};
pub use control::{ControlConfig, Hint, Residuals, control};
pub use positions::Places;

use crate::Params;
use block::{Attended, double_block, single_block};
pub(crate) use block::{gated_add, modulated};
use modulation::{DoubleMods, Mod, Modulations};
use nino_graph::{Graph, Node};
use positions::Grid;
use std::ops::Range;

/// Pixels of the latent along one side of a token.
const PATCH: usize = 2;

/// What the network sees.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// `[b, h, w, in_channels]`
    pub x: Node,
    /// Noise levels from 0 to 1, `[b]`, f32.
    pub t: Node,
    /// The text, `[b, n, context_dim]`.
    pub context: Node,
    /// The text as one vector `[b, vec_in]`. Given exactly when the config has `vec_in`.
    pub y: Option<Node>,
    /// `[b]`, f32. Given only when the config takes guidance; Chroma does not do without.
    pub guidance: Option<Node>,
    /// Latents to look at (Kontext), `[b, h, w, out_channels]` each.
    pub references: &'a [Node],
    /// Where they are.
    pub places: Places,
    pub bias: Option<Bias<'a>>,
    /// Tokens before the text's, `[b, n, hidden]` (USO). They go with no bias.
    pub style: Option<Node>,
}

/// Tokens of the text that attention heeds more or less than others.
#[derive(Clone, Copy, Debug)]
pub struct Bias<'a> {
    /// What is added to the scores of the text's tokens, `[b, stretches, 1, n_txt]`, f32. The first
    /// row is for those who are in no stretch, the second for those in the first stretch, and so
    /// on; those in the last look without bias.
    pub values: Node,
    /// Stretches of the text's tokens, one after the other.
    pub stretches: &'a [Range<usize>],
}

/// `p` is the place of the transformer's names (`model.diffusion_model` in a checkpoint). `added`
/// is what `ControlNet`s add to the picture's tokens.
pub fn flux(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    inputs: Inputs<'_>,
    added: &[Residuals],
) -> Node {
    let [b, h, w] = [0, 1, 2].map(|axis| g.shape(inputs.x)[axis]);
    let (x, [rows, columns]) = patches(g, inputs.x);
    let mut tokens = vec![x];
    let mut grids = vec![Grid::first([rows, columns])];
    let sizes = inputs
        .references
        .iter()
        .map(|&r| [g.shape(r)[1], g.shape(r)[2]]);
    let sizes: Vec<[usize; 2]> = sizes.collect();
    grids.extend(positions::beside(inputs.places, [rows, columns], &sizes));
    tokens.extend(inputs.references.iter().map(|&r| patches(g, r).0));
    let x = g.concat(&tokens, 1); // [b, n_img, c·2·2]

    let mut img = p.linear(g, "img_in", x, c.hidden);
    let mut txt = p.linear(g, "txt_in", inputs.context, c.hidden);
    if let Some(style) = inputs.style {
        txt = g.concat(&[style, txt], 1);
    }
    let n_txt = g.shape(txt)[1];
    // Of all blocks at first: so many small products that do not wait for each other keep a device
    // busy, one at a time would not.
    let modulations = Modulations::record(g, p, c, inputs);
    let double_at = |i: usize| p.at(format_args!("double_blocks.{i}"));
    let single_at = |i: usize| p.at(format_args!("single_blocks.{i}"));
    let doubles = (0..c.depth).map(|i| modulations.double(g, &double_at(i), i));
    let doubles: Vec<DoubleMods> = doubles.collect();
    let singles = (0..c.depth_single).map(|i| modulations.single(g, &single_at(i), i));
    let singles: Vec<Mod> = singles.collect();
    let n_img = g.shape(img)[1];
    let parts = match inputs.bias {
        Some(bias) => bias::parts(g, bias, [n_txt, n_img]),
        None => Vec::new(),
    };
    let attended = Attended {
        heads: c.heads(),
        table: positions::table(g, c, n_txt, &grids),
        parts: &parts,
    };
    for (i, mods) in doubles.into_iter().enumerate() {
        (img, txt) = double_block(g, &double_at(i), c, [img, txt], mods, attended);
        for more in added.iter().filter_map(|added| added.double(i)) {
            img = add_at(g, img, 0, more);
        }
    }
    let mut x = g.concat(&[txt, img], 1); // [b, n_txt + n_img, d]
    for (i, mods) in singles.into_iter().enumerate() {
        x = single_block(g, &single_at(i), c, x, mods, attended);
        for more in added.iter().filter_map(|added| added.single(i)) {
            x = add_at(g, x, n_txt, more);
        }
    }
    let img = g.slice(x, 1, n_txt, n_txt + rows * columns);

    let (shift, scale) = modulations.last(g, p);
    let x = modulated(g, img, shift, scale);
    let channels = c.out_channels * PATCH * PATCH;
    let x = p.linear(g, "final_layer.linear", x, channels);
    let x = g.reshape(x, [b, rows, columns, channels]);
    let x = g.pixel_shuffle(x, PATCH); // [b, h, w, 16]
    let x = g.slice(x, 1, 0, h);
    g.slice(x, 2, 0, w)
}

/// Adds `more` to the tokens from `start` on; others stay as they are.
pub(crate) fn add_at(g: &mut Graph, x: Node, start: usize, more: Node) -> Node {
    let (n, end) = (g.shape(x)[1], start + g.shape(more)[1]);
    let part = g.slice(x, 1, start, end);
    let sum = g.add(part, more);
    let mut parts = vec![sum];
    if start > 0 {
        parts.insert(0, g.slice(x, 1, 0, start));
    }
    if end < n {
        parts.push(g.slice(x, 1, end, n));
    }
    match parts[..] {
        [all] => all,
        _ => g.concat(&parts, 1),
    }
}

/// Squares of the latent as tokens `[b, n, c·2·2]`, and how many rows and columns of them.
pub(crate) fn patches(g: &mut Graph, x: Node) -> (Node, [usize; 2]) {
    let x = even(g, x, [1, 2]);
    let [b, h, w] = [0, 1, 2].map(|axis| g.shape(x)[axis]);
    let (rows, columns) = (h / PATCH, w / PATCH);
    let x = g.pixel_unshuffle(x, PATCH); // [b, h/2, w/2, c·2·2]
    let width = g.shape(x).last_dim();
    (g.reshape(x, [b, rows * columns, width]), [rows, columns])
}

/// Latents of an odd size along one of these axes get their first row or column once more at the
/// end.
pub(crate) fn even(g: &mut Graph, mut x: Node, axes: [usize; 2]) -> Node {
    for axis in axes {
        if !g.shape(x)[axis].is_multiple_of(PATCH) {
            let first = g.slice(x, axis, 0, 1);
            x = g.concat(&[x, first], axis);
        }
    }
    x
}
