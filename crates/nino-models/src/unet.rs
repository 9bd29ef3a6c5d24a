//! The UNet of Stable Diffusion 1.x, 2.x, XL and their inpainting and distilled kin.
//! Behaviour: CompVis latent-diffusion `openaimodel.py`, Stability's `generative-models`.
//! Latent `[b, h, w, c]`, timesteps `[b]`, context `[b, n, d]` → prediction `[b, h, w, 4]`.

mod block;
mod config;
mod control;
mod sizes;
mod union;

pub use config::{Block, Config, Heads, Middle, Resample};
pub use control::{ControlConfig, Residuals, control};

use crate::Params;
use block::{down, resblock, transformer, up};
use nino_graph::{Graph, Node};

/// What the network sees.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    /// `[b, h, w, in_channels]`
    pub x: Node,
    /// Timesteps `[b]`, f32.
    pub t: Node,
    /// `[b, n, context_dim]`
    pub context: Node,
    /// `[b, adm_in]`: SDXL's pooled text and sizes. Given exactly when the config has `adm_in`.
    pub y: Option<Node>,
    /// `[b, guidance]`: the embedded guidance. Given exactly when the config has `guidance`.
    pub guidance: Option<Node>,
}

/// `p` is the place of the UNet's names (`model.diffusion_model` in a checkpoint). `added` is what
/// `ControlNet`s add to its values.
pub fn unet(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs, added: &[Residuals]) -> Node {
    let emb = embedding(g, p, c, inputs, None);
    let down = added.iter().flat_map(|added| added.down.iter().copied());
    let down: Vec<(usize, Node)> = down.collect();
    let (mut h, mut skips) = way_down(g, p, c, inputs, emb, &down);
    for added in added {
        if let Some(middle) = added.middle {
            h = g.add(h, middle);
        }
        for (skip, &residual) in skips.iter_mut().zip(&added.skips) {
            *skip = g.add(*skip, residual);
        }
    }
    for (i, block) in c.output_blocks.iter().enumerate() {
        let Some(skip) = skips.pop() else { break };
        let p = &p.at(format_args!("output_blocks.{i}"));
        h = g.concat(&[h, skip], 3);
        h = run(
            g,
            p,
            c,
            block,
            h,
            emb,
            inputs.context,
            skips.last().copied(),
        );
        h = p.label(g, h);
    }
    let p = p.at("out");
    h = p.group_norm(g, "0", h, c.groups, block::EPS);
    h = g.silu(h);
    p.conv(g, "2", h, c.out_channels, 3) // [b, h, w, 4]
}

/// From the latent to the middle: what the middle gives, and what every block before it gave.
/// `added` is added behind blocks, of which the first convolution is 0.
fn way_down(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    inputs: Inputs,
    emb: Node,
    added: &[(usize, Node)],
) -> (Node, Vec<Node>) {
    let steered = |g: &mut Graph, i: usize, h: Node| {
        let here = added.iter().filter(|(at, _)| *at == i);
        here.fold(h, |h, &(_, more)| g.add(h, more))
    };
    let mut h = p.conv(g, "input_blocks.0.0", inputs.x, c.model_channels, 3);
    h = steered(g, 0, h);
    let mut skips = vec![h];
    for (i, block) in c.input_blocks.iter().enumerate() {
        let p = &p.at(format_args!("input_blocks.{}", i + 1));
        h = run(g, p, c, block, h, emb, inputs.context, None);
        h = p.label(g, h);
        h = steered(g, i + 1, h);
        skips.push(h);
    }
    if let Some(Middle { depth, second }) = c.middle {
        let p = &p.at("middle_block");
        let width = g.shape(h).last_dim();
        h = resblock(g, &p.at(0), c, h, emb, width);
        if depth > 0 {
            h = transformer(g, &p.at(1), c, h, inputs.context, depth);
        }
        if second {
            h = resblock(g, &p.at(1 + depth.min(1)), c, h, emb, width);
        }
        h = p.label(g, h);
    }
    (h, skips)
}

/// SiLU of the embedded timestep (and label): every block begins with that. `told` is added to it
/// before.
fn embedding(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs, told: Option<Node>) -> Node {
    let width = 4 * c.model_channels;
    let mlp = |g: &mut Graph, name: &str, x: Node| {
        let h = p.linear(g, &format!("{name}.0"), x, width);
        let h = g.silu(h);
        p.linear(g, &format!("{name}.2"), h, width)
    };
    let t = g.timestep_embed(inputs.t, c.model_channels);
    let mut t = g.cast(t, g.dtype(inputs.x));
    if let Some(guidance) = inputs.guidance {
        let told = p.linear_no_bias(g, "time_embed.cond_proj", guidance, c.model_channels);
        t = g.add(t, told);
    }
    let mut emb = mlp(g, "time_embed", t);
    if let Some(told) = told {
        emb = g.add(emb, told);
    }
    let task = c.task().map(|task| {
        let rows = g.shape(inputs.t)[0];
        let all = g.constant("the task of Lotus", [rows, task.len()], &task.repeat(rows));
        g.cast(all, g.dtype(inputs.x))
    });
    if let Some(y) = inputs.y.or(task) {
        let label = mlp(g, "label_emb.0", y);
        emb = g.add(emb, label);
    }
    g.silu(emb) // [b, 4·model_channels]
}

#[allow(clippy::too_many_arguments)] // the parts of a block, in their order
fn run(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    block: &Block,
    x: Node,
    emb: Node,
    context: Node,
    next_skip: Option<Node>,
) -> Node {
    let (mut h, mut i) = (x, 0);
    if let Some(width) = block.res {
        h = resblock(g, &p.at(i), c, h, emb, width);
        i += 1;
    }
    if block.depth > 0 {
        h = transformer(g, &p.at(i), c, h, context, block.depth);
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
