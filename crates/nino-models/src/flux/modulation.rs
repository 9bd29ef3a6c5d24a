//! Modulation (adaLN) of the blocks: by a linear layer in each block (Flux), or by one small
//! network that computes the vectors of all blocks (Chroma's approximator).

use super::{Config, Inputs, Modulation};
use crate::Params;
use nino_graph::{Graph, Node};

/// Modulation of one branch, `[b, d]` each: its input is `norm(x) · (1 + scale) + shift`, and its
/// output is multiplied by `gate`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mod {
    pub(super) shift: Node,
    pub(super) scale: Node,
    pub(super) gate: Node,
}

/// Modulations of a double stream block: of attention and of the MLP, for each stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct DoubleMods {
    pub(super) img: [Mod; 2],
    pub(super) txt: [Mod; 2],
}

/// The source of the modulations of all blocks.
pub(super) enum Modulations {
    /// SiLU of the embedding of timestep, guidance and pooled text, `[b, d]`.
    PerBlock { vec: Node, hidden: usize },
    /// The vectors of all blocks, `[b, ROWS, d]`. `depth` is the number of double and of single
    /// stream blocks.
    Approximated { rows: Node, depth: [usize; 2] },
}

/// Timesteps and guidance are embedded in thousandths.
const TIME_FACTOR: f32 = 1000.0;
/// Width of the sinusoidal embeddings of timestep and guidance in Flux.
const FREQ_DIM: usize = 256;
/// The same in Chroma. Its embedding of the row index has twice this width.
const CHROMA_FREQ_DIM: usize = 16;
/// Modulation vectors of Chroma (ComfyUI's `mod_index_length`): three for each of 38 single stream
/// blocks, six for each stream of 19 double stream blocks, two for the final layer. Files with
/// fewer blocks leave the rows before the last two unused.
const ROWS: usize = 344;
/// Epsilon of the approximator's norms: PyTorch's default for f32, which ComfyUI keeps.
const EPS: f32 = f32::EPSILON;

impl Modulations {
    pub(super) fn record(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs<'_>) -> Modulations {
        match c.modulation {
            Modulation::PerBlock { .. } => Modulations::PerBlock {
                vec: vec(g, p, c, inputs),
                hidden: c.hidden,
            },
            Modulation::Approximated { hidden, n_layers } => {
                let rows = approximator_input(g, inputs);
                let p = &p.at("distilled_guidance_layer");
                Modulations::Approximated {
                    rows: approximator(g, p, rows, [hidden, n_layers, c.hidden]),
                    depth: [c.depth, c.depth_single],
                }
            }
        }
    }

    /// Modulations of double stream block `i`; `p` is at the block's prefix.
    pub(super) fn double(&self, g: &mut Graph, p: &Params, i: usize) -> DoubleMods {
        match *self {
            Modulations::PerBlock { vec, hidden } => {
                let [img, txt] = ["img_mod.lin", "txt_mod.lin"].map(|name| {
                    let all = p.linear(g, name, vec, 6 * hidden);
                    let parts = g.split(all, 1, 6);
                    [
                        Mod::from_vectors(&parts[..3]),
                        Mod::from_vectors(&parts[3..]),
                    ]
                });
                DoubleMods { img, txt }
            }
            Modulations::Approximated {
                rows,
                depth: [double, single],
            } => {
                let img = 3 * single + 6 * i;
                let mut pair = |first| {
                    [
                        Mod::from_rows(g, rows, first),
                        Mod::from_rows(g, rows, first + 3),
                    ]
                };
                DoubleMods {
                    img: pair(img),
                    txt: pair(img + 6 * double),
                }
            }
        }
    }

    /// Modulation of single stream block `i`; `p` is at the block's prefix.
    pub(super) fn single(&self, g: &mut Graph, p: &Params, i: usize) -> Mod {
        match *self {
            Modulations::PerBlock { vec, hidden } => {
                let all = p.linear(g, "modulation.lin", vec, 3 * hidden);
                Mod::from_vectors(&g.split(all, 1, 3))
            }
            Modulations::Approximated { rows, .. } => Mod::from_rows(g, rows, 3 * i),
        }
    }

    /// Shift and scale of the final layer.
    pub(super) fn last(&self, g: &mut Graph, p: &Params) -> (Node, Node) {
        match *self {
            Modulations::PerBlock { vec, hidden } => {
                let vectors = p.linear(g, "final_layer.adaLN_modulation.1", vec, 2 * hidden);
                let vectors = g.split(vectors, 1, 2);
                (vectors[0], vectors[1])
            }
            Modulations::Approximated { rows, .. } => {
                (row(g, rows, ROWS - 2), row(g, rows, ROWS - 1))
            }
        }
    }
}

impl Mod {
    fn from_vectors(vectors: &[Node]) -> Mod {
        Mod {
            shift: vectors[0],
            scale: vectors[1],
            gate: vectors[2],
        }
    }

