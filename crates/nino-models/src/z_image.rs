//! Z-Image by Alibaba's Tongyi Lab (Turbo and base), a transformer of Lumina's kind.
//! Behaviour: ComfyUI's `NextDiT`, whose names are canonical.
//! Latent `[b, h, w, 16]`, noise level `[b]`, text `[b, n, d]` → velocity `[b, h, w, 16]`.
//!
//! ```text
//!   latent ── patches ── x_embedder ── noise_refiner ────┐
//!                                                        ├─ layers ─ final_layer ── velocity
//!   text ─── cap_embedder ── context_refiner ────────────┘
//! ```
//! All blocks are of one kind; only those that refine the text are not modulated by the noise
//! level. Both streams are padded to a multiple of 32 tokens with a learned token.

mod block;
mod control;
mod positions;

use crate::flux::even;
use crate::{Find, Params};
use block::{Told, block};
pub(crate) use control::Control;
pub use control::ControlConfig;
use nino_graph::{Graph, Node, NormKind, RowNorm, Shape};
use positions::Tokens;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Channels of the latent.
    pub channels: usize,
    /// Width of a token.
    pub dim: usize,
    /// Width of one head.
    pub head: usize,
    pub mlp: usize,
    /// Width of the text's tokens.
    pub cap_dim: usize,
    /// Widths of the two layers that embed the noise level.
    pub time: [usize; 2],
    pub n_layers: usize,
    /// Number of blocks that refine the text, and the picture.
    pub n_refiners: usize,
}

/// What the network sees.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    /// `[b, h, w, channels]`
    pub x: Node,
    /// Noise levels from 0 to 1, `[b]`, f32.
    pub t: Node,
    /// The text, `[b, n, cap_dim]`.
    pub context: Node,
}

/// Pixels of the latent along one side of a token.
const PATCH: usize = 2;
/// The number of tokens of a stream is padded to a multiple of this.
const MULTIPLE: usize = 32;
/// Length of the sinusoidal embedding of a noise level.
const SINUSOIDS: usize = 256;
const THOUSAND: f32 = 1000.0;
const LAST_EPS: f32 = 1e-6;

impl Config {
    /// The sizes of Z-Image Turbo and of the base model.
    pub fn published() -> Config {
        Config {
            channels: 16,
            dim: 3840,
            head: 128,
            mlp: 10240,
            cap_dim: 2560,
            time: [1024, 256],
            n_layers: 30,
            n_refiners: 2,
        }
    }

