//! The vision tower of Qwen3-VL. Names are the authors', without `visual.`.
//! Behavior: Hugging Face's `Qwen3VLVisionModel`.
//! Pixels `[1, h, w, 3]` → tokens `[1, h/32 · w/32, d]` for the language model, and deepstack
//! embeddings of the same shape for each of its first layers.
//!
//! ```text
//!   pixels ── patch_embed + pos_embed ── blocks ─── merger ── tokens of the image in the prompt
//!                                          └ after some ─ deepstack_merger_list ─ deepstack
//! ```
//! A merger makes one token of 2×2 patches. All blocks have full attention. The deepstack
//! embeddings are added to the hidden states after the language model's first layers.

use crate::qwen_vision::{MERGE, patch_embed, rope_table};
use crate::{Find, Params};
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node, RopeLayout};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    pub width: usize,
    pub mlp: usize,
    /// Width of the output tokens.
    pub out: usize,
    /// Positions along one side of the table `pos_embed`.
    pub grid_side: usize,
    pub n_layers: usize,
    /// Number of deepstack mergers.
    pub n_deepstack: usize,
}

/// Pixels along one side of a patch.
const PATCH: usize = 16;
/// Pixels along one side of a token.
pub const SIDE: usize = PATCH * MERGE;
/// Number of heads: no tensor has its size.
const HEADS: usize = 16;
const EPS: f32 = 1e-6;

impl Config {
    pub fn published_4b() -> Config {
        Config {
            width: 1024,
            mlp: 4096,
            out: 2560,
            grid_side: 48,
            n_layers: 24,
            n_deepstack: 3,
        }
    }

    pub fn published_8b() -> Config {
        Config {
            width: 1152,
            mlp: 4304,
            out: 4096,
            n_layers: 27,
            ..Config::published_4b()
        }
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not the vision tower.
    pub fn detect(find: &Find) -> Option<Config> {
        let matrix = |name: &str| match *find(name)?.0 {
            [rows, columns] => Some((rows, columns)),
            _ => None,
        };
        let (positions, width) = matrix("pos_embed.weight")?;
        let (mlp, _) = matrix("blocks.0.mlp.linear_fc1.weight")?;
        let (out, _) = matrix("merger.linear_fc2.weight")?;
        let block = |i: usize| find(&format!("blocks.{i}.norm1.weight"));
        let deepstack = |i: usize| find(&format!("deepstack_merger_list.{i}.norm.weight"));
        // RoPE splits the head dimension into quarters.
        let fits = width > 0 && width.is_multiple_of(4 * HEADS) && positions.isqrt() > 0;
        fits.then(|| Config {
            width,
            mlp,
            out,
            grid_side: positions.isqrt(),
            n_layers: (0..256).take_while(|&i| block(i).is_some()).count(),
            n_deepstack: (0..256).take_while(|&i| deepstack(i).is_some()).count(),
        })
    }

    /// Index of the deepstack merger after layer `i`, if there is one
    /// (`deepstack_visual_indexes`): layers 5, 11, 17 of the smaller model, 8, 16, 24 of the
    /// larger.
    fn deepstack_index(&self, i: usize) -> Option<usize> {
        let (first, step) = if self.n_layers > 24 { (8, 8) } else { (5, 6) };
        let index = i.checked_sub(first).filter(|i| i.is_multiple_of(step))? / step;
        (index < self.n_deepstack).then_some(index)
    }
}

/// Embeddings of an image for the language model, `[1, n, d]` each.
pub struct ImageEmbeds {
    /// The input embeddings of the image's tokens.
    pub tokens: Node,
    /// Added to the hidden states of these tokens after the first, second, … layer.
    pub deepstack: Vec<Node>,
}

/// Tokens of an image whose sides are multiples of [`SIDE`], in row-major order.
pub fn encoder(g: &mut Graph, p: &Params, c: &Config, pixels: Node) -> ImageEmbeds {
    let (x, grid) = patch_embed(g, p, pixels, (PATCH, c.width), true);
    let n = grid[0] * grid[1];
    let x = g.reshape(x, [1, n, c.width]);
    let positions = pos_embed(g, p, c, grid);
    let mut x = g.add(x, positions);
    let order: Vec<usize> = (0..n / (MERGE * MERGE)).collect();
    let rope = rope_table(g, c.width / HEADS, grid, &order);
    let mut deepstack = Vec::new();
    for i in 0..c.n_layers {
        x = block(g, &p.at(format_args!("blocks.{i}")), c, x, rope);
        if let Some(index) = c.deepstack_index(i) {
            let p = &p.at(format_args!("deepstack_merger_list.{index}"));
            let merged = merge_patches(g, c, x);
            let merged = p.layer_norm(g, "norm", merged, EPS);
            deepstack.push(merger_mlp(g, p, c, merged));
        }
    }
    let p = &p.at("merger");
    let x = p.layer_norm(g, "norm", x, EPS);
    let x = merge_patches(g, c, x);
    ImageEmbeds {
        tokens: merger_mlp(g, p, c, x),
        deepstack,
    }
}

/// Concatenates 2×2 patches, `[1, n/4, 4·d]`.
fn merge_patches(g: &mut Graph, c: &Config, x: Node) -> Node {
    let (n, unit) = (g.shape(x)[1], MERGE * MERGE);
    g.reshape(x, [1, n / unit, unit * c.width])
}

/// The MLP of a merger: merged patches `[1, n, 4·d]` to tokens `[1, n, out]`.
fn merger_mlp(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let x = p.linear(g, "linear_fc1", x, MERGE * MERGE * c.width);
    let x = g.act(x, Act::Gelu);
    p.linear(g, "linear_fc2", x, c.out)
}

/// Patches `[1, n, d]` to the same.
fn block(g: &mut Graph, p: &Params, c: &Config, x: Node, rope: Node) -> Node {
    let n = g.shape(x)[1];
    let h = p.layer_norm(g, "norm1", x, EPS);
    let p_attn = p.at("attn");
    let qkv = p_attn.linear(g, "qkv", h, 3 * c.width);
    let parts = g.split(qkv, 2, 3);
    let [q, k, v] = [0, 1, 2].map(|i| {
        let x = g.reshape(parts[i], [1, n, HEADS, c.width / HEADS]); // [1, n, heads, hd]
        if i == 2 {
            x
        } else {
            g.rope(x, rope, RopeLayout::Halves)
        }
    });
    let h = g.attention(q, k, v, None);
    let h = g.reshape(h, [1, n, c.width]);
    let h = p_attn.linear(g, "proj", h, c.width);
    let x = g.add(x, h);
    let h = p.layer_norm(g, "norm2", x, EPS);
    let p_mlp = p.at("mlp");
    let h = p_mlp.linear(g, "linear_fc1", h, c.mlp);
    let h = g.act(h, Act::GeluTanh);
    let h = p_mlp.linear(g, "linear_fc2", h, c.width);
    let y = g.add(x, h);
    p.label(g, y)
}

/// Position embeddings of the patches, `[1, n, d]`: the table `pos_embed`, resized to the grid by
/// bilinear interpolation.
fn pos_embed(g: &mut Graph, p: &Params, c: &Config, grid: [usize; 2]) -> Node {
    let table = p.matrix(g, "pos_embed.weight", c.grid_side * c.grid_side, c.width);
    let [rows, columns] = grid.map(|n| linspace(c.grid_side, n));
    let n = grid[0] * grid[1];
    // Row and column of patch `i`: the 2×2 patches of a token are next to each other.
    let patch = |i: usize| {
        let (token, inside) = (i / (MERGE * MERGE), i % (MERGE * MERGE));
        let token_columns = grid[1] / MERGE;
        let y = token / token_columns * MERGE + inside / MERGE;
        let x = token % token_columns * MERGE + inside % MERGE;
        (rows[y], columns[x])
    };
    let mut corner = |down: usize, right: usize| {
        let ids: Vec<i32> = (0..n)
            .map(patch)
            .map(|(y, x)| (y.index(down) * c.grid_side + x.index(right)) as i32)
            .collect();
        let weights: Vec<f32> = (0..n)
            .map(patch)
            .map(|(y, x)| y.weight(down) * x.weight(right))
            .collect();
        let name = format!("corner {down}, {right} of {grid:?} patches");
        let ids = g.constant_ids(&format!("{name}: places"), [1, n], &ids);
        let embeds = g.gather(table, ids, DType::F32);
        let weights = g.constant(&format!("{name}: shares"), [1, n, 1], &weights);
        g.mul(embeds, weights)
    };
    let corners = [corner(0, 0), corner(0, 1), corner(1, 0), corner(1, 1)];
    let [first, rest @ ..] = corners;
    rest.into_iter().fold(first, |sum, next| g.add(sum, next))
}

/// A position between two entries of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Interpolated {
    floor: usize,
    ceil: usize,
    /// Weight of the entry at `ceil`.
    fraction: f32,
}

