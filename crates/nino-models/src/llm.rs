//! Decoder-only language models as text encoders: Qwen3, the language models of Qwen2.5-VL and
//! Qwen3-VL, and Mistral. Behavior: Hugging Face's `Qwen3Model` and similar, whose names are
//! canonical. Token ids `[b, n]` → hidden states `[b, n, taps · d]`.
//!
//! A block is causal grouped-query attention and a gated MLP (SwiGLU), each after an RMS norm.
//! Image models are conditioned on the hidden states between certain layers (`Want::taps`). Layers
//! after the last tap are not recorded, so their weights are never loaded.

use crate::residual::Residual;
use crate::{Find, Params};
use nino_dtype::DType;
use nino_graph::{Graph, Node, RopeLayout, Shape};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub kind: Kind,
    pub vocab: usize,
    pub width: usize,
    pub mlp: usize,
    pub heads: usize,
    /// Heads of keys and values. Each is shared by `heads / kv_heads` heads of queries.
    pub kv_heads: usize,
    /// Head dimension.
    pub head: usize,
    pub n_layers: usize,
    /// Which dimensions of a head are rotated as pairs. llama.cpp's files of Mistral have them
    /// interleaved.
    pub rope: RopeLayout,
}

/// The architecture, which tensor shapes alone do not determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Queries and keys go through an RMS norm per head.
    Qwen3,
    /// The same, with a vision tower and interleaved M-RoPE.
    Qwen3Vl,
    /// Queries, keys and values have biases. Image tokens have rows and columns (M-RoPE).
    Qwen25Vl,
    /// Neither norms nor biases.
    Mistral3,
}

/// Which hidden states the encoder returns.
#[derive(Clone, Debug)]
pub struct Want<'a> {
    /// The inputs of these layers are returned, concatenated along the last axis. The index
    /// `n_layers` means the output of the last layer, before the final norm.
    pub taps: &'a [usize],
    /// Padding mask `[b, 1, 1, n]`, added to the scores: 0, or a large negative number for padding.
    pub mask: Node,
    /// M-RoPE positions of every token: frame, row and column. `None` for 0, 1, 2 and so on along
    /// all three axes.
    pub positions: Option<&'a [[u32; 3]]>,
    /// Deepstack embeddings of Qwen3-VL's vision tower, `[b, n, d]` each, added to the hidden
    /// states after the first, second, … layer.
    pub deepstack: &'a [Node],
    /// Storage type of activations inside the layers. The hidden states between them are f32, or
    /// whatever the token embeddings are.
    pub layers: DType,
}

/// The embedding table. Its rows are gathered by id (see [`crate::is_table`]).
pub(crate) const TOKENS: &str = "model.embed_tokens.weight";
/// A layer of Qwen3-VL's vision tower, under the names that files have for it.
const VISION: [&str; 2] = [
    "visual.deepstack_merger_list.0.norm.weight",
    "model.visual.deepstack_merger_list.0.norm.weight",
];
/// Weight of the final norm.
pub(crate) const FINAL_NORM: &str = "model.norm.weight";
/// The causal mask's value for later tokens. The sum with a padding mask's value is still finite.
const MASKED: f32 = -1e30;
/// Head dimension where no norm has its size.
const HEAD: usize = 128;

impl Kind {
    /// Base of the RoPE frequencies.
    fn theta(self) -> f64 {
        match self {
            Kind::Qwen3 | Kind::Qwen25Vl => 1e6,
            Kind::Qwen3Vl => 5e6,
            Kind::Mistral3 => 1e9,
        }
    }

    fn eps(self) -> f32 {
        match self {
            Kind::Qwen3 | Kind::Qwen3Vl | Kind::Qwen25Vl => 1e-6,
            Kind::Mistral3 => 1e-5,
        }
    }

    /// Whether every file has the final norm. Files of Flux.2's Mistral may end after the thirtieth
    /// layer, without the norm.
    pub(crate) fn always_has_final_norm(self) -> bool {
        self != Kind::Mistral3
    }
}

impl Config {
    /// The encoder of Z-Image and Flux.2 klein 4B.
    pub fn qwen3_4b() -> Config {
        Config {
            kind: Kind::Qwen3,
            vocab: 151_936,
            width: 2560,
            mlp: 9728,
            heads: 32,
            kv_heads: 8,
            head: 128,
            n_layers: 36,
            rope: RopeLayout::Halves,
        }
    }

    /// The encoder of Flux.2 klein 9B.
    pub fn qwen3_8b() -> Config {
        Config {
            width: 4096,
            mlp: 12288,
            ..Config::qwen3_4b()
        }
    }

    /// The encoder of Anima.
    pub fn qwen3_06b() -> Config {
        Config {
            width: 1024,
            mlp: 3072,
            heads: 16,
            n_layers: 28,
            ..Config::qwen3_4b()
        }
    }

    /// The language model of Krea 2's encoder.
    pub fn qwen3_vl_4b() -> Config {
        Config {
            kind: Kind::Qwen3Vl,
            ..Config::qwen3_4b()
        }
    }