    pub fn heads(&self) -> usize {
        self.dim / self.head.max(1)
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not Z-Image.
    pub fn detect(find: &Find) -> Option<Config> {
        let matrix = |name: &str| match *find(name)?.0 {
            [rows, columns] => Some((rows, columns)),
            _ => None,
        };
        let count = |kind: &str| {
            let there = |&i: &usize| find(&format!("{kind}.{i}.attention.qkv.weight")).is_some();
            (0..256).take_while(there).count()
        };
        let (dim, cap_dim) = matrix("cap_embedder.1.weight")?;
        let [head] = *find("noise_refiner.0.attention.k_norm.weight")?.0 else {
            return None;
        };
        let (_, patch) = matrix("x_embedder.weight")?;
        let (time, _) = matrix("t_embedder.mlp.0.weight")?;
        // In Lumina 2 an activation precedes this layer, so that its name ends in 1.
        let (_, told) = matrix("noise_refiner.0.adaLN_modulation.0.weight")?;
        let (mlp, _) = matrix("noise_refiner.0.feed_forward.w1.weight")?;
        find("x_pad_token")?;
        let config = Config {
            channels: patch / (PATCH * PATCH),
            dim,
            head,
            mlp,
            cap_dim,
            time: [time, told],
            n_layers: count("layers"),
            n_refiners: count("noise_refiner"),
        };
        // The rotary axes are a quarter of a head, and halves of the rest.
        let fits = head > 0 && head.is_multiple_of(16) && dim.is_multiple_of(head);
        (fits && config.channels > 0).then_some(config)
    }
}

/// `p` is the place of the transformer's names (`model.diffusion_model` in a checkpoint).
pub(crate) fn transformer(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    inputs: Inputs,
    controls: &[Control<'_>],
) -> Node {
    let [b, h, w] = [0, 1, 2].map(|axis| g.shape(inputs.x)[axis]);
    let dtype = g.dtype(inputs.x);
    let t = g.affine(inputs.t, -THOUSAND, THOUSAND);
    let t = g.timestep_embed(t, SINUSOIDS);
    let t = g.cast(t, dtype);
    let t = p.linear(g, "t_embedder.mlp.0", t, c.time[0]);
    let t = g.silu(t);
    let t = p.linear(g, "t_embedder.mlp.2", t, c.time[1]);
    let t = p.at("t_embedder").label(g, t); // [b, told]

    let weight = p.vector(g, "cap_embedder.0.weight", c.cap_dim);
    let txt = g.rms_norm(inputs.context, Some(weight), block::EPS);
    let txt = p.linear(g, "cap_embedder.1", txt, c.dim);
    let mut txt = padded(g, p, "cap_pad_token", txt);
    let n_txt = g.shape(txt)[1];
    let told = Told {
        table: positions::table(g, c, n_txt, Tokens::Text),
        t: None,
    };
    for i in 0..c.n_refiners {
        txt = block(g, &p.at(format_args!("context_refiner.{i}")), c, txt, told);
    }

    let (x, [rows, columns]) = patches(g, inputs.x);
    let n_img = rows * columns;
    let img = p.linear(g, "x_embedder", x, c.dim);
    let mut img = padded(g, p, "x_pad_token", img);
    let told = Told {
        table: positions::table(g, c, n_txt, Tokens::Picture([rows, columns])),
        t: Some(t),
    };
    // What steers it has no padding.
    let unpadded = match controls {
        [] => told,
        _ => Told {
            table: g.slice(told.table, 0, 0, n_img),
            ..told
        },
    };
    let mut steered: Vec<Node> = controls.iter().map(|one| one.begin(g, unpadded)).collect();
    let seen = (!controls.is_empty()).then(|| g.slice(img, 1, 0, n_img));
    for i in 0..c.n_refiners {
        img = block(g, &p.at(format_args!("noise_refiner.{i}")), c, img, told);
        for ((one, own), seen) in controls.iter().zip(&mut steered).zip(seen.iter().cycle()) {
            let (more, next) = one.refined(g, i, *own, *seen, unpadded);
            (img, *own) = (one.added(g, img, 0, more), next);
        }
    }
    let seen = (!controls.is_empty()).then(|| g.slice(img, 1, 0, n_img));

    let mut x = g.concat(&[txt, img], 1); // [b, n_txt + n_img, d]
    let told = Told {
        table: positions::table(g, c, n_txt, Tokens::Both([rows, columns])),
        t: Some(t),
    };
    for i in 0..c.n_layers {
        x = block(g, &p.at(format_args!("layers.{i}")), c, x, told);
        for ((one, own), seen) in controls.iter().zip(&mut steered).zip(seen.iter().cycle()) {
            let (more, next) = one.followed(g, i, *own, *seen, unpadded);
            (x, *own) = (one.added(g, x, n_txt, more), next);
        }
    }
    let img = g.slice(x, 1, n_txt, n_txt + n_img);
    let t = g.silu(t);
    let scale = p.linear(g, "final_layer.adaLN_modulation.1", t, c.dim);
    let img = g.push(RowNorm {
        x: img,
        kind: NormKind::Layer,
        eps: LAST_EPS,
        weight: None,
        bias: None,
        scale: Some(scale),
        shift: None,
        act: None,
    });
    let width = c.channels * PATCH * PATCH;
    let x = p.linear(g, "final_layer.linear", img, width);
    // The network predicts the opposite direction: from noise to picture.
    let x = g.affine(x, -1.0, 0.0);
    let x = g.reshape(x, [b, rows, columns, PATCH, PATCH, c.channels]);
    let x = g.permute(x, &[0, 1, 3, 2, 4, 5]); // [b, rows, 2, columns, 2, c]
    let x = g.reshape(x, [b, rows * PATCH, columns * PATCH, c.channels]);
    let x = g.slice(x, 1, 0, h);
    g.slice(x, 2, 0, w)
}

/// Squares of the latent as tokens `[b, n, 2·2·c]`, and how many rows and columns of them.
fn patches(g: &mut Graph, x: Node) -> (Node, [usize; 2]) {
    let x = even(g, x, [1, 2]);
    let [b, h, w, c] = [0, 1, 2, 3].map(|axis| g.shape(x)[axis]);
    let (rows, columns) = (h / PATCH, w / PATCH);
    let x = g.reshape(x, [b, rows, PATCH, columns, PATCH, c]);
    let x = g.permute(x, &[0, 1, 3, 2, 4, 5]); // [b, rows, columns, 2, 2, c]
    let x = g.reshape(x, [b, rows * columns, PATCH * PATCH * c]);
    (x, [rows, columns])
}

/// Pads tokens `[b, n, d]` to a multiple of [`MULTIPLE`] with the learned token `name`.
fn padded(g: &mut Graph, p: &Params, name: &str, x: Node) -> Node {
    let [b, n, d] = [0, 1, 2].map(|axis| g.shape(x)[axis]);
    let token = p.small(g, name, [1, d]);
    let more = n.next_multiple_of(MULTIPLE) - n;
    if more == 0 {
        return x;
    }
    let places = Shape::from([b, more, 1]);
    let zeros = g.constant(
        &format!("{b} times {more} zeros"),
        places,
        &vec![0.0; b * more],
    );
    let zeros = g.cast(zeros, g.dtype(x));
    let token = g.reshape(token, [1, 1, d]);
    let padding = g.add(zeros, token); // [b, more, d]
    g.concat(&[x, padding], 1)
}
