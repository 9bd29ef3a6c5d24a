//! The vision tower of Qwen2.5-VL. Names are the authors', without `visual.`.
//! Behavior: Hugging Face's `Qwen2_5_VisionTransformer`.
//! Pixels `[1, h, w, 3]` → tokens `[1, h/28 · w/28, d]` for the language model.
//!
//! The merger makes one token of 2×2 patches. Most blocks have window attention over 8×8 patches,
//! every eighth full attention. Patches are sorted by window first, and the tokens are sorted back
//! to row-major order at the end.

use crate::{ConvShape, Find, Params};
use nino_graph::{Act, Graph, Node, RopeLayout};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    pub width: usize,
    pub mlp: usize,
    /// Head dimension.
    pub head: usize,
    /// Width of the output tokens.
    pub out: usize,
    pub n_layers: usize,
}

/// Pixels along one side of a patch.
pub const PATCH: usize = 14;
/// Patches along one side of a token (`spatial_merge_size`).
pub const MERGE: usize = 2;
/// Frames of a patch (`temporal_patch_size`). An image is repeated to this many equal frames.
const FRAMES: usize = 2;
/// Tokens along one side of a window.
const WINDOW: usize = 4;
/// Every eighth block has full attention (`fullatt_block_indexes`).
const FULL_ATTENTION: usize = 8;
const EPS: f32 = 1e-6;
const THETA: f64 = 10_000.0;
/// Head dimension: no tensor has its size.
const HEAD: usize = 80;

