//! The half of Qwen3-VL that sees. Names are the authors', without `visual.`.
//! Behaviour: Hugging Face's `Qwen3VLVisionModel`.
//! Pixels `[1, h, w, 3]` → tokens `[1, h/32 · w/32, d]` for the half that reads, and as many more
//! for each of its first layers.
//!
//! ```text
//!   pixels ── patches + places ── blocks ─────────────── merger ── tokens in the place of words
//!                                   └ after some of them ─ deepstack_merger_list ─ tokens that are
//!                                                          added behind the first layers
//! ```
//! Squares of four patches become one token. All blocks attend over the whole picture.

use crate::qwen_vision::{MERGE, merged_patches, rotations};
use crate::{Find, Params};
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node, RopeLayout};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    pub width: usize,
    pub mlp: usize,
    /// Width of the tokens that it gives.
    pub out: usize,
    /// Places along one side of the table of places.
    pub places: usize,
    pub n_layers: usize,
    /// Layers whose states the first layers of the half that reads are shown.
    pub n_deep: usize,
}

/// Pixels along one side of a patch.
const PATCH: usize = 16;
/// Pixels along one side of a token.
pub const SIDE: usize = PATCH * MERGE;
/// No tensor has their number.
const HEADS: usize = 16;
const EPS: f32 = 1e-6;

