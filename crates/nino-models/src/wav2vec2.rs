//! wav2vec 2.0, an audio encoder: large, of XLSR's kind, and base. Behavior: Hugging Face's
//! `Wav2Vec2Model`, whose names are canonical, and ComfyUI's `comfy/audio_encoders/wav2vec2.py`.
//! Samples at 16 kHz `[1, 1, n, 1]` → hidden states `[1, frames, d]`, about 50 frames a second.
//!
//! A convolution over the sequence is one over an image of height one. The weight of the positional
//! convolution is stored as directions and lengths (weight norm); [`Folded`] multiplies them as it
//! reads them.

pub(crate) mod folded;

pub use folded::Folded;

use crate::{ConvShape, Find, Params};
use nino_graph::{Act, Graph, Node, PadMode};

/// Samples a second.
pub const RATE: usize = 16_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Channels of the convolutions over the samples.
    pub conv: usize,
    pub width: usize,
    pub mlp: usize,
    pub heads: usize,
    pub n_layers: usize,
    pub norm: Norm,
    /// Whether all convolutions over the samples have a bias.
    pub conv_bias: bool,
}

/// Where norms are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// A layer norm after every convolution; before attention and MLP in the layers, and once after
    /// them. The samples are normalized, too (large).
    Before,
    /// A norm of each channel after the first convolution alone; after attention and MLP in the
    /// layers, and once before them (base).
    After,
}

/// Kernel and stride of the convolutions over the samples.
const CONVS: [[usize; 2]; 7] = [[10, 5], [3, 2], [3, 2], [3, 2], [3, 2], [2, 2], [2, 2]];
/// Kernel and groups of the positional convolution.
const POSITIONS: [usize; 2] = [128, 16];
/// Name of the positional convolution.
const POS_CONV: &str = "encoder.pos_conv_embed.conv";
const EPS: f32 = 1e-5;
/// Head dimension of every published model.
const HEAD: usize = 64;

impl Config {
    /// wav2vec 2.0 large.
    pub fn large() -> Config {
        Config {
            conv: 512,
            width: 1024,
            mlp: 4096,
            heads: 16,
            n_layers: 24,
            norm: Norm::Before,
            conv_bias: true,
        }
    }