impl Interpolated {
    /// `corner` is 0 for the entry at `floor`, 1 for that at `ceil`.
    fn index(self, corner: usize) -> usize {
        [self.floor, self.ceil][corner]
    }

    fn weight(self, corner: usize) -> f32 {
        [1.0 - self.fraction, self.fraction][corner]
    }
}

/// `n` positions from the first to the last of `side` entries. Computed in f32 and from both ends,
/// as PyTorch's `linspace`: rounding decides which entry is the floor.
fn linspace(side: usize, n: usize) -> Vec<Interpolated> {
    let last = side.saturating_sub(1);
    let step = last as f32 / n.saturating_sub(1).max(1) as f32;
    let interpolated = |i: usize| {
        let position = if i < n / 2 || n == 1 {
            step * i as f32
        } else {
            last as f32 - step * (n - 1 - i) as f32
        };
        let floor = (position as usize).min(last);
        Interpolated {
            floor,
            ceil: (floor + 1).min(last),
            fraction: position - floor as f32,
        }
    };
    (0..n).map(interpolated).collect()
}

#[cfg(test)]
mod tests {
    use super::{Config, linspace};

    #[test]
    fn position_embeddings_are_interpolated_from_the_first_to_the_last() {
        for n in [2, 3, 12, 48, 100] {
            let positions = linspace(48, n);
            let first = positions[0];
            assert_eq!((first.floor, first.fraction), (0, 0.0), "{n} patches");
            let last = positions[n - 1];
            assert_eq!((last.floor, last.fraction), (47, 0.0), "{n} patches");
        }
        assert_eq!(linspace(48, 1)[0].floor, 0);
        let middle = linspace(48, 3)[1];
        assert_eq!((middle.floor, middle.ceil, middle.fraction), (23, 24, 0.5));
    }

    #[test]
    fn deepstack_mergers_follow_the_published_layers() {
        let layers = |c: Config| -> Vec<usize> {
            let layers = 0..c.n_layers;
            layers.filter(|&i| c.deepstack_index(i).is_some()).collect()
        };
        assert_eq!(layers(Config::published_4b()), [5, 11, 17]);
        assert_eq!(layers(Config::published_8b()), [8, 16, 24]);
    }
}
