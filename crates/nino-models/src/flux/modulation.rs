//! Shift, scale and gate of every block: from a linear layer in each block (Flux), or from one
//! small network that makes all of them (Chroma).

use super::{Config, Inputs, Modulation};
use crate::Params;
use nino_graph::{Graph, Node};

/// Three vectors `[b, d]`: a norm is scaled by 1 + `scale` and shifted, and what a branch gives is
/// multiplied by `gate`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mod {
    pub(super) shift: Node,
    pub(super) scale: Node,
    pub(super) gate: Node,
}

/// Of a double block: before attention and before the MLP, for each of the streams.
#[derive(Clone, Copy, Debug)]
pub(super) struct DoubleMods {
    pub(super) img: [Mod; 2],
    pub(super) txt: [Mod; 2],
}

/// Where the vectors come from.
pub(super) enum Modulations {
    /// SiLU of what all blocks are told, `[b, d]`.
    PerBlock { vec: Node, hidden: usize },
    /// All vectors, `[b, rows, d]`.
    Approximated { rows: Node, depth: [usize; 2] },
}

/// Networks are told noise levels and guidance in thousandths.
const THOUSAND: f32 = 1000.0;
/// Numbers that describe the noise level and the guidance of Flux.
const SINUSOIDS: usize = 256;
/// The same of Chroma: the noise level, the guidance; and twice as many the row wanted.
const FEW_SINUSOIDS: usize = 16;
/// Rows of Chroma's vectors, whatever its number of blocks: three for each of 38 single blocks, six
/// for each stream of 19 double blocks, two for the last layer. Files with fewer blocks leave rows
/// out between the blocks' and the last.
const ROWS: usize = 344;
/// Of Chroma's small network. PyTorch's default for f32, which ComfyUI keeps.
const EPS: f32 = f32::EPSILON;

impl Modulations {
    pub(super) fn record(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs<'_>) -> Modulations {
        match c.modulation {
            Modulation::PerBlock { .. } => Modulations::PerBlock {
                vec: vec(g, p, c, inputs),
                hidden: c.hidden,
            },
            Modulation::Approximated { hidden, n_layers } => {
                let rows = described_rows(g, inputs);
                let p = &p.at("distilled_guidance_layer");
                Modulations::Approximated {
                    rows: approximator(g, p, rows, [hidden, n_layers, c.hidden]),
                    depth: [c.depth, c.depth_single],
                }
            }
        }
    }

    /// Of double block `i`, whose names `p` is the place of.
    pub(super) fn double(&self, g: &mut Graph, p: &Params, i: usize) -> DoubleMods {
        match *self {
            Modulations::PerBlock { vec, hidden } => {
                let [img, txt] = ["img_mod.lin", "txt_mod.lin"].map(|name| {
                    let all = p.linear(g, name, vec, 6 * hidden);
                    let parts = g.split(all, 1, 6);
                    [Mod::of(&parts[..3]), Mod::of(&parts[3..])]
                });
                DoubleMods { img, txt }
            }
            Modulations::Approximated {
                rows,
                depth: [double, single],
            } => {
                let img = 3 * single + 6 * i;
                let mut pair = |first| [Mod::row(g, rows, first), Mod::row(g, rows, first + 3)];
                DoubleMods {
                    img: pair(img),
                    txt: pair(img + 6 * double),
                }
            }
        }
    }

    /// Of single block `i`.
    pub(super) fn single(&self, g: &mut Graph, p: &Params, i: usize) -> Mod {
        match *self {
            Modulations::PerBlock { vec, hidden } => {
                let all = p.linear(g, "modulation.lin", vec, 3 * hidden);
                Mod::of(&g.split(all, 1, 3))
            }
            Modulations::Approximated { rows, .. } => Mod::row(g, rows, 3 * i),
        }
    }

    /// Shift and scale of the last norm.
    pub(super) fn last(&self, g: &mut Graph, p: &Params) -> (Node, Node) {
        match *self {
            Modulations::PerBlock { vec, hidden } => {
                let both = p.linear(g, "final_layer.adaLN_modulation.1", vec, 2 * hidden);
                let both = g.split(both, 1, 2);
                (both[0], both[1])
            }
            Modulations::Approximated { rows, .. } => {
                (row(g, rows, ROWS - 2), row(g, rows, ROWS - 1))
            }
        }
    }
}

