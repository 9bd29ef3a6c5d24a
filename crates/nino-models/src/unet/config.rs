//! Hyperparameters of a UNet. The blocks are read from tensor names and shapes, so that distilled
//! variants need no table.

use super::{FreeU, HyperTile, Shrink};
use crate::Find;
use nino_graph::Shape;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    pub in_channels: usize,
    pub out_channels: usize,
    pub model_channels: usize,
    pub context_dim: usize,
    /// Width of the vector conditioning `y` (SDXL: pooled text and sizes).
    pub adm_in: Option<usize>,
    /// Width of the embedded guidance scale, an input of some distilled models (LCM).
    pub guidance: Option<usize>,
    pub heads: Heads,
    /// The input blocks after the first convolution.
    pub input_blocks: Vec<Block>,
    /// `None` without a middle block.
    pub middle: Option<Middle>,
    pub output_blocks: Vec<Block>,
    /// Groups of every norm.
    pub groups: usize,
    /// Options of the user, applied in this order.
    pub freeu: Vec<FreeU>,
    pub hypertile: Option<HyperTile>,
    /// Those that are on in this run.
    pub shrinks: Vec<Shrink>,
    /// Whether the network says how much its places are looked at.
    pub watched: bool,
}

/// How the width of an attention layer is split into heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heads {
    /// SD 1.x: this many heads.
    Count(usize),
    /// SD 2.x and XL: this head dimension.
    Width(usize),
}

/// The middle block: a residual block, `depth` transformer blocks and a second residual block. The
/// last two are missing in some distilled models (SSD-1B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Middle {
    pub depth: usize,
    /// Whether there is a second residual block.
    pub second: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Output channels of its residual block.
    pub res: Option<usize>,
    /// Number of transformer blocks.
    pub depth: usize,
    pub resample: Option<Resample>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resample {
    Down,
    Up,
}

impl Heads {
    pub fn count(self, width: usize) -> usize {
        match self {
            Heads::Count(n) => n,
            Heads::Width(w) => (width / w).max(1),
        }
    }
}

/// Lotus's task vector for depth, of depth and normals.
const TASK: [f32; 2] = [1.0, 0.0];

impl Config {
    /// The constant vector conditioning of Lotus: sines and cosines of its task vector.
    pub(super) fn task(&self) -> Option<[f32; 4]> {
        let [a, b] = TASK;
        let task = [a.sin(), b.sin(), a.cos(), b.cos()];
        self.is_lotus().then_some(task)
    }

    /// Whether it is Lotus, which predicts a depth map of an image in one step.
    pub fn is_lotus(&self) -> bool {
        self.adm_in == Some(2 * TASK.len()) && self.in_channels == self.out_channels
    }

    /// Width of the vector conditioning that it takes as an input.
    pub fn y_dim(&self) -> Option<usize> {
        self.adm_in.filter(|_| !self.is_lotus())
    }

    /// `find` takes names below the UNet's prefix; `None` when there is no UNet.
    pub fn detect(find: &Find) -> Option<Config> {
        let (out, _) = find("out.2.weight")?;
        Config::blocks(find, out[0])
    }

    /// The blocks of a full UNet, or of a `ControlNet`, which has no output blocks.
    pub(super) fn blocks(find: &Find, out_channels: usize) -> Option<Config> {
        let shape = |name: &str| find(name).map(|(s, _)| s);
        let [model_channels, in_channels, 3, 3] = *shape("input_blocks.0.0.weight")? else {
            return None;
        };
        let mut attention: Option<(Shape, usize)> = None;
        let mut depth_at = |prefix: &str| {
            let block = |i: usize| format!("{prefix}.transformer_blocks.{i}");
            let depth = (0..64)
                .take_while(|&i| find(&format!("{}.norm1.weight", block(i))).is_some())
                .count();
            let key = shape(&format!("{}.attn2.to_k.weight", block(0)));
            if let (Some(proj), Some(key)) = (shape(&format!("{prefix}.proj_in.weight")), key) {
                attention = Some((proj, key.last_dim()));
            }
            depth
        };
        let mut blocks = |kind: &str, first: usize| -> Vec<Block> {
            (first..64)
                .map_while(|i| {
                    let at = |j: usize, name: &str| format!("{kind}.{i}.{j}{name}");
                    let res = shape(&at(0, ".in_layers.2.weight")).map(|s| s[0]);
                    let depth = depth_at(&at(1, ""));
                    let is_up = |j| shape(&at(j, ".conv.weight")).is_some();
                    let resample = if shape(&at(0, ".op.weight")).is_some() {
                        Some(Resample::Down)
                    } else {
                        (1..3).any(is_up).then_some(Resample::Up)
                    };
                    (res.is_some() || resample.is_some()).then_some(Block {
                        res,
                        depth,
                        resample,
                    })
                })
                .collect()
        };
        let input_blocks = blocks("input_blocks", 1);
        let output_blocks = blocks("output_blocks", 0);
        let middle = shape("middle_block.0.in_layers.2.weight").map(|_| {
            let depth = depth_at("middle_block.1");
            let second = format!("middle_block.{}.in_layers.2.weight", 1 + depth.min(1));
            let second = shape(&second).is_some();
            Middle { depth, second }
        });
        let (proj_in, context_dim) = attention?;
        Some(Config {
            in_channels,
            out_channels,
            model_channels,
            context_dim,
            adm_in: shape("label_emb.0.0.weight").map(|s| s.last_dim()),
            guidance: shape("time_embed.cond_proj.weight").map(|s| s.last_dim()),
            // The models with a fixed head dimension also project with linear layers, not with
            // convolutions.
            heads: if proj_in.rank() == 2 {
                Heads::Width(64)
            } else {
                Heads::Count(8)
            },
            input_blocks,
            middle,
            output_blocks,
            groups: 32,
            freeu: Vec::new(),
            hypertile: None,
            shrinks: Vec::new(),
            watched: false,
        })
    }
}
