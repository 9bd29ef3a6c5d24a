//! What blocks a UNet has, read from tensor names and shapes: small distilled ones need no table.

use crate::Find;
use nino_graph::Shape;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    pub in_channels: usize,
    pub out_channels: usize,
    pub model_channels: usize,
    pub context_dim: usize,
    /// Size of the label vector (SDXL: pooled text and sizes).
    pub adm_in: Option<usize>,
    /// Size of the embedded guidance that consistency models are told, where they were distilled
    /// so.
    pub guidance: Option<usize>,
    pub heads: Heads,
    /// After the first convolution.
    pub input_blocks: Vec<Block>,
    /// `None` without a middle block.
    pub middle: Option<Middle>,
    pub output_blocks: Vec<Block>,
    /// Groups of every norm.
    pub groups: usize,
}

/// How the width of an attention is cut into heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heads {
    /// SD 1.x: always this many.
    Count(usize),
    /// SD 2.x and XL: each this wide.
    Width(usize),
}

/// A residual block; then, in all but SSD-1B and its kin, `depth` transformer blocks and another
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Middle {
    pub depth: usize,
    pub second: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Width of its residual block.
    pub res: Option<usize>,
    /// Transformer blocks.
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

/// What Lotus is told to make, where its label says it: depth, of depth and normals.
const TASK: [f32; 2] = [1.0, 0.0];

impl Config {
    /// The label of a model that has but one (Lotus): sines and cosines of its task.
    pub(super) fn task(&self) -> Option<[f32; 4]> {
        let [a, b] = TASK;
        let task = [a.sin(), b.sin(), a.cos(), b.cos()];
        self.is_lotus().then_some(task)
    }

    /// Whether it makes a picture of depths out of a picture, in one step.
    pub fn is_lotus(&self) -> bool {
        self.adm_in == Some(2 * TASK.len()) && self.in_channels == self.out_channels
    }

    /// Length of the label that it has to be told.
    pub fn label(&self) -> Option<usize> {
        self.adm_in.filter(|_| !self.is_lotus())
    }

    /// `find` looks below the UNet's place; `None` when there is no UNet.
    pub fn detect(find: &Find) -> Option<Config> {
        let (out, _) = find("out.2.weight")?;
        Config::blocks(find, out[0])
    }

    /// The blocks that are there, of a whole UNet or of its way down alone.
    pub(super) fn blocks(find: &Find, out_channels: usize) -> Option<Config> {
        let shape = |name: &str| find(name).map(|(s, _)| s);
        let [model_channels, in_channels, 3, 3] = *shape("input_blocks.0.0.weight")? else {
            return None;
        };
        let mut attention: Option<(Shape, usize)> = None;
        let mut depth_at = |place: &str| {
            let block = |i: usize| format!("{place}.transformer_blocks.{i}");
            let depth = (0..64)
                .take_while(|&i| find(&format!("{}.norm1.weight", block(i))).is_some())
                .count();
            let key = shape(&format!("{}.attn2.to_k.weight", block(0)));
            if let (Some(proj), Some(key)) = (shape(&format!("{place}.proj_in.weight")), key) {
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
            // The models that cut heads by width also project with linears, not convolutions.
            heads: if proj_in.rank() == 2 {
                Heads::Width(64)
            } else {
                Heads::Count(8)
            },
            input_blocks,
            middle,
            output_blocks,
            groups: 32,
        })
    }
}