    /// The encoder of Qwen-Image.
    pub fn qwen25_vl_7b() -> Config {
        Config {
            kind: Kind::Qwen25Vl,
            vocab: 152_064,
            width: 3584,
            mlp: 18944,
            heads: 28,
            kv_heads: 4,
            n_layers: 28,
            ..Config::qwen3_4b()
        }
    }

    /// The encoder of Flux.2 dev.
    pub fn mistral3_24b() -> Config {
        Config {
            kind: Kind::Mistral3,
            vocab: 131_072,
            width: 5120,
            mlp: 32768,
            n_layers: 40,
            ..Config::qwen3_4b()
        }
    }

    /// Reads sizes from tensor shapes alone; `None` when this is no known language model.
    pub fn detect(find: &Find) -> Option<Config> {
        let shape = |name: &str| find(name).map(|(s, _)| s);
        let layer = |i: usize, name: &str| shape(&format!("model.layers.{i}.{name}"));
        let matrix = |s: Shape| match *s {
            [rows, columns] => Some((rows, columns)),
            _ => None,
        };
        let (vocab, width) = matrix(shape(TOKENS)?)?;
        let has_vision = || VISION.iter().any(|name| shape(name).is_some());
        let (kind, head) = match layer(0, "self_attn.q_norm.weight").as_deref() {
            Some(&[head]) if has_vision() => (Kind::Qwen3Vl, head),
            Some(&[head]) => (Kind::Qwen3, head),
            Some(_) => return None,
            None if layer(0, "self_attn.k_proj.bias").is_some() => (Kind::Qwen25Vl, HEAD),
            None => (Kind::Mistral3, HEAD),
        };
        let (queries, _) = matrix(layer(0, "self_attn.q_proj.weight")?)?;
        let (keys, _) = matrix(layer(0, "self_attn.k_proj.weight")?)?;
        let (mlp, _) = matrix(layer(0, "mlp.gate_proj.weight")?)?;
        let norm = |i: usize| layer(i, "input_layernorm.weight");
        let fits = head > 0
            && head.is_multiple_of(2)
            && keys > 0
            && keys.is_multiple_of(head)
            && queries.is_multiple_of(keys);
        fits.then(|| Config {
            kind,
            vocab,
            width,
            mlp,
            heads: queries / head,
            kv_heads: keys / head,
            head,
            n_layers: (0..256).take_while(|&i| norm(i).is_some()).count(),
            rope: RopeLayout::Halves,
        })
    }
}

/// Token embeddings `[b, n, d]` of ids `[b, n]` (i32).
pub fn embed(g: &mut Graph, p: &Params, c: &Config, ids: Node, dtype: DType) -> Node {
    let table = p.matrix(g, TOKENS, c.vocab, c.width);
    g.gather(table, ids, dtype)
}

/// The hidden states that `want` names, from token embeddings `[b, n, d]`.
pub fn encoder(g: &mut Graph, p: &Params, c: &Config, x: Node, want: &Want<'_>) -> Node {
    let n = g.shape(x)[1];
    let args = LayerArgs {
        rope: rope_table(g, c, n, want.positions),
        mask: attention_mask(g, n, want.mask),
        residual: Residual::new(want.layers),
    };
    let residual = args.residual;
    let mut tapped = Vec::new();
    let mut h = residual.enter(g, x);
    let last = want.taps.iter().copied().max().unwrap_or(0);
    for i in 0..=last.min(c.n_layers) {
        if want.taps.contains(&i) {
            tapped.push(residual.leave(g, h));
        }
        if i < last.min(c.n_layers) {
            h = block(g, &p.at(format_args!("model.layers.{i}")), c, h, args);
            if let Some(&embeds) = want.deepstack.get(i) {
                let embeds = residual.enter(g, embeds);
                h = g.add(h, embeds);
            }
        }
    }
    match tapped[..] {
        [one] => one,
        _ => g.concat(&tapped, 2),
    }
}

/// The final norm. [`encoder`] does not apply it: it returns the hidden states between layers.
pub fn final_norm(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let weight = p.vector(g, FINAL_NORM, c.width);
    g.rms_norm(x, Some(weight), c.kind.eps())
}

/// What a layer is given besides the tokens; the same in every layer.
#[derive(Clone, Copy)]
struct LayerArgs {
    /// RoPE table, `[n, hd/2, 2]`.
    rope: Node,
    /// Causal and padding mask, `[b, 1, n, n]`.
    mask: Node,
    residual: Residual,
}

fn block(g: &mut Graph, p: &Params, c: &Config, x: Node, args: LayerArgs) -> Node {
    let residual = args.residual;
    let h = rms_norm(g, p, c, ("input_layernorm", x), residual);
    let h = self_attention(g, &p.at("self_attn"), c, h, args);
    let h = residual.out(g, h);
    let x = g.add(x, h);
    let h = rms_norm(g, p, c, ("post_attention_layernorm", x), residual);
    let p_mlp = p.at("mlp");
    let gate = p_mlp.linear_no_bias(g, "gate_proj", h, c.mlp);
    let gate = g.silu(gate);
    let h = p_mlp.linear_no_bias(g, "up_proj", h, c.mlp);
    let h = residual.out(g, h);
    let h = g.mul(gate, h);
    let h = p_mlp.linear_no_bias(g, "down_proj", h, c.width);
    let y = g.add(x, h);
    p.label(g, y)
}

