//! The audio of a sound-to-video model (Wan 2.2 S2V): features of the audio to tokens of every
//! latent frame, and the cross-attention of the video's tokens to those of their own frame.
//! Behavior: ComfyUI's `CausalAudioEncoder` and `AudioInjector_WAN`.

use super::block::{attention_to, modulated};
use super::{Audio, Config};
use crate::{ConvShape, Params};
use nino_graph::{Binary, BinaryFn, Graph, Node, PadMode, ReduceFn};

/// Blocks that a cross-attention to the audio follows.
const INJECTED: [usize; 12] = [0, 4, 8, 12, 16, 20, 24, 27, 30, 33, 36, 39];
/// Frames of features that a convolution looks at: its own and those before it.
const KERNEL: usize = 3;
/// Epsilon of the encoder's norms.
const EPS: f32 = 1e-6;
/// Epsilon of the norm before a cross-attention: PyTorch's default.
const ADAIN_EPS: f32 = 1e-5;
/// Frames of features under one latent frame, by two convolutions of stride 2.
pub const FRAMES: usize = 4;

/// The audio of every latent frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Embedded {
    /// `[b·frames, tokens + 1, d]`
    tokens: Node,
    /// `[b·frames, d]`
    global: Node,
    frames: usize,
}

/// How many latent frames `n` frames of features are for.
pub fn latent_frames(n: usize) -> usize {
    n.div_ceil(FRAMES)
}

/// Hidden states of the audio encoder, `[b, states, n, width]`, as tokens of latent frames.
pub(super) fn encode(g: &mut Graph, p: &Params, c: &Config, audio: Audio, x: Node) -> Embedded {
    let x = weighted(g, p, audio, x); // [b, 1, n, width]
    let b = g.shape(x)[0];
    let p = &p.at("encoder");
    let narrow = c.hidden / 4;

    let local = causal_conv(g, p, "conv1_local", x, audio.tokens * narrow, 1);
    let n = g.shape(local)[2];
    let local = g.reshape(local, [b, n, audio.tokens, narrow]);
    let local = g.permute(local, &[0, 2, 1, 3]); // [b, tokens, n, d/4]
    let local = g.reshape(local, [b * audio.tokens, 1, n, narrow]);
    let local = downsampled(g, p, c, local); // [b·tokens, 1, frames, d]
    let frames = g.shape(local)[2];
    let local = g.reshape(local, [b, audio.tokens, frames, c.hidden]);
    let local = g.permute(local, &[0, 2, 1, 3]); // [b, frames, tokens, d]
    let local = g.reshape(local, [b * frames, audio.tokens, c.hidden]);
    // One learned token more.
    let local = g.pad(local, 1, 0, 1, PadMode::Constant(0.0));
    let padding = p.vector(g, "padding_tokens", c.hidden);
    let padding = g.reshape(padding, [1, 1, c.hidden]);
    let padding = g.pad(padding, 1, audio.tokens, 0, PadMode::Constant(0.0));
    let tokens = g.add(local, padding);
    let tokens = p.label(g, tokens);

    let global = causal_conv(g, p, "conv1_global", x, narrow, 1);
    let global = downsampled(g, p, c, global); // [b, 1, frames, d]
    let global = g.reshape(global, [b * frames, c.hidden]);
    let global = p.linear(g, "final_linear", global, c.hidden);
    Embedded {
        tokens,
        global,
        frames,
    }
}

/// The mean of the hidden states by learned weights, `[b, 1, n, width]`.
fn weighted(g: &mut Graph, p: &Params, audio: Audio, x: Node) -> Node {
    let shape = g.shape(x);
    let weights = p.vector(g, "weights", audio.states);
    let weights = g.reshape(weights, [1, audio.states]);
    let weights = g.silu(weights);
    let sum = g.reduce(weights, 1, ReduceFn::Sum);
    let weights = g.push(Binary {
        a: weights,
        b: sum,
        f: BinaryFn::Div,
    });
    let weights = g.reshape(weights, [1, audio.states, 1, 1]);
    let x = g.mul(x, weights);
    let x = g.reshape(x, [shape[0], audio.states, shape[2] * shape[3]]);
    let x = g.reduce(x, 1, ReduceFn::Sum);
    g.reshape(x, [shape[0], 1, shape[2], shape[3]])
}

/// A norm and an activation, then two convolutions of stride 2 with the same behind them.
fn downsampled(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let mut x = normed(g, x);
    for (name, cout) in [("conv2", c.hidden / 2), ("conv3", c.hidden)] {
        x = causal_conv(g, p, name, x, cout, 2);
        x = normed(g, x);
    }
    x
}

fn normed(g: &mut Graph, x: Node) -> Node {
    let x = g.layer_norm(x, None, None, EPS);
    g.silu(x)
}

/// A convolution over `[b, 1, n, c]` that looks back; the first frame stands for those before it.
fn causal_conv(g: &mut Graph, p: &Params, name: &str, x: Node, cout: usize, stride: usize) -> Node {
    let x = g.pad(x, 2, KERNEL - 1, 0, PadMode::Replicate);
    let shape = ConvShape {
        cout,
        kernel: [1, 1, KERNEL],
        stride: [1, 1, stride],
        pad: [0; 4],
        bias: true,
    };
    p.conv_with(g, &format!("{name}.conv"), x, shape)
}

/// Tokens `[b, n, d]` after block `i`. The first `n_video` of them, which are the video's, attend
/// to the audio of their frame.
pub(super) fn inject(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    x: Node,
    (i, n_video): (usize, usize),
    audio: &Embedded,
) -> Node {
    let Some(layer) = INJECTED.iter().position(|&block| block == i) else {
        return x;
    };
    let (b, n) = (g.shape(x)[0], g.shape(x)[1]);
    let video = if n == n_video {
        x
    } else {
        g.slice(x, 1, 0, n_video)
    };
    // [b·frames, tokens of a frame, d]
    let each = n_video / audio.frames.max(1);
    let by_frame = g.reshape(video, [b * audio.frames, each, c.hidden]);
    let global = g.silu(audio.global);
    let adain = format!("injector_adain_layers.{layer}.linear");
    let vectors = p.linear(g, &adain, global, 2 * c.hidden);
    let shift = g.slice(vectors, 1, 0, c.hidden);
    let scale = g.slice(vectors, 1, c.hidden, 2 * c.hidden);
    let h = modulated(g, by_frame, shift, scale, ADAIN_EPS);
    let p = &p.at(format_args!("injector.{layer}"));
    let h = attention_to(g, p, c, h, audio.tokens);
    let y = g.add(by_frame, h);
    let y = g.reshape(y, [b, n_video, c.hidden]);
    if n == n_video {
        return y;
    }
    let rest = g.slice(x, 1, n_video, n);
    g.concat(&[y, rest], 1)
}