impl Mod {
    fn of(parts: &[Node]) -> Mod {
        Mod {
            shift: parts[0],
            scale: parts[1],
            gate: parts[2],
        }
    }

    /// Three rows from the first on.
    fn row(g: &mut Graph, rows: Node, first: usize) -> Mod {
        Mod {
            shift: row(g, rows, first),
            scale: row(g, rows, first + 1),
            gate: row(g, rows, first + 2),
        }
    }
}

/// Row `at` of `[b, rows, d]` as `[b, d]`.
fn row(g: &mut Graph, rows: Node, at: usize) -> Node {
    let shape = g.shape(rows);
    let row = g.slice(rows, 1, at, at + 1);
    g.reshape(row, [shape[0], shape.last_dim()])
}

/// What all blocks of Flux are told: noise level, guidance and pooled text. SiLU is the first thing
/// that every block does with it.
fn vec(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs<'_>) -> Node {
    let dtype = g.dtype(inputs.x);
    let t = sinusoids(g, inputs.t, SINUSOIDS);
    let t = g.cast(t, dtype);
    let mut vec = mlp_embedder(g, &p.at("time_in"), t, c.hidden);
    if let Some(guidance) = inputs.guidance {
        let guidance = sinusoids(g, guidance, SINUSOIDS);
        let guidance = g.cast(guidance, dtype);
        let told = mlp_embedder(g, &p.at("guidance_in"), guidance, c.hidden);
        vec = g.add(vec, told);
    }
    if let Some(y) = inputs.y {
        let pooled = mlp_embedder(g, &p.at("vector_in"), y, c.hidden);
        vec = g.add(vec, pooled);
    }
    let vec = p.at("vec").label(g, vec);
    g.silu(vec)
}

/// Cosines, then sines, of a number's thousandths.
fn sinusoids(g: &mut Graph, t: Node, size: usize) -> Node {
    let t = g.affine(t, THOUSAND, 0.0);
    g.timestep_embed(t, size)
}

fn mlp_embedder(g: &mut Graph, p: &Params, x: Node, width: usize) -> Node {
    let h = p.linear(g, "in_layer", x, width);
    let h = g.silu(h);
    p.linear(g, "out_layer", h, width)
}

/// `[b, ROWS, 64]`: noise level, guidance, number of the row.
fn described_rows(g: &mut Graph, inputs: Inputs<'_>) -> Node {
    let b = g.shape(inputs.x)[0];
    let mut told = vec![sinusoids(g, inputs.t, FEW_SINUSOIDS)];
    told.extend(inputs.guidance.map(|n| sinusoids(g, n, FEW_SINUSOIDS)));
    let told = g.concat(&told, 1); // [b, 32]
    let width = g.shape(told)[1];
    let told = g.reshape(told, [b, 1, width]);
    let zeros = vec![0.0; ROWS * width];
    let zeros = g.constant(
        &format!("{ROWS} rows of {width} zeros"),
        [1, ROWS, width],
        &zeros,
    );
    let told = g.add(zeros, told); // [b, ROWS, 32]
    let numbers = row_numbers().repeat(b);
    let name = format!("numbers of {ROWS} rows, {b} times");
    let numbers = g.constant(&name, [b, ROWS, 2 * FEW_SINUSOIDS], &numbers);
    let rows = g.concat(&[told, numbers], 2);
    g.cast(rows, g.dtype(inputs.x))
}

/// Sinusoids of the thousandths of 0, 1, 2 and on. In f32 as the models were trained with: angles
/// are hundreds of thousands, so rounding shows.
fn row_numbers() -> Vec<f32> {
    let fall = -(10_000f64.ln()) as f32;
    let frequency = |i: usize| {
        let exponent = fall * i as f32 / FEW_SINUSOIDS as f32;
        f64::from(exponent).exp() as f32
    };
    let frequencies: Vec<f32> = (0..FEW_SINUSOIDS).map(frequency).collect();
    let rows = (0..ROWS).flat_map(|row| {
        let angle = |f: &f32| f64::from(row as f32 * THOUSAND * f);
        let cosines = frequencies.iter().map(move |f| angle(f).cos() as f32);
        let sines = frequencies.iter().map(move |f| angle(f).sin() as f32);
        cosines.chain(sines).collect::<Vec<f32>>()
    });
    rows.collect()
}

/// Chroma's small network: `[b, ROWS, 64]` → `[b, ROWS, d]`.
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