    /// From three rows, `first` and the two after it.
    fn from_rows(g: &mut Graph, rows: Node, first: usize) -> Mod {
        Mod {
            shift: row(g, rows, first),
            scale: row(g, rows, first + 1),
            gate: row(g, rows, first + 2),
        }
    }
}

/// Row `i` of `[b, rows, d]` as `[b, d]`.
fn row(g: &mut Graph, rows: Node, i: usize) -> Node {
    let shape = g.shape(rows);
    let row = g.slice(rows, 1, i, i + 1);
    g.reshape(row, [shape[0], shape.last_dim()])
}

/// SiLU of Flux's embedding `[b, d]` of timestep, guidance and pooled text: the input of every
/// modulation.
fn vec(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs<'_>) -> Node {
    let dtype = g.dtype(inputs.x);
    let t = timestep_embedding(g, inputs.t, FREQ_DIM);
    let t = g.cast(t, dtype);
    let mut vec = mlp_embedder(g, &p.at("time_in"), t, c.hidden);
    if let Some(guidance) = inputs.guidance {
        let guidance = timestep_embedding(g, guidance, FREQ_DIM);
        let guidance = g.cast(guidance, dtype);
        let guidance = mlp_embedder(g, &p.at("guidance_in"), guidance, c.hidden);
        vec = g.add(vec, guidance);
    }
    if let Some(y) = inputs.y {
        let pooled = mlp_embedder(g, &p.at("vector_in"), y, c.hidden);
        vec = g.add(vec, pooled);
    }
    let vec = p.at("vec").label(g, vec);
    g.silu(vec)
}

/// Sinusoidal embedding: cosines, then sines, of `t` in thousandths.
fn timestep_embedding(g: &mut Graph, t: Node, size: usize) -> Node {
    let t = g.affine(t, TIME_FACTOR, 0.0);
    g.timestep_embed(t, size)
}

fn mlp_embedder(g: &mut Graph, p: &Params, x: Node, width: usize) -> Node {
    let h = p.linear(g, "in_layer", x, width);
    let h = g.silu(h);
    p.linear(g, "out_layer", h, width)
}

/// Input of the approximator, `[b, ROWS, 64]`: the embeddings of timestep, guidance and row index.
fn approximator_input(g: &mut Graph, inputs: Inputs<'_>) -> Node {
    let b = g.shape(inputs.x)[0];
    let mut time = vec![timestep_embedding(g, inputs.t, CHROMA_FREQ_DIM)];
    time.extend(
        inputs
            .guidance
            .map(|n| timestep_embedding(g, n, CHROMA_FREQ_DIM)),
    );
    let time = g.concat(&time, 1); // [b, 32]
    let width = g.shape(time)[1];
    let time = g.reshape(time, [b, 1, width]);
    let zeros = vec![0.0; ROWS * width];
    let zeros = g.constant(
        &format!("{ROWS} rows of {width} zeros"),
        [1, ROWS, width],
        &zeros,
    );
    let time = g.add(zeros, time); // [b, ROWS, 32]
    let indices = index_embedding().repeat(b);
    let name = format!("numbers of {ROWS} rows, {b} times");
    let indices = g.constant(&name, [b, ROWS, 2 * CHROMA_FREQ_DIM], &indices);
    let rows = g.concat(&[time, indices], 2);
    g.cast(rows, g.dtype(inputs.x))
}

/// Sinusoidal embeddings of the row indices, in thousandths. Computed in f32 as in training: angles
/// reach hundreds of thousands, so rounding matters.
fn index_embedding() -> Vec<f32> {
    let log_base = -(10_000f64.ln()) as f32;
    let frequency = |i: usize| {
        let exponent = log_base * i as f32 / CHROMA_FREQ_DIM as f32;
        f64::from(exponent).exp() as f32
    };
    let frequencies: Vec<f32> = (0..CHROMA_FREQ_DIM).map(frequency).collect();
    let rows = (0..ROWS).flat_map(|row| {
        let angle = |f: &f32| f64::from(row as f32 * TIME_FACTOR * f);
        let cosines = frequencies.iter().map(move |f| angle(f).cos() as f32);
        let sines = frequencies.iter().map(move |f| angle(f).sin() as f32);
        cosines.chain(sines).collect::<Vec<f32>>()
    });
    rows.collect()
}

/// Chroma's `distilled_guidance_layer`: `[b, ROWS, 64]` → modulation vectors `[b, ROWS, d]`.
fn approximator(g: &mut Graph, p: &Params, x: Node, [hidden, n_layers, out]: [usize; 3]) -> Node {
    let mut x = p.linear(g, "in_proj", x, hidden);
    for i in 0..n_layers {
        let scale = p.vector(g, &format!("norms.{i}.scale"), hidden);
        let h = g.rms_norm(x, Some(scale), EPS);
        let h = mlp_embedder(g, &p.at(format_args!("layers.{i}")), h, hidden);
        x = g.add(x, h);
    }
    let x = p.linear(g, "out_proj", x, out);
    p.label(g, x)
}