fn rms_norm(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    (name, x): (&str, Node),
    residual: Residual,
) -> Node {
    let weight = p.vector(g, &format!("{name}.weight"), c.width);
    let h = g.rms_norm(x, Some(weight), residual.eps(c.kind.eps()));
    residual.layer(g, h)
}

fn self_attention(g: &mut Graph, p: &Params, c: &Config, x: Node, args: LayerArgs) -> Node {
    let (b, n) = (g.shape(x)[0], g.shape(x)[1]);
    let mut project = |name: &str, heads: usize| {
        let layer = format!("{name}_proj");
        let mut y = match c.kind {
            Kind::Qwen25Vl => p.linear(g, &layer, x, heads * c.head),
            Kind::Qwen3 | Kind::Qwen3Vl | Kind::Mistral3 => {
                p.linear_no_bias(g, &layer, x, heads * c.head)
            }
        };
        y = g.reshape(y, [b, n, heads, c.head]); // [b, n, heads, hd]
        if name == "v" {
            return y;
        }
        if matches!(c.kind, Kind::Qwen3 | Kind::Qwen3Vl) {
            let weight = p.vector(g, &format!("{name}_norm.weight"), c.head);
            y = g.rms_norm(y, Some(weight), c.kind.eps());
        }
        g.rope(y, args.rope, c.rope)
    };
    let q = project("q", c.heads);
    let [k, v] = [project("k", c.kv_heads), project("v", c.kv_heads)];
    let [k, v] = [k, v].map(|x| repeat_kv(g, x, c.heads / c.kv_heads));
    let y = g.attention(q, k, v, Some(args.mask));
    let y = g.reshape(y, [b, n, c.heads * c.head]);
    p.linear_no_bias(g, "o_proj", y, c.width)
}

/// Repeats every head of `[b, n, heads, hd]`: head 0 `times` times, then head 1, and so on.
pub(crate) fn repeat_kv(g: &mut Graph, x: Node, times: usize) -> Node {
    if times == 1 {
        return x;
    }
    let shape = g.shape(x);
    let [b, n, heads, hd] = [0, 1, 2, 3].map(|axis| shape[axis]);
    let one = g.reshape(x, [b, n, heads, 1, hd]);
    let all = g.concat(&vec![one; times], 3); // [b, n, heads, times, hd]
    g.reshape(all, [b, n, heads * times, hd])
}

/// The causal mask plus the padding mask.
fn attention_mask(g: &mut Graph, n: usize, padding: Node) -> Node {
    let causal = |i: usize| if i % n > i / n { MASKED } else { 0.0 };
    let values: Vec<f32> = (0..n * n).map(causal).collect();
    let causal = g.constant(&format!("order of {n} tokens"), [1, 1, n, n], &values);
    g.add(causal, padding) // [b, 1, n, n]
}

/// M-RoPE of Qwen2.5-VL: the numbers of frequencies for frames, rows and columns (`mrope_section`).
const MROPE_SECTION: [usize; 3] = [16, 24, 24];
/// Interleaved M-RoPE of Qwen3-VL: this many frequencies alternate between frames, rows and
/// columns. The rest are for frames.
const MROPE_INTERLEAVED: usize = 60;

/// RoPE table `[n, hd/2, 2]` of cosine and sine. Angles are products in f32, as in training.
fn rope_table(g: &mut Graph, c: &Config, n: usize, positions: Option<&[[u32; 3]]>) -> Node {
    let half = c.head / 2;
    let theta = c.kind.theta();
    let frequency = |i: usize| {
        let exponent = (2 * i) as f32 / c.head as f32;
        1.0 / theta.powf(f64::from(exponent)) as f32
    };
    let frequencies: Vec<f32> = (0..half).map(frequency).collect();
    let axis = |i: usize| match i {
        _ if c.kind == Kind::Qwen3Vl => [0, 1, 2][if i < MROPE_INTERLEAVED { i % 3 } else { 0 }],
        _ if i < MROPE_SECTION[0] => 0,
        _ if i < MROPE_SECTION[0] + MROPE_SECTION[1] => 1,
        _ => 2,
    };
    let position = |token: usize, i: usize| match positions {
        Some(positions) => positions.get(token).map_or(0, |p| p[axis(i)]) as f32,
        None => token as f32,
    };
    let mut values = Vec::with_capacity(n * c.head);
    for token in 0..n {
        for (i, f) in frequencies.iter().enumerate() {
            let angle = f64::from(position(token, i) * f);
            values.extend([angle.cos() as f32, angle.sin() as f32]);
        }
    }
    let name = match positions {
        Some(positions) => format!("rotations of tokens at {positions:?}, {theta}"),
        None => format!("rotations of {n} tokens, heads of {}, {theta}", c.head),
    };
    g.constant(&name, [n, half, 2], &values)
}
