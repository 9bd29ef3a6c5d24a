//! The half of Qwen2.5-VL that sees. Names are the authors', without `visual.`.
//! Behaviour: Hugging Face's `Qwen2_5_VisionTransformer`.
//! Pixels `[1, h, w, 3]` → tokens `[1, h/28 · w/28, d]` for the half that reads.
//!
//! Squares of four patches become one token. Most blocks attend within windows of 8×8 patches,
//! every eighth over the whole picture; patches of a window stand together, and the tokens return
//! to the order of the picture at the end.

use crate::{ConvShape, Find, Params};
use nino_graph::{Act, Graph, Node, RopeLayout};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    pub width: usize,
    pub mlp: usize,
    /// Width of one head.
    pub head: usize,
    /// Width of the tokens that it gives.
    pub out: usize,
    pub n_layers: usize,
}

/// Pixels along one side of a patch.
pub const PATCH: usize = 14;
/// Patches along one side of a token.
pub const MERGE: usize = 2;
/// A picture counts as so many equal frames.
const FRAMES: usize = 2;
/// Tokens along one side of a window.
const WINDOW: usize = 4;
/// Every so manyth block attends over the whole picture.
const WHOLE: usize = 8;
const EPS: f32 = 1e-6;
const THETA: f64 = 10_000.0;
/// Width of one head: no tensor has its size.
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

    /// Reads sizes from tensor shapes alone; `None` when this is not the half that sees.
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

/// Tokens of a picture whose sides are multiples of two patches, by rows.
pub fn encoder(g: &mut Graph, p: &Params, c: &Config, pixels: Node) -> Node {
    let (x, grid) = merged_patches(g, p, pixels, (PATCH, c.width), false);
    let (n, order) = (grid[0] * grid[1], Windows::of(grid));
    let unit = MERGE * MERGE;
    let x = Windows::sorted(g, x, "windows", &order.tokens);
    let mut x = g.reshape(x, [1, n, c.width]);
    let table = rotations(g, c.head, grid, &order.tokens);
    for i in 0..c.n_layers {
        let windows = if (i + 1).is_multiple_of(WHOLE) {
            vec![n]
        } else {
            order.sizes.iter().map(|tokens| tokens * unit).collect()
        };
        x = block(g, &p.at(format_args!("blocks.{i}")), c, x, table, &windows);
    }
    let x = rms_norm(g, p, c, "merger.ln_q", x);
    let x = g.reshape(x, [1, n / unit, unit * c.width]);
    let x = p.linear(g, "merger.mlp.0", x, unit * c.width);
    let x = g.act(x, Act::Gelu);
    let x = p.linear(g, "merger.mlp.2", x, c.out);
    let x = g.reshape(x, [n / unit, c.out]);
    let x = Windows::sorted(g, x, "picture", &order.inverse());
    g.reshape(x, [1, n / unit, c.out])
}

/// The patches of a picture, of `patch` pixels along a side and `width` values, with the four of a
/// square side by side: `[n/4, 4·width]`, and how many patches there are down and across.
pub(crate) fn merged_patches(
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

/// `[n, head/2, 2]` of cosine and sine of patches, square by square in the order `tokens`: half of
/// the frequencies turn by row, half by column.
pub(crate) fn rotations(g: &mut Graph, head: usize, grid: [usize; 2], tokens: &[usize]) -> Node {
    let columns = grid[1] / MERGE;
    let quarter = head / 4;
    let mut values = Vec::new();
    for &token in tokens {
        for patch in 0..MERGE * MERGE {
            let y = token / columns * MERGE + patch / MERGE;
            let x = token % columns * MERGE + patch % MERGE;
            for at in [y, x] {
                for i in 0..quarter {
                    let exponent = (2 * i) as f32 / (head / 2) as f32;
                    let frequency = 1.0 / THETA.powf(f64::from(exponent)) as f32;
                    let angle = f64::from(at as f32 * frequency);
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

/// Patches `[1, n, d]` to the same; attention stays within stretches of `windows` patches.
fn block(g: &mut Graph, p: &Params, c: &Config, x: Node, table: Node, windows: &[usize]) -> Node {
    let h = rms_norm(g, p, c, "norm1", x);
    let h = attention(g, &p.at("attn"), c, h, table, windows);
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
    table: Node,
    windows: &[usize],
) -> Node {
    let n = g.shape(x)[1];
    let heads = c.width / c.head;
    let qkv = p.linear(g, "qkv", x, 3 * c.width);
    let parts = g.split(qkv, 2, 3);
    let [q, k, v] = [0, 1, 2].map(|i| {
        let x = g.reshape(parts[i], [1, n, heads, c.head]); // [1, n, heads, hd]
        if i == 2 {
            x
        } else {
            g.rope(x, table, RopeLayout::Halves)
        }
    });
    let mut start = 0;
    let mut attended = Vec::new();
    for stretch in equal_stretches(windows) {
        let (count, size) = stretch;
        let end = start + count * size;
        // Windows of one size are a batch.
        let [q, k, v] = [q, k, v].map(|x| {
            let x = g.slice(x, 1, start, end);
            g.reshape(x, [count, size, heads, c.head])
        });
        let y = g.attention(q, k, v, None);
        attended.push(g.reshape(y, [1, count * size, c.width]));
        start = end;
    }
    let y = match attended[..] {
        [all] => all,
        _ => g.concat(&attended, 1),
    };
    p.linear(g, "proj", y, c.width)
}

/// Runs of windows of one size, each as how many and their size.
fn equal_stretches(windows: &[usize]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &size in windows {
        match runs.last_mut() {
            Some((count, last)) if *last == size => *count += 1,
            _ => runs.push((1, size)),
        }
    }
    runs
}

/// The order in which tokens stand window by window.
struct Windows {
    /// Place in the picture of every token, in that order.
    tokens: Vec<usize>,
    /// Tokens of every window.
    sizes: Vec<usize>,
}

impl Windows {
    fn of([rows, columns]: [usize; 2]) -> Windows {
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

    /// The places of the picture's tokens in this order.
    fn inverse(&self) -> Vec<usize> {
        let mut places = vec![0; self.tokens.len()];
        for (place, &token) in self.tokens.iter().enumerate() {
            places[token] = place;
        }
        places
    }

    /// Rows `[n, d]` in another order.
    fn sorted(g: &mut Graph, x: Node, name: &str, order: &[usize]) -> Node {
        let ids: Vec<i32> = order.iter().map(|&i| i as i32).collect();
        let ids = g.constant_ids(&format!("{name}: {ids:?}"), [1, ids.len()], &ids);
        let dtype = g.dtype(x);
        g.gather(x, ids, dtype)
    }
}
