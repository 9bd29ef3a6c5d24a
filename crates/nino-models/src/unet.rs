//! The UNet of Stable Diffusion 1.x, 2.x, XL and their inpainting and distilled variants.
//! Behavior: CompVis latent-diffusion `openaimodel.py`, Stability's `generative-models`.
//! Latent `[b, h, w, c]`, timesteps `[b]`, context `[b, n, d]` → prediction `[b, h, w, 4]`.

mod block;
mod config;
mod control;
mod freeu;
mod hypertile;
mod shrink;
mod sizes;
mod union;

pub use config::{Block, Config, Heads, Middle, Resample};
pub use control::{ControlConfig, Residuals, control};
pub use freeu::FreeU;
pub use hypertile::HyperTile;
pub use shrink::{Resize, Shrink};

use crate::Params;
use block::{Attend, down, resblock, transformer, up};
use nino_graph::{Graph, Node};

/// The inputs of the network.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    /// `[b, h, w, in_channels]`
    pub x: Node,
    /// Timesteps `[b]`, f32.
    pub t: Node,
    /// Text embeddings, `[b, n, context_dim]`.
    pub context: Node,
    /// Vector conditioning `[b, adm_in]`: SDXL's pooled text and sizes. Given exactly when the
    /// config has `adm_in`, except for Lotus.
    pub y: Option<Node>,
    /// Embedded guidance scale `[b, guidance]`. Given exactly when the config has `guidance`.
    pub guidance: Option<Node>,
    /// Whether the self-attention of the middle block gives its values as they are.
    pub perturbed: bool,
}

/// The outputs of the network.
#[derive(Clone, Copy, Debug)]
pub struct Outputs {
    /// The prediction `[b, h, w, out_channels]`.
    pub out: Node,
    /// How much each place is looked at by all others, in the first self-attention of the middle
    /// block and on average over its heads: `[b, n]`, f32. Where it is watched.
    pub attended: Option<Node>,
}

/// The prediction of [`unet_outputs`].
pub fn unet(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    inputs: Inputs,
    residuals: &[Residuals],
) -> Node {
    unet_outputs(g, p, c, inputs, residuals).out
}

/// `p` is at the UNet's prefix (`model.diffusion_model` in a checkpoint). `residuals` are the
/// outputs of `ControlNet`s and T2I adapters.
pub fn unet_outputs(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    inputs: Inputs,
    residuals: &[Residuals],
) -> Outputs {
    let emb = time_embedding(g, p, c, inputs, None);
    let down = residuals.iter().flat_map(|r| r.down.iter().copied());
    let down: Vec<(usize, Node)> = down.collect();
    let Down {
        mut h,
        mut skips,
        attended,
    } = down_path(g, p, c, inputs, emb, &down);
    for residuals in residuals {
        if let Some(middle) = residuals.middle {
            h = added(g, c, h, middle);
        }
        for (skip, &residual) in skips.iter_mut().zip(&residuals.skips) {
            *skip = added(g, c, *skip, residual);
        }
    }
    for (i, block) in c.output_blocks.iter().enumerate() {
        let Some(mut skip) = skips.pop() else { break };
        let p = &p.at(format_args!("output_blocks.{i}"));
        for shrink in &c.shrinks {
            h = shrink.enlarge(g, h, skip);
        }
        for freeu in &c.freeu {
            (h, skip) = freeu.apply(g, c.model_channels, h, skip);
        }
        h = g.concat(&[h, skip], 3);
        h = unet_block(g, p, c, block, h, emb, inputs, skips.last().copied());
        h = p.label(g, h);
    }
    let p = p.at("out");
    h = p.group_norm(g, "0", h, c.groups, block::EPS);
    h = g.silu(h);
    Outputs {
        out: p.conv(g, "2", h, c.out_channels, 3), // [b, h, w, 4]
        attended,
    }
}

/// What the input blocks and the middle block make.
struct Down {
    /// The output of the middle block.
    h: Node,
    skips: Vec<Node>,
    /// See [`Outputs::attended`].
    attended: Option<Node>,
}