impl Config {
    pub fn published_4b() -> Config {
        Config {
            width: 1024,
            mlp: 4096,
            out: 2560,
            places: 48,
            n_layers: 24,
            n_deep: 3,
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

    /// Reads sizes from tensor shapes alone; `None` when this is not the half that sees.
    pub fn detect(find: &Find) -> Option<Config> {
        let matrix = |name: &str| match *find(name)?.0 {
            [rows, columns] => Some((rows, columns)),
            _ => None,
        };
        let (places, width) = matrix("pos_embed.weight")?;
        let (mlp, _) = matrix("blocks.0.mlp.linear_fc1.weight")?;
        let (out, _) = matrix("merger.linear_fc2.weight")?;
        let block = |i: usize| find(&format!("blocks.{i}.norm1.weight"));
        let deep = |i: usize| find(&format!("deepstack_merger_list.{i}.norm.weight"));
        // Heads are cut into quarters by the rotations.
        let fits = width > 0 && width.is_multiple_of(4 * HEADS) && places.isqrt() > 0;
        fits.then(|| Config {
            width,
            mlp,
            out,
            places: places.isqrt(),
            n_layers: (0..256).take_while(|&i| block(i).is_some()).count(),
            n_deep: (0..256).take_while(|&i| deep(i).is_some()).count(),
        })
    }

    /// The place among `n_deep` of what is shown of layer `i`: every sixth layer of the smaller
    /// model is, every eighth of the larger one, counted from the ninth.
    fn deep(&self, i: usize) -> Option<usize> {
        let (first, step) = if self.n_layers > 24 { (8, 8) } else { (5, 6) };
        let at = i.checked_sub(first).filter(|at| at.is_multiple_of(step))? / step;
        (at < self.n_deep).then_some(at)
    }
}

/// What the half that reads gets of a picture, `[1, n, d]` each.
pub struct Seen {
    /// In the place of words.
    pub tokens: Node,
    /// To be added to the states of these tokens behind its first, second, … layer.
    pub deep: Vec<Node>,
}

/// Tokens of a picture whose sides are multiples of [`SIDE`], by rows.
pub fn encoder(g: &mut Graph, p: &Params, c: &Config, pixels: Node) -> Seen {
    let (x, grid) = merged_patches(g, p, pixels, (PATCH, c.width), true);
    let n = grid[0] * grid[1];
    let x = g.reshape(x, [1, n, c.width]);
    let places = placed(g, p, c, grid);
    let mut x = g.add(x, places);
    let order: Vec<usize> = (0..n / (MERGE * MERGE)).collect();
    let table = rotations(g, c.width / HEADS, grid, &order);
    let mut deep = Vec::new();
    for i in 0..c.n_layers {
        x = block(g, &p.at(format_args!("blocks.{i}")), c, x, table);
        if let Some(at) = c.deep(i) {
            let p = &p.at(format_args!("deepstack_merger_list.{at}"));
            let merged = merged(g, c, x);
            let merged = p.layer_norm(g, "norm", merged, EPS);
            deep.push(told(g, p, c, merged));
        }
    }
    let p = &p.at("merger");
    let x = p.layer_norm(g, "norm", x, EPS);
    let x = merged(g, c, x);
    Seen {
        tokens: told(g, p, c, x),
        deep,
    }
}

/// Squares of four patches side by side, `[1, n/4, 4·d]`.
fn merged(g: &mut Graph, c: &Config, x: Node) -> Node {
    let (n, unit) = (g.shape(x)[1], MERGE * MERGE);
    g.reshape(x, [1, n / unit, unit * c.width])
}

/// What the half that reads is told of squares of patches.
fn told(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let x = p.linear(g, "linear_fc1", x, MERGE * MERGE * c.width);
    let x = g.act(x, Act::Gelu);
    p.linear(g, "linear_fc2", x, c.out)
}

/// Patches `[1, n, d]` to the same.
fn block(g: &mut Graph, p: &Params, c: &Config, x: Node, table: Node) -> Node {
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
            g.rope(x, table, RopeLayout::Halves)
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

/// What every patch is told of its place, `[1, n, d]`: the table of places, stretched over the
/// picture and read between its four nearest.
fn placed(g: &mut Graph, p: &Params, c: &Config, grid: [usize; 2]) -> Node {
    let table = p.matrix(g, "pos_embed.weight", c.places * c.places, c.width);
    let [rows, columns] = grid.map(|n| stretched(c.places, n));
    let n = grid[0] * grid[1];
    // Patches in their order: those of a square stand together.
    let patch = |at: usize| {
        let (square, inside) = (at / (MERGE * MERGE), at % (MERGE * MERGE));
        let across = grid[1] / MERGE;
        let y = square / across * MERGE + inside / MERGE;
        (rows[y], columns[square % across * MERGE + inside % MERGE])
    };
    let mut corner = |down: usize, right: usize| {
        let ids: Vec<i32> = (0..n)
            .map(patch)
            .map(|(y, x)| (y.at(down) * c.places + x.at(right)) as i32)
            .collect();
        let shares: Vec<f32> = (0..n)
            .map(patch)
            .map(|(y, x)| y.share(down) * x.share(right))
            .collect();
        let name = format!("corner {down}, {right} of {grid:?} patches");
        let ids = g.constant_ids(&format!("{name}: places"), [1, n], &ids);
        let found = g.gather(table, ids, DType::F32);
        let shares = g.constant(&format!("{name}: shares"), [1, n, 1], &shares);
        g.mul(found, shares)
    };
    let corners = [corner(0, 0), corner(0, 1), corner(1, 0), corner(1, 1)];
    let [first, rest @ ..] = corners;
    rest.into_iter().fold(first, |sum, next| g.add(sum, next))
}

/// A place between two of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Between {
    before: usize,
    after: usize,
    /// How much the one after counts.
    after_share: f32,
}

impl Between {
    fn at(self, corner: usize) -> usize {
        [self.before, self.after][corner]
    }

    fn share(self, corner: usize) -> f32 {
        [1.0 - self.after_share, self.after_share][corner]
    }
}

/// Where `n` patches are along a table of `places`, from its first to its last place. In f32, and
/// counted from both ends, as PyTorch's `linspace` does: which place comes before depends on it.
fn stretched(places: usize, n: usize) -> Vec<Between> {
    let last = places.saturating_sub(1);
    let step = last as f32 / n.saturating_sub(1).max(1) as f32;
    let between = |i: usize| {
        let at = if i < n / 2 || n == 1 {
            step * i as f32
        } else {
            last as f32 - step * (n - 1 - i) as f32
        };
        let before = (at as usize).min(last);
        Between {
            before,
            after: (before + 1).min(last),
            after_share: at - before as f32,
        }
    };
    (0..n).map(between).collect()
}

#[cfg(test)]
mod tests {
    use super::{Config, stretched};

    #[test]
    fn patches_reach_from_the_first_place_to_the_last() {
        for n in [2, 3, 12, 48, 100] {
            let places = stretched(48, n);
            assert_eq!(
                (places[0].before, places[0].after_share),
                (0, 0.0),
                "{n} patches"
            );
            let last = places[n - 1];
            assert_eq!((last.before, last.after_share), (47, 0.0), "{n} patches");
        }
        assert_eq!(stretched(48, 1)[0].before, 0);
        let middle = stretched(48, 3)[1];
        assert_eq!(
            (middle.before, middle.after, middle.after_share),
            (23, 24, 0.5)
        );
    }

    #[test]
    fn the_published_layers_are_shown() {
        let shown = |c: Config| -> Vec<usize> {
            let layers = 0..c.n_layers;
            layers.filter(|&i| c.deep(i).is_some()).collect()
        };
        assert_eq!(shown(Config::published_4b()), [5, 11, 17]);
        assert_eq!(shown(Config::published_8b()), [8, 16, 24]);
    }
}
