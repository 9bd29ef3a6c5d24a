//! Krea 2 by Krea (Turbo and base).
//! Behaviour: ComfyUI's `SingleStreamDiT`; names are the authors'.
//! Latent `[b, h, w, 16]`, noise level `[b]`, text `[b, n, taps · d]` → velocity `[b, h, w, 16]`.
//!
//! ```text
//!   latent ── patches ── first ──────────────────────────────────────────────┐
//!                                                                            ├─ blocks ─ last
//!   states of 12 layers ─ txtfusion (over layers, then over words) ─ txtmlp ─┘
//! ```
//! All blocks are of one kind: gated attention with grouped keys, and a gated MLP. Those of the
//! picture share one modulation, to which each adds a vector of its own. Latents to look at follow
//! the picture, and may be told to have no noise.

mod block;

use crate::flux::patches;
use crate::mods::Mods;
use crate::{Find, Params};
use block::{Heads, Mod, block};
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Channels of the latent.
    pub channels: usize,
    /// Width of a token.
    pub dim: usize,
    /// Width of one head.
    pub head: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    pub mlp: usize,
    /// Width of the states of one layer of the text encoder, of a head there, and of an MLP there.
    pub txt_dim: usize,
    pub txt_head: usize,
    pub txt_mlp: usize,
    /// Layers of the text encoder that it is shown.
    pub txt_layers: usize,
    pub n_layers: usize,
}

/// What the network sees.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// `[b, h, w, channels]`
    pub x: Node,
    /// Noise levels from 0 to 1, `[b]`, f32.
    pub t: Node,
    /// States of some layers of the text encoder side by side, `[b, n, txt_layers · txt_dim]`.
    pub context: Node,
    /// Latents to look at, `[b, h, w, channels]` each.
    pub references: &'a [Node],
    /// Whether it is told that they have no noise.
    pub clean: bool,
}

/// Pixels of the latent along one side of a token.
const PATCH: usize = 2;
/// Length of the sinusoidal embedding of a noise level.
const SINUSOIDS: usize = 256;
const THOUSAND: f32 = 1000.0;
const THETA: f64 = 1000.0;
/// Blocks over layers, and over words.
const FUSION: usize = 2;