/// The input blocks and the middle block.
/// `residuals` are added after the input blocks of their index; the first convolution is block 0.
fn down_path(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    inputs: Inputs,
    emb: Node,
    residuals: &[(usize, Node)],
) -> Down {
    let add_residuals = |g: &mut Graph, i: usize, h: Node| {
        let of_block = residuals.iter().filter(|(block, _)| *block == i);
        of_block.fold(h, |h, &(_, residual)| added(g, c, h, residual))
    };
    let shrunk = |g: &mut Graph, i: usize, after_skip: bool, h: Node| {
        let all = c.shrinks.iter();
        all.fold(h, |h, shrink| shrink.apply(g, i, after_skip, h))
    };
    let mut h = p.conv(g, "input_blocks.0.0", inputs.x, c.model_channels, 3);
    h = add_residuals(g, 0, h);
    let mut skips = vec![h];
    for (i, block) in c.input_blocks.iter().enumerate() {
        let p = &p.at(format_args!("input_blocks.{}", i + 1));
        h = unet_block(g, p, c, block, h, emb, inputs, None);
        h = p.label(g, h);
        h = add_residuals(g, i + 1, h);
        h = shrunk(g, i + 1, false, h);
        skips.push(h);
        h = shrunk(g, i + 1, true, h);
    }
    let mut attended = None;
    if let Some(Middle { depth, second }) = c.middle {
        let p = &p.at("middle_block");
        let width = g.shape(h).last_dim();
        h = resblock(g, &p.at(0), c, h, emb, width);
        if depth > 0 {
            let attend = if inputs.perturbed {
                Attend::ToItself
            } else {
                attend(g, c, inputs, h)
            };
            if c.watched {
                attended = Some(block::attended(g, &p.at(1), c, h));
            }
            h = transformer(g, &p.at(1), c, h, inputs.context, depth, attend);
        }
        if second {
            h = resblock(g, &p.at(1 + depth.min(1)), c, h, emb, width);
        }
        h = p.label(g, h);
    }
    Down { h, skips, attended }
}

/// SiLU of the embedding of timestep, guidance and vector conditioning: the input of every residual
/// block's `emb_layers`. `extra` is added before the SiLU.
fn time_embedding(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    inputs: Inputs,
    extra: Option<Node>,
) -> Node {
    let width = 4 * c.model_channels;
    let mlp = |g: &mut Graph, name: &str, x: Node| {
        let h = p.linear(g, &format!("{name}.0"), x, width);
        let h = g.silu(h);
        p.linear(g, &format!("{name}.2"), h, width)
    };
    let t = g.timestep_embed(inputs.t, c.model_channels);
    let mut t = g.cast(t, g.dtype(inputs.x));
    if let Some(guidance) = inputs.guidance {
        let guidance = p.linear_no_bias(g, "time_embed.cond_proj", guidance, c.model_channels);
        t = g.add(t, guidance);
    }
    let mut emb = mlp(g, "time_embed", t);
    if let Some(extra) = extra {
        emb = g.add(emb, extra);
    }
    let task = c.task().map(|task| {
        let rows = g.shape(inputs.t)[0];
        let task = g.constant("the task of Lotus", [rows, task.len()], &task.repeat(rows));
        g.cast(task, g.dtype(inputs.x))
    });
    if let Some(y) = inputs.y.or(task) {
        let y = mlp(g, "label_emb.0", y);
        emb = g.add(emb, y);
    }
    g.silu(emb) // [b, 4·model_channels]
}

/// An input or output block: residual block, spatial transformer, resampling. `next_skip` is the
/// skip connection of the next output block, which has the size to upsample to.
#[allow(clippy::too_many_arguments)] // the inputs of a block, in their order
fn unet_block(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    block: &Block,
    x: Node,
    emb: Node,
    inputs: Inputs,
    next_skip: Option<Node>,
) -> Node {
    let (mut h, mut i) = (x, 0);
    if let Some(width) = block.res {
        h = resblock(g, &p.at(i), c, h, emb, width);
        i += 1;
    }
    if block.depth > 0 {
        let attend = attend(g, c, inputs, h);
        h = transformer(g, &p.at(i), c, h, inputs.context, block.depth, attend);
        i += 1;
    }
    match block.resample {
        None => h,
        Some(Resample::Down) => down(g, &p.at(i), h),
        Some(Resample::Up) => {
            let size = next_skip.map(|s| [g.shape(s)[1], g.shape(s)[2]]);
            up(g, &p.at(i), h, size)
        }
    }
}

/// What the places of h `[b, h, w, c]` look at in self-attention.
fn attend(g: &Graph, c: &Config, inputs: Inputs, h: Node) -> Attend {
    let [latent, own] = [inputs.x, h].map(|node| [g.shape(node)[1], g.shape(node)[2]]);
    let tiles = c.hypertile.map(|tile| tile.tiles(latent, own[0] * own[1]));
    tiles.flatten().map_or(Attend::Everywhere, Attend::Tiles)
}

/// A residual added to an activation. ComfyUI leaves out those that do not fit one that was made
/// smaller.
fn added(g: &mut Graph, c: &Config, h: Node, residual: Node) -> Node {
    if c.shrinks.is_empty() || g.shape(h) == g.shape(residual) {
        g.add(h, residual)
    } else {
        h
    }
}