    /// wav2vec 2.0 base.
    pub fn base() -> Config {
        Config {
            width: 768,
            mlp: 3072,
            heads: 12,
            n_layers: 12,
            norm: Norm::After,
            conv_bias: false,
            ..Config::large()
        }
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not wav2vec 2.0.
    pub fn detect(find: &Find) -> Option<Config> {
        let dim = |name: &str| find(name).map(|(s, _)| s[0]);
        let conv_layer = "feature_extractor.conv_layers";
        let layer = |i: usize| format!("encoder.layers.{i}.feed_forward.intermediate_dense.weight");
        let width = dim("encoder.layer_norm.weight")?;
        let config = Config {
            conv: dim(&format!("{conv_layer}.0.conv.weight"))?,
            width,
            mlp: dim(&layer(0))?,
            heads: (width / HEAD).max(1),
            n_layers: (0..256).take_while(|&i| find(&layer(i)).is_some()).count(),
            norm: match dim(&format!("{conv_layer}.1.layer_norm.weight")) {
                Some(_) => Norm::Before,
                None => Norm::After,
            },
            conv_bias: dim(&format!("{conv_layer}.1.conv.bias")).is_some(),
        };
        let fits = width.is_multiple_of(config.heads) && width.is_multiple_of(POSITIONS[1]);
        fits.then_some(config)
    }

    /// Frames of hidden states of so many samples.
    pub fn frames(&self, samples: usize) -> usize {
        let each = |n: usize, [kernel, stride]: [usize; 2]| match n.checked_sub(kernel) {
            Some(rest) => rest / stride + 1,
            None => 0,
        };
        CONVS.into_iter().fold(samples, each)
    }

    /// The samples as the network takes them.
    pub fn normalized(&self, mut samples: Vec<f32>) -> Vec<f32> {
        const EPS: f64 = 1e-7;
        if self.norm == Norm::After {
            return samples;
        }
        let n = samples.len() as f64;
        let mean = samples.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let squares = samples.iter().map(|&v| (f64::from(v) - mean).powi(2));
        let variance = squares.sum::<f64>() / (n - 1.0);
        let scale = 1.0 / (variance + EPS).sqrt();
        for v in &mut samples {
            *v = ((f64::from(*v) - mean) * scale) as f32;
        }
        samples
    }
}

/// Hidden states `[1, frames, d]` before every layer and after the last: `n_layers` + 1.
pub fn encoder(g: &mut Graph, p: &Params, c: &Config, samples: Node) -> Vec<Node> {
    let mut x = samples;
    for (i, [kernel, stride]) in CONVS.into_iter().enumerate() {
        let p = &p.at(format_args!("feature_extractor.conv_layers.{i}"));
        let conv = ConvShape {
            cout: c.conv,
            kernel: [1, 1, kernel],
            stride: [1, 1, stride],
            pad: [0; 4],
            bias: c.conv_bias,
        };
        x = p.conv_with(g, "conv", x, conv);
        x = match c.norm {
            Norm::Before => p.layer_norm(g, "layer_norm", x, EPS),
            Norm::After if i == 0 => p.group_norm(g, "layer_norm", x, c.conv, EPS),
            Norm::After => x,
        };
        x = g.act(x, Act::Gelu);
    }
    let n = g.shape(x)[2];
    let x = g.reshape(x, [1, n, c.conv]);
    let x = p.layer_norm(g, "feature_projection.layer_norm", x, EPS);
    let x = p.linear(g, "feature_projection.projection", x, c.width);
    let x = p.at("feature_projection").label(g, x);

    let positions = positions(g, p, c, x);
    let mut x = g.add(x, positions);
    if c.norm == Norm::After {
        x = p.layer_norm(g, "encoder.layer_norm", x, EPS);
    }
    let mut states = Vec::with_capacity(c.n_layers + 1);
    for i in 0..c.n_layers {
        states.push(x);
        x = layer(g, &p.at(format_args!("encoder.layers.{i}")), c, x);
    }
    if c.norm == Norm::Before {
        x = p.layer_norm(g, "encoder.layer_norm", x, EPS);
    }
    states.push(x);
    states
}

/// Positions relative to the neighbors of a frame: a convolution in groups of channels.
fn positions(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let [kernel, groups] = POSITIONS;
    let (n, each) = (g.shape(x)[1], c.width / groups);
    let x = g.reshape(x, [1, 1, n, c.width]);
    // As many frames out as in: PyTorch's padding gives one more, which is left out.
    let x = g.pad(x, 2, kernel / 2, kernel / 2 - 1, PadMode::Constant(0.0));
    // Made at load, in f32.
    let w = p.small(
        g,
        &format!("{POS_CONV}.weight_v"),
        [c.width, 1, kernel, each],
    );
    let bias = p.vector(g, &format!("{POS_CONV}.bias"), c.width);
    let parts: Vec<Node> = (0..groups)
        .map(|i| {
            let (from, to) = (i * each, (i + 1) * each);
            let x = g.slice(x, 3, from, to);
            let w = g.slice(w, 0, from, to);
            g.conv(x, w, None, [1, 1], [0; 4])
        })
        .collect();
    let y = g.concat(&parts, 3); // [1, 1, n, d]
    let y = g.reshape(y, [1, n, c.width]);
    let y = g.add(y, bias);
    let y = g.act(y, Act::Gelu);
    p.at("encoder.pos_conv_embed").label(g, y)
}

fn layer(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let y = match c.norm {
        Norm::Before => {
            let h = p.layer_norm(g, "layer_norm", x, EPS);
            let h = attention(g, &p.at("attention"), c, h);
            let x = g.add(x, h);
            let h = p.layer_norm(g, "final_layer_norm", x, EPS);
            let h = feed_forward(g, &p.at("feed_forward"), c, h);
            g.add(x, h)
        }
        Norm::After => {
            let h = attention(g, &p.at("attention"), c, x);
            let x = g.add(x, h);
            let x = p.layer_norm(g, "layer_norm", x, EPS);
            let h = feed_forward(g, &p.at("feed_forward"), c, x);
            let x = g.add(x, h);
            p.layer_norm(g, "final_layer_norm", x, EPS)
        }
    };
    p.label(g, y)
}

fn attention(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let n = g.shape(x)[1];
    let [q, k, v] = ["q_proj", "k_proj", "v_proj"].map(|name| {
        let y = p.linear(g, name, x, c.width);
        g.reshape(y, [1, n, c.heads, c.width / c.heads]) // [1, n, heads, hd]
    });
    let y = g.attention(q, k, v, None);
    let y = g.reshape(y, [1, n, c.width]);
    p.linear(g, "out_proj", y, c.width)
}

fn feed_forward(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let h = p.linear(g, "intermediate_dense", x, c.mlp);
    let h = g.act(h, Act::Gelu);
    p.linear(g, "output_dense", h, c.width)
}