impl Config {
    pub fn published() -> Config {
        Config {
            channels: 16,
            dim: 6144,
            head: 128,
            kv_heads: 12,
            mlp: 16384,
            txt_dim: 2560,
            txt_head: 128,
            txt_mlp: 6912,
            txt_layers: 12,
            n_layers: 28,
        }
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not Krea 2.
    pub fn detect(find: &Find) -> Option<Config> {
        let matrix = |name: &str| match *find(name)?.0 {
            [rows, columns] => Some((rows, columns)),
            _ => None,
        };
        let vector = |name: &str| match *find(name)?.0 {
            [n] => Some(n),
            _ => None,
        };
        let there = |i: usize| find(&format!("blocks.{i}.attn.wq.weight")).is_some();
        let (_, txt_layers) = matrix("txtfusion.projector.weight")?;
        let (dim, patch) = matrix("first.weight")?;
        let head = vector("blocks.0.attn.qknorm.qnorm.scale")?;
        let (keys, _) = matrix("blocks.0.attn.wk.weight")?;
        let (mlp, _) = matrix("blocks.0.mlp.gate.weight")?;
        let fusion = "txtfusion.layerwise_blocks.0";
        let txt_dim = vector(&format!("{fusion}.prenorm.scale"))?;
        let txt_head = vector(&format!("{fusion}.attn.qknorm.qnorm.scale"))?;
        let (txt_mlp, _) = matrix(&format!("{fusion}.mlp.gate.weight"))?;
        let fits = [(dim, head), (txt_dim, txt_head)]
            .into_iter()
            .all(|(dim, head)| head > 0 && dim.is_multiple_of(head));
        // The rotary axes are six sixteenths of a head for rows and columns, the rest before.
        let fits = fits && head.is_multiple_of(16) && keys > 0 && dim.is_multiple_of(keys);
        let channels = patch / (PATCH * PATCH);
        (fits && channels > 0 && txt_layers > 0).then(|| Config {
            channels,
            dim,
            head,
            kv_heads: keys / head,
            mlp,
            txt_dim,
            txt_head,
            txt_mlp,
            txt_layers,
            n_layers: (0..256).take_while(|&i| there(i)).count(),
        })
    }
}

/// `p` is the place of the transformer's names (`model.diffusion_model` in a checkpoint).
pub fn transformer(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs<'_>) -> Node {
    let [b, h, w] = [0, 1, 2].map(|axis| g.shape(inputs.x)[axis]);
    let dtype = g.dtype(inputs.x);
    let (x, [rows, columns]) = patches(g, inputs.x);
    let (mut tokens, mut sizes) = (vec![x], vec![[rows, columns]]);
    for &reference in inputs.references {
        let (x, size) = patches(g, reference);
        tokens.push(x);
        sizes.push(size);
    }
    let x = g.concat(&tokens, 1); // [b, n_img, c·2·2]
    let img = p.linear(g, "first", x, c.dim);

    let (t, shared) = embedded(g, p, c, inputs.t, dtype);
    let clean = (inputs.clean && !inputs.references.is_empty()).then(|| {
        let zero = g.affine(inputs.t, 0.0, 0.0);
        embedded(g, p, c, zero, dtype).1
    });

    let txt = fused(g, &p.at("txtfusion"), c, inputs.context);
    let txt = block::norm(g, &p.at("txtmlp"), "0", txt, c.txt_dim, None);
    let txt = p.linear(g, "txtmlp.1", txt, c.dim);
    let txt = g.act(txt, Act::GeluTanh);
    let txt = p.linear(g, "txtmlp.3", txt, c.dim);
    let n_txt = g.shape(txt)[1];

    let mut x = g.concat(&[txt, img], 1); // [b, n_txt + n_img, d]
    let heads = Heads {
        width: c.dim,
        head: c.head,
        kv_heads: c.kv_heads,
        mlp: c.mlp,
        table: Some(table(g, c, n_txt, &sizes)),
    };
    for i in 0..c.n_layers {
        let p = &p.at(format_args!("blocks.{i}"));
        let own = p.small(g, "mod.lin", [1, 6 * c.dim]);
        let own = g.cast(own, dtype);
        let mut of = |shared: Node| {
            let all = g.add(shared, own);
            let parts = g.split(all, 1, 6);
            [0, 3].map(|at| Mod {
                scale: parts[at],
                shift: parts[at + 1],
                gate: parts[at + 2],
            })
        };
        let mods = Mods {
            noisy: of(shared),
            clean: clean.map(of),
            n_noisy: n_txt + rows * columns,
        };
        x = block(g, p, &heads, x, Some(mods));
    }

    let img = g.slice(x, 1, n_txt, n_txt + rows * columns);
    let last = &p.at("last");
    let own = last.small(g, "modulation.lin", [2, c.dim]);
    let own = g.cast(own, dtype);
    let [scale, shift] = [0, 1].map(|i| {
        let own = g.slice(own, 0, i, i + 1);
        g.add(t, own)
    });
    let x = block::norm(g, last, "norm", img, c.dim, Some([scale, shift]));
    let width = c.channels * PATCH * PATCH;
    let x = last.linear(g, "linear", x, width);
    let x = g.reshape(x, [b, rows, columns, width]);
    let x = g.pixel_shuffle(x, PATCH); // [b, h, w, c]
    let x = g.slice(x, 1, 0, h);
    g.slice(x, 2, 0, w)
}

/// The embedding `[b, d]` of noise levels, and what all blocks are modulated by, `[b, 6 · d]`.
fn embedded(g: &mut Graph, p: &Params, c: &Config, t: Node, dtype: DType) -> (Node, Node) {
    let t = g.affine(t, THOUSAND, 0.0);
    let t = g.timestep_embed(t, SINUSOIDS);
    let t = g.cast(t, dtype);
    let t = p.linear(g, "tmlp.0", t, c.dim);
    let t = g.act(t, Act::GeluTanh);
    let t = p.linear(g, "tmlp.2", t, c.dim);
    let shared = g.act(t, Act::GeluTanh);
    (t, p.linear(g, "tproj.1", shared, 6 * c.dim))
}

/// The states of several layers `[b, n, layers · d]` to one for every word, `[b, n, d]`.
fn fused(g: &mut Graph, p: &Params, c: &Config, context: Node) -> Node {
    let (b, n, d) = (g.shape(context)[0], g.shape(context)[1], c.txt_dim);
    let heads = Heads {
        width: d,
        head: c.txt_head,
        kv_heads: d / c.txt_head,
        mlp: c.txt_mlp,
        table: None,
    };
    let mut x = g.reshape(context, [b * n, c.txt_layers, d]);
    for i in 0..FUSION {
        let p = &p.at(format_args!("layerwise_blocks.{i}"));
        x = block(g, p, &heads, x, None);
    }
    let x = g.permute(x, &[0, 2, 1]); // [b·n, d, layers]
    let x = p.linear_no_bias(g, "projector", x, 1);
    let mut x = g.reshape(x, [b, n, d]);
    for i in 0..FUSION {
        let p = &p.at(format_args!("refiner_blocks.{i}"));
        x = block(g, p, &heads, x, None);
    }
    x
}

/// Where tokens are: `[n, head/2, 2]` of cosine and sine, computed in f64. Text is at (0, 0, 0), a
/// token of the picture at (0, row, column), one of the first, second, … latent to look at at
/// (1, row, column), (2, …), and so on. `sizes` are rows and columns, the picture's first.
fn table(g: &mut Graph, c: &Config, n_txt: usize, sizes: &[[usize; 2]]) -> Node {
    let each = 6 * (c.head / 16);
    let axes = [c.head - 2 * each, each, each];
    let text = std::iter::repeat_n([0, 0, 0], n_txt);
    let pictures = sizes.iter().enumerate().flat_map(|(i, &[rows, columns])| {
        (0..rows * columns).map(move |at| [i, at / columns, at % columns])
    });
    let (mut values, mut n) = (Vec::new(), 0);
    for place in text.chain(pictures) {
        n += 1;
        for (at, axis) in place.into_iter().zip(axes) {
            for pair in 0..axis / 2 {
                let angle = at as f64 / THETA.powf(2.0 * pair as f64 / axis as f64);
                values.extend([angle.cos() as f32, angle.sin() as f32]);
            }
        }
    }
    let name = format!(
        "rotations of {n_txt} words and {sizes:?}, heads of {}",
        c.head
    );
    g.constant(&name, [n, c.head / 2, 2], &values)
}
