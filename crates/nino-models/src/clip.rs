//! CLIP text encoders: OpenAI's CLIP-L, OpenCLIP's H and G. Behavior:
//! <https://github.com/openai/CLIP> `clip/model.py`; names are Hugging Face's `CLIPTextModel`'s.
//! Token ids `[b, n]` → hidden states `[b, n, d]`, and the pooled embedding `[b, proj]`.

use crate::{Find, Params};
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node};

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub vocab: usize,
    pub max_tokens: usize,
    pub width: usize,
    pub mlp: usize,
    pub heads: usize,
    pub n_layers: usize,
    pub act: Act,
    /// Width of the projected pooled embedding, where the file has a projection.
    pub projection: Option<usize>,
}

/// Which outputs the encoder returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The layer whose hidden states are returned: 1 is the last, 2 the one before it (clip skip).
    pub skip: usize,
    /// Whether the final layer norm is applied to them.
    pub norm: bool,
    pub pooled: Pooled,
}

/// Whether to return the pooled embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooled {
    No,
    /// The last hidden state of the end token, after the final layer norm (Flux).
    Plain,
    /// The same through `text_projection`, where the file has one (SDXL).
    Projected,
}

#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    pub hidden: Node,
    pub pooled: Option<Node>,
}

const TOKENS: &str = "text_model.embeddings.token_embedding.weight";
const POSITIONS: &str = "text_model.embeddings.position_embedding.weight";
const LAYERS: &str = "text_model.encoder.layers";
/// Projects the end token's hidden state to the pooled embedding.
pub(crate) const PROJECTION: &str = "text_projection.weight";
const EPS: f32 = 1e-5;
const HEAD: usize = 64;

impl Config {
    /// OpenAI's ViT-L: SD 1.x, and one of the two encoders of SDXL and of Flux.
    pub fn clip_l() -> Config {
        Config {
            vocab: 49408,
            max_tokens: 77,
            width: 768,
            mlp: 3072,
            heads: 12,
            n_layers: 12,
            act: Act::QuickGelu,
            projection: Some(768),
        }
    }

    /// OpenCLIP's ViT-H: SD 2.x.
    pub fn clip_h() -> Config {
        Config {
            width: 1024,
            mlp: 4096,
            heads: 16,
            n_layers: 24,
            act: Act::Gelu,
            projection: Some(1024),
            ..Config::clip_l()
        }
    }

    /// OpenCLIP's ViT-bigG: the other encoder of SDXL.
    pub fn clip_g() -> Config {
        Config {
            width: 1280,
            mlp: 5120,
            heads: 20,
            n_layers: 32,
            projection: Some(1280),
            ..Config::clip_h()
        }
    }

    /// OpenCLIP's ViT-H without its last layer, which SD 2.x does not use, as in diffusers' files.
    pub fn clip_h_penultimate() -> Config {
        Config {
            n_layers: 23,
            ..Config::clip_h()
        }
    }

    /// The encoder of nino-emoji, the built-in model: it has its own vocabulary and short prompts.
    pub fn nino_emoji() -> Config {
        Config {
            vocab: 3072,
            max_tokens: 32,
            width: 256,
            mlp: 1024,
            heads: 4,
            n_layers: 4,
            act: Act::QuickGelu,
            projection: None,
        }
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not a CLIP text encoder.
    pub fn detect(find: &Find) -> Option<Config> {
        let shape = |name: &str| find(name).map(|(s, _)| s);
        let [vocab, width] = *shape(TOKENS)? else {
            return None;
        };
        let fc1 = |i: usize| shape(&format!("{LAYERS}.{i}.mlp.fc1.weight"));
        Some(Config {
            vocab,
            width,
            max_tokens: shape(POSITIONS)?[0],
            mlp: fc1(0)?[0],
            heads: (width / HEAD).max(1),
            n_layers: (0..256).take_while(|&i| fc1(i).is_some()).count(),
            // Only OpenAI's own model, the narrowest, uses QuickGELU.
            act: if width <= 768 {
                Act::QuickGelu
            } else {
                Act::Gelu
            },
            projection: shape(PROJECTION).map(|s| s[0]),
        })
    }
}

/// Token embeddings `[b, n, d]` of ids `[b, n]` (i32). Textual inversion replaces some of them.
pub fn embed(g: &mut Graph, p: &Params, c: &Config, ids: Node, dtype: DType) -> Node {
    let table = p.matrix(g, TOKENS, c.vocab, c.width);
    g.gather(table, ids, dtype)
}

/// Records the encoder from token embeddings on. `end` `[b, 1, n]` is 1 at each prompt's end token
/// and 0 elsewhere.
pub fn encoder(g: &mut Graph, p: &Params, c: &Config, x: Node, end: Node, want: Want) -> Encoded {
    let n = g.shape(x)[1];
    let positions = p.matrix(g, POSITIONS, c.max_tokens, c.width);
    let positions = g.slice(positions, 0, 0, n);
    let positions = g.cast(positions, g.dtype(x));
    let mut h = g.add(x, positions);
    let mask = causal_mask(g, n);
    let stop = c.n_layers + 1 - want.skip.clamp(1, c.n_layers);
    let has_pooled = want.pooled != Pooled::No;
    let last = if has_pooled { c.n_layers } else { stop };
    let mut hidden = h;
    for i in 0..last {
        h = layer(g, &p.at(format_args!("{LAYERS}.{i}")), c, h, mask);
        if i + 1 == stop {
            hidden = h;
        }
    }
    let norm = |g: &mut Graph, x| p.layer_norm(g, "text_model.final_layer_norm", x, EPS);
    let pooled = has_pooled.then(|| {
        let b = g.shape(h)[0];
        let y = norm(g, h);
        let y = g.matmul(end, y); // [b, 1, d]
        let y = g.reshape(y, [b, c.width]);
        match c.projection.filter(|_| want.pooled == Pooled::Projected) {
            Some(out) => p.linear_no_bias(g, "text_projection", y, out),
            None => y,
        }
    });
    if want.norm {
        hidden = norm(g, hidden);
    }
    Encoded { hidden, pooled }
}

fn layer(g: &mut Graph, p: &Params, c: &Config, x: Node, mask: Node) -> Node {
    let h = p.layer_norm(g, "layer_norm1", x, EPS);
    let h = self_attn(g, &p.at("self_attn"), c, h, mask);
    let x = g.add(x, h);
    let h = p.layer_norm(g, "layer_norm2", x, EPS);
    let h = p.linear(g, "mlp.fc1", h, c.mlp);
    let h = g.act(h, c.act);
    let h = p.linear(g, "mlp.fc2", h, c.width);
    let y = g.add(x, h);
    p.label(g, y)
}

fn self_attn(g: &mut Graph, p: &Params, c: &Config, x: Node, mask: Node) -> Node {
    let (b, n, d) = (g.shape(x)[0], g.shape(x)[1], c.width);
    let [q, k, v] = ["q_proj", "k_proj", "v_proj"].map(|name| {
        let y = p.linear(g, name, x, d);
        g.reshape(y, [b, n, c.heads, d / c.heads]) // [b, n, heads, hd]
    });
    let y = g.attention(q, k, v, Some(mask));
    let y = g.reshape(y, [b, n, d]);
    p.linear(g, "out_proj", y, d)
}

/// A token attends to itself and to the tokens before it.
fn causal_mask(g: &mut Graph, n: usize) -> Node {
    let values: Vec<f32> = (0..n * n)
        .map(|i| if i % n > i / n { -1e30 } else { 0.0 })
        .collect();
    g.constant(&format!("causal mask of {n}"), [1, 1, n, n], &values)
}