impl Config {
    pub fn published() -> Config {
        Config {
            width: 1280,
            mlp: 3420,
            head: HEAD,
            out: 3584,
            n_layers: 32,
        }
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not the vision tower.
    pub fn detect(find: &Find) -> Option<Config> {
        let shape = |name: &str| find(name).map(|(s, _)| s);
        let [width] = *shape("merger.ln_q.weight")? else {
            return None;
        };
        let [out, _] = *shape("merger.mlp.2.weight")? else {
            return None;
        };
        let gate = |i: usize| shape(&format!("blocks.{i}.mlp.gate_proj.weight"));
        let [mlp, _] = *gate(0)? else {
            return None;
        };
        let fits = width > 0 && width.is_multiple_of(HEAD);
        fits.then(|| Config {
            width,
            mlp,
            head: HEAD,
            out,
            n_layers: (0..256).take_while(|&i| gate(i).is_some()).count(),
        })
    }
}

/// Tokens of an image whose sides are multiples of two patches, in row-major order.
pub fn encoder(g: &mut Graph, p: &Params, c: &Config, pixels: Node) -> Node {
    let (x, grid) = patch_embed(g, p, pixels, (PATCH, c.width), false);
    let (n, order) = (grid[0] * grid[1], Windows::new(grid));
    let unit = MERGE * MERGE;
    let x = reorder(g, x, "windows", &order.tokens);
    let mut x = g.reshape(x, [1, n, c.width]);
    let rope = rope_table(g, c.head, grid, &order.tokens);
    for i in 0..c.n_layers {
        let windows = if (i + 1).is_multiple_of(FULL_ATTENTION) {
            vec![n]
        } else {
            order.sizes.iter().map(|tokens| tokens * unit).collect()
        };
        x = block(g, &p.at(format_args!("blocks.{i}")), c, x, rope, &windows);
    }
    let x = rms_norm(g, p, c, "merger.ln_q", x);
    let x = g.reshape(x, [1, n / unit, unit * c.width]);
    let x = p.linear(g, "merger.mlp.0", x, unit * c.width);
    let x = g.act(x, Act::Gelu);
    let x = p.linear(g, "merger.mlp.2", x, c.out);
    let x = g.reshape(x, [n / unit, c.out]);
    let x = reorder(g, x, "picture", &order.inverse());
    g.reshape(x, [1, n / unit, c.out])
}

/// Patch embeddings of an image, with the 2×2 patches of a token next to each other:
/// `[n/4, 4·width]`, and the rows and columns of patches. `patch` is the patch size.
pub(crate) fn patch_embed(
    g: &mut Graph,
    p: &Params,
    pixels: Node,
    (patch, width): (usize, usize),
    bias: bool,
) -> (Node, [usize; 2]) {
    let [h, w] = [1, 2].map(|axis| g.shape(pixels)[axis]);
    let grid = [h / patch, w / patch];
    let frame = g.reshape(pixels, [1, 1, h, w, 3]);
    let frames = g.concat(&[frame; FRAMES], 1); // [1, 2, h, w, 3]
    let kernel = [FRAMES, patch, patch];
    let patches = ConvShape {
        cout: width,
        kernel,
        stride: kernel,
        pad: [0; 4],
        bias,
    };
    let x = p.conv_with(g, "patch_embed.proj", frames, patches); // [1, 1, rows, columns, d]
    let tokens = grid.map(|patches| patches / MERGE);
    let x = g.reshape(x, [tokens[0], MERGE, tokens[1], MERGE, width]);
    let x = g.permute(x, &[0, 2, 1, 3, 4]); // [rows/2, columns/2, 2, 2, d]
    let unit = MERGE * MERGE;
    let x = g.reshape(x, [tokens[0] * tokens[1], unit * width]);
    (x, grid)
}

/// 2D RoPE table `[n, hd/2, 2]` of cosine and sine of the patches, token by token in the order
/// `tokens`. Half of the frequencies are for rows, half for columns.
pub(crate) fn rope_table(g: &mut Graph, head: usize, grid: [usize; 2], tokens: &[usize]) -> Node {
    let columns = grid[1] / MERGE;
    let quarter = head / 4;
    let mut values = Vec::new();
    for &token in tokens {
        for patch in 0..MERGE * MERGE {
            let y = token / columns * MERGE + patch / MERGE;
            let x = token % columns * MERGE + patch % MERGE;
            for position in [y, x] {
                for i in 0..quarter {
                    let exponent = (2 * i) as f32 / (head / 2) as f32;
                    let frequency = 1.0 / THETA.powf(f64::from(exponent)) as f32;
                    let angle = f64::from(position as f32 * frequency);
                    values.extend([angle.cos() as f32, angle.sin() as f32]);
                }
            }
        }
    }
    let name = format!("rotations of {grid:?} patches, heads of {head}");
    g.constant(&name, [grid[0] * grid[1], head / 2, 2], &values)
}

fn rms_norm(g: &mut Graph, p: &Params, c: &Config, name: &str, x: Node) -> Node {
    let weight = p.vector(g, &format!("{name}.weight"), c.width);
    g.rms_norm(x, Some(weight), EPS)
}

/// Patches `[1, n, d]` to the same. `windows` are the numbers of patches of consecutive attention
/// windows.
fn block(g: &mut Graph, p: &Params, c: &Config, x: Node, rope: Node, windows: &[usize]) -> Node {
    let h = rms_norm(g, p, c, "norm1", x);
    let h = attention(g, &p.at("attn"), c, h, rope, windows);
    let x = g.add(x, h);
    let h = rms_norm(g, p, c, "norm2", x);
    let p_mlp = p.at("mlp");
    let gate = p_mlp.linear(g, "gate_proj", h, c.mlp);
    let gate = g.silu(gate);
    let h = p_mlp.linear(g, "up_proj", h, c.mlp);
    let h = g.mul(gate, h);
    let h = p_mlp.linear(g, "down_proj", h, c.width);
    let y = g.add(x, h);
    p.label(g, y)
}

fn attention(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    x: Node,
    rope: Node,
    windows: &[usize],
) -> Node {
    let n = g.shape(x)[1];
    let heads = c.width / c.head;
    let qkv = p.linear(g, "qkv", x, 3 * c.width);
    let qkv = g.split(qkv, 2, 3);
    let [q, k, v] = [0, 1, 2].map(|i| {
        let x = g.reshape(qkv[i], [1, n, heads, c.head]); // [1, n, heads, hd]
        if i == 2 {
            x
        } else {
            g.rope(x, rope, RopeLayout::Halves)
        }
    });
    let mut start = 0;
    let mut parts = Vec::new();
    for (count, size) in window_batches(windows) {
        let end = start + count * size;
        let [q, k, v] = [q, k, v].map(|x| {
            let x = g.slice(x, 1, start, end);
            g.reshape(x, [count, size, heads, c.head])
        });
        let y = g.attention(q, k, v, None);
        parts.push(g.reshape(y, [1, count * size, c.width]));
        start = end;
    }
    let y = match parts[..] {
        [all] => all,
        _ => g.concat(&parts, 1),
    };
    p.linear(g, "proj", y, c.width)
}

/// Runs of consecutive windows of equal size, which attention processes as a batch: their number
/// and their size.
fn window_batches(windows: &[usize]) -> Vec<(usize, usize)> {
    let mut batches: Vec<(usize, usize)> = Vec::new();
    for &size in windows {
        match batches.last_mut() {
            Some((count, last)) if *last == size => *count += 1,
            _ => batches.push((1, size)),
        }
    }
    batches
}

/// The order of the tokens by window.
struct Windows {
    /// Row-major index of every token, in this order.
    tokens: Vec<usize>,
    /// Number of tokens of every window.
    sizes: Vec<usize>,
}

impl Windows {
    fn new([rows, columns]: [usize; 2]) -> Windows {
        let (rows, columns) = (rows / MERGE, columns / MERGE);
        let (mut tokens, mut sizes) = (Vec::new(), Vec::new());
        for top in (0..rows).step_by(WINDOW) {
            for left in (0..columns).step_by(WINDOW) {
                let before = tokens.len();
                for y in top..rows.min(top + WINDOW) {
                    let row = left..columns.min(left + WINDOW);
                    tokens.extend(row.map(|x| y * columns + x));
                }
                sizes.push(tokens.len() - before);
            }
        }
        Windows { tokens, sizes }
    }

    /// The inverse permutation.
    fn inverse(&self) -> Vec<usize> {
        let mut inverse = vec![0; self.tokens.len()];
        for (i, &token) in self.tokens.iter().enumerate() {
            inverse[token] = i;
        }
        inverse
    }
}

/// Rows of x `[n, d]` in another order.
fn reorder(g: &mut Graph, x: Node, name: &str, order: &[usize]) -> Node {
    let ids: Vec<i32> = order.iter().map(|&i| i as i32).collect();
    let ids = g.constant_ids(&format!("{name}: {ids:?}"), [1, ids.len()], &ids);
    let dtype = g.dtype(x);
    g.gather(x, ids, dtype)
}
