//! Krea 2 by Krea (Turbo and base).
//! Behavior: ComfyUI's `SingleStreamDiT`; names are the authors'.
//! Latent `[b, h, w, 16]`, timestep `[b]`, text `[b, n, taps · d]` → velocity `[b, h, w, 16]`.
//!
//! ```text
//!   latent ── patchify ── first ─────────────────────────────────────────────┐
//!                                                                            ├─ blocks ─ last
//!   text, 12 layers ─ txtfusion (over layers, then over tokens) ─ txtmlp ────┘
//! ```
//! All blocks are of one kind: gated grouped-query attention, and a gated MLP. The main blocks
//! share one modulation, to which each adds learned vectors of its own. Reference tokens follow
//! those of the image, and may be at timestep 0.

mod block;

use crate::flux::patchify;
use crate::mods::Mods;
use crate::{Find, Params};
use block::{BlockConfig, Mod, block};
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Channels of the latent.
    pub channels: usize,
    /// Width of a token.
    pub dim: usize,
    /// Head dimension.
    pub head: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    pub mlp: usize,
    /// Width of the text encoder's hidden states.
    pub txt_dim: usize,
    /// Head dimension of the text fusion blocks.
    pub txt_head: usize,
    /// Width of the MLPs of the text fusion blocks.
    pub txt_mlp: usize,
    /// Number of layers of the text encoder whose hidden states it takes.
    pub txt_layers: usize,
    pub n_layers: usize,
}

/// The inputs of the network.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// `[b, h, w, channels]`
    pub x: Node,
    /// Timesteps (sigmas) from 0 to 1, `[b]`, f32.
    pub t: Node,
    /// Concatenated hidden states of the text encoder's layers, `[b, n, txt_layers · txt_dim]`.
    pub context: Node,
    /// Reference latents, `[b, h, w, channels]` each.
    pub references: &'a [Node],
    /// Whether the reference tokens are modulated for timestep 0 instead of `t`.
    pub references_at_zero: bool,
}

/// Patch size: latent pixels along one side of a token.
const PATCH: usize = 2;
/// Width of the sinusoidal embedding of a timestep.
const FREQ_DIM: usize = 256;
/// Timesteps are embedded in thousandths.
const TIME_FACTOR: f32 = 1000.0;
const THETA: f64 = 1000.0;
/// Number of layerwise blocks and of refiner blocks in `txtfusion`.
const FUSION_BLOCKS: usize = 2;

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
        let exists = |i: usize| find(&format!("blocks.{i}.attn.wq.weight")).is_some();
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
        // RoPE: six sixteenths of the head dimension for rows and for columns, the rest for the
        // image index.
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
            n_layers: (0..256).take_while(|&i| exists(i)).count(),
        })
    }
}

/// `p` is at the transformer's prefix (`model.diffusion_model` in a checkpoint).
pub fn transformer(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs<'_>) -> Node {
    let [b, h, w] = [0, 1, 2].map(|axis| g.shape(inputs.x)[axis]);
    let dtype = g.dtype(inputs.x);
    let (x, [rows, columns]) = patchify(g, inputs.x);
    let (mut tokens, mut sizes) = (vec![x], vec![[rows, columns]]);
    for &reference in inputs.references {
        let (x, size) = patchify(g, reference);
        tokens.push(x);
        sizes.push(size);
    }
    let x = g.concat(&tokens, 1); // [b, n_img, c·2·2]
    let img = p.linear(g, "first", x, c.dim);

    let (temb, modulation) = time_embedding(g, p, c, inputs.t, dtype);
    let modulation_zero = (inputs.references_at_zero && !inputs.references.is_empty()).then(|| {
        let zero = g.affine(inputs.t, 0.0, 0.0);
        time_embedding(g, p, c, zero, dtype).1
    });

    let txt = text_fusion(g, &p.at("txtfusion"), c, inputs.context);
    let txt = block::norm(g, &p.at("txtmlp"), "0", txt, c.txt_dim, None);
    let txt = p.linear(g, "txtmlp.1", txt, c.dim);
    let txt = g.act(txt, Act::GeluTanh);
    let txt = p.linear(g, "txtmlp.3", txt, c.dim);
    let n_txt = g.shape(txt)[1];

    let mut x = g.concat(&[txt, img], 1); // [b, n_txt + n_img, d]
    let config = BlockConfig {
        width: c.dim,
        head: c.head,
        kv_heads: c.kv_heads,
        mlp: c.mlp,
        rope: Some(rope_table(g, c, n_txt, &sizes)),
    };
    for i in 0..c.n_layers {
        let p = &p.at(format_args!("blocks.{i}"));
        let learned = p.small(g, "mod.lin", [1, 6 * c.dim]);
        let learned = g.cast(learned, dtype);
        let mut block_modulation = |modulation: Node| {
            let vectors = g.add(modulation, learned);
            let vectors = g.split(vectors, 1, 6);
            [0, 3].map(|i| Mod {
                scale: vectors[i],
                shift: vectors[i + 1],
                gate: vectors[i + 2],
            })
        };
        let mods = Mods {
            at_t: block_modulation(modulation),
            at_zero: modulation_zero.map(block_modulation),
            n_at_t: n_txt + rows * columns,
        };
        x = block(g, p, &config, x, Some(mods));
    }

    let img = g.slice(x, 1, n_txt, n_txt + rows * columns);
    let last = &p.at("last");
    let learned = last.small(g, "modulation.lin", [2, c.dim]);
    let learned = g.cast(learned, dtype);
    let [scale, shift] = [0, 1].map(|i| {
        let learned = g.slice(learned, 0, i, i + 1);
        g.add(temb, learned)
    });
    let x = block::norm(g, last, "norm", img, c.dim, Some([scale, shift]));
    let width = c.channels * PATCH * PATCH;
    let x = last.linear(g, "linear", x, width);
    let x = g.reshape(x, [b, rows, columns, width]);
    let x = g.pixel_shuffle(x, PATCH); // [b, h, w, c]
    let x = g.slice(x, 1, 0, h);
    g.slice(x, 2, 0, w)
}

