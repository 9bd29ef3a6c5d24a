//! Flux.1 by Black Forest Labs (dev, schnell, Krea, Kontext, Fill, Canny, Depth, lite) and Chroma.
//! Behavior: <https://github.com/black-forest-labs/flux> `model.py`, whose names are canonical;
//! for Chroma, ComfyUI's `Chroma`.
//! Latent `[b, h, w, c]`, timestep `[b]`, text `[b, n, d]` → velocity `[b, h, w, 16]`.
//!
//! ```text
//!   latent ── patchify ── img_in ─┐                                ┌── final_layer ── velocity
//!                                 ├─ double blocks ─ single blocks ┤
//!   text ──────────────── txt_in ─┘   ▲              ▲             └── (text is dropped)
//!   timestep, guidance, pooled text ─ modulation ────┘
//! ```
//! A double stream block has separate weights for image and text tokens, with attention over both.
//! A single stream block processes them as one sequence, text first.

mod bias;
mod block;
mod config;
mod control;
mod modulation;
mod positions;

pub use config::{Config, Modulation};
pub use control::{ControlConfig, Hint, Residuals, control};
pub use positions::ReferenceMethod;

use crate::Params;
use block::{AttentionArgs, double_block, single_block};
pub(crate) use block::{gated_add, modulated};
use modulation::{DoubleMods, Mod, Modulations};
use nino_graph::{Graph, Node};
use positions::Grid;
use std::ops::Range;

/// Patch size: latent pixels along one side of a token.
const PATCH: usize = 2;

/// The inputs of the network.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// `[b, h, w, in_channels]`
    pub x: Node,
    /// Timesteps (sigmas) from 0 to 1, `[b]`, f32.
    pub t: Node,
    /// Text embeddings, `[b, n, context_dim]`.
    pub context: Node,
    /// Pooled text embedding `[b, vec_in]`. Given exactly when the config has `vec_in`.
    pub y: Option<Node>,
    /// Distilled guidance `[b]`, f32. Only for configs with a guidance embedding; Chroma requires
    /// it.
    pub guidance: Option<Node>,
    /// Reference latents (Kontext), `[b, h, w, out_channels]` each.
    pub references: &'a [Node],
    /// How the reference tokens are positioned.
    pub reference_method: ReferenceMethod,
    pub bias: Option<Bias<'a>>,
    /// Style tokens before the text tokens, `[b, n, hidden]` (USO). Not supported together with
    /// `bias`.
    pub style: Option<Node>,
}

/// Attention bias of spans of text tokens.
#[derive(Clone, Copy, Debug)]
pub struct Bias<'a> {
    /// Added to the attention scores of the text keys, `[b, spans, 1, n_txt]`, f32. Row 0 is for
    /// queries outside all spans, row `i + 1` for queries in span `i`; queries in the last span
    /// have no bias.
    pub values: Node,
    /// Ranges of text tokens, in order, without overlap.
    pub spans: &'a [Range<usize>],
}

/// `p` is at the transformer's prefix (`model.diffusion_model` in a checkpoint). `residuals` are
/// the outputs of `ControlNet`s.
pub fn flux(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    inputs: Inputs<'_>,
    residuals: &[Residuals],
) -> Node {
    let [b, h, w] = [0, 1, 2].map(|axis| g.shape(inputs.x)[axis]);
    let (x, [rows, columns]) = patchify(g, inputs.x);
    let mut tokens = vec![x];
    let mut grids = vec![Grid::target([rows, columns])];
    let sizes = inputs
        .references
        .iter()
        .map(|&r| [g.shape(r)[1], g.shape(r)[2]]);
    let sizes: Vec<[usize; 2]> = sizes.collect();
    let method = inputs.reference_method;
    grids.extend(positions::reference_grids(method, [rows, columns], &sizes));
    tokens.extend(inputs.references.iter().map(|&r| patchify(g, r).0));
    let x = g.concat(&tokens, 1); // [b, n_img, c·2·2]

    let mut img = p.linear(g, "img_in", x, c.hidden);
    let mut txt = p.linear(g, "txt_in", inputs.context, c.hidden);
    if let Some(style) = inputs.style {
        txt = g.concat(&[style, txt], 1);
    }
    let n_txt = g.shape(txt)[1];
    // The modulations of all blocks are recorded first: many small GEMMs that do not depend on each
    // other keep a device busy, one between two blocks would not.
    let modulations = Modulations::record(g, p, c, inputs);
    let double_at = |i: usize| p.at(format_args!("double_blocks.{i}"));
    let single_at = |i: usize| p.at(format_args!("single_blocks.{i}"));
    let doubles = (0..c.depth).map(|i| modulations.double(g, &double_at(i), i));
    let doubles: Vec<DoubleMods> = doubles.collect();
    let singles = (0..c.depth_single).map(|i| modulations.single(g, &single_at(i), i));
    let singles: Vec<Mod> = singles.collect();
    let n_img = g.shape(img)[1];
    let query_spans = match inputs.bias {
        Some(bias) => bias::query_spans(g, bias, [n_txt, n_img]),
        None => Vec::new(),
    };
    let args = AttentionArgs {
        heads: c.heads(),
        rope: positions::rope_table(g, c, n_txt, &grids),
        query_spans: &query_spans,
    };
    for (i, mods) in doubles.into_iter().enumerate() {
        (img, txt) = double_block(g, &double_at(i), c, [img, txt], mods, args);
        for residual in residuals.iter().filter_map(|r| r.double(i)) {
            img = add_at(g, img, 0, residual);
        }
    }
    let mut x = g.concat(&[txt, img], 1); // [b, n_txt + n_img, d]
    for (i, mods) in singles.into_iter().enumerate() {
        x = single_block(g, &single_at(i), c, x, mods, args);
        for residual in residuals.iter().filter_map(|r| r.single(i)) {
            x = add_at(g, x, n_txt, residual);
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

/// Adds `residual` to the tokens of x from `start` on; the others stay as they are.
pub(crate) fn add_at(g: &mut Graph, x: Node, start: usize, residual: Node) -> Node {
    let (n, end) = (g.shape(x)[1], start + g.shape(residual)[1]);
    let part = g.slice(x, 1, start, end);
    let sum = g.add(part, residual);
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

/// Patches of the latent `[b, h, w, c]` as tokens `[b, n, c·2·2]`, and their rows and columns.
pub(crate) fn patchify(g: &mut Graph, x: Node) -> (Node, [usize; 2]) {
    let x = pad_to_patch(g, x, [1, 2]);
    let [b, h, w] = [0, 1, 2].map(|axis| g.shape(x)[axis]);
    let (rows, columns) = (h / PATCH, w / PATCH);
    let x = g.pixel_unshuffle(x, PATCH); // [b, h/2, w/2, c·2·2]
    let width = g.shape(x).last_dim();
    (g.reshape(x, [b, rows * columns, width]), [rows, columns])
}

/// Pads a latent of odd size along one of these axes with its first row or column (circular
/// padding, as ComfyUI's `pad_to_patch_size`).
pub(crate) fn pad_to_patch(g: &mut Graph, mut x: Node, axes: [usize; 2]) -> Node {
    for axis in axes {
        if !g.shape(x)[axis].is_multiple_of(PATCH) {
            let first = g.slice(x, axis, 0, 1);
            x = g.concat(&[x, first], axis);
        }
    }
    x
}