/// The time embedding `[b, d]`, and its projection to the shared modulation, `[b, 6 · d]`.
fn time_embedding(g: &mut Graph, p: &Params, c: &Config, t: Node, dtype: DType) -> (Node, Node) {
    let t = g.affine(t, TIME_FACTOR, 0.0);
    let t = g.timestep_embed(t, FREQ_DIM);
    let t = g.cast(t, dtype);
    let t = p.linear(g, "tmlp.0", t, c.dim);
    let t = g.act(t, Act::GeluTanh);
    let t = p.linear(g, "tmlp.2", t, c.dim);
    let modulation = g.act(t, Act::GeluTanh);
    (t, p.linear(g, "tproj.1", modulation, 6 * c.dim))
}

/// Hidden states of several layers `[b, n, layers · d]` to one embedding per token, `[b, n, d]`.
fn text_fusion(g: &mut Graph, p: &Params, c: &Config, context: Node) -> Node {
    let (b, n, d) = (g.shape(context)[0], g.shape(context)[1], c.txt_dim);
    let config = BlockConfig {
        width: d,
        head: c.txt_head,
        kv_heads: d / c.txt_head,
        mlp: c.txt_mlp,
        rope: None,
    };
    let mut x = g.reshape(context, [b * n, c.txt_layers, d]);
    for i in 0..FUSION_BLOCKS {
        let p = &p.at(format_args!("layerwise_blocks.{i}"));
        x = block(g, p, &config, x, None);
    }
    let x = g.permute(x, &[0, 2, 1]); // [b·n, d, layers]
    let x = p.linear_no_bias(g, "projector", x, 1);
    let mut x = g.reshape(x, [b, n, d]);
    for i in 0..FUSION_BLOCKS {
        let p = &p.at(format_args!("refiner_blocks.{i}"));
        x = block(g, p, &config, x, None);
    }
    x
}

/// RoPE table `[n, hd/2, 2]` of cosine and sine, computed in f64. Text tokens are at (0, 0, 0),
/// image tokens at (0, row, column), tokens of the first, second, … reference at (1, row, column),
/// (2, …), and so on. `sizes` are rows and columns of the image, then of the references.
fn rope_table(g: &mut Graph, c: &Config, n_txt: usize, sizes: &[[usize; 2]]) -> Node {
    let side_dim = 6 * (c.head / 16);
    let axes_dim = [c.head - 2 * side_dim, side_dim, side_dim];
    let text = std::iter::repeat_n([0, 0, 0], n_txt);
    let images = sizes.iter().enumerate().flat_map(|(i, &[rows, columns])| {
        (0..rows * columns).map(move |token| [i, token / columns, token % columns])
    });
    let (mut values, mut n) = (Vec::new(), 0);
    for position in text.chain(images) {
        n += 1;
        for (coordinate, axis_dim) in position.into_iter().zip(axes_dim) {
            for pair in 0..axis_dim / 2 {
                let angle = coordinate as f64 / THETA.powf(2.0 * pair as f64 / axis_dim as f64);
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
