//! CLIP text encoders: OpenAI's CLIP-L, OpenCLIP's H and G.
//! Behaviour: <https://github.com/openai/CLIP> `clip/model.py`, Hugging Face's `CLIPTextModel`.
//! Token ids `[b, n]` → hidden states `[b, n, d]`, and the pooled vector `[b, proj]`.

use crate::{Find, Params};
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node};

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub names: Names,
    pub vocab: usize,
    pub max_tokens: usize,
    pub width: usize,
    pub mlp: usize,
    pub heads: usize,
    pub n_layers: usize,
    pub act: Act,
    /// Size of the pooled vector, where the file has a projection.
    pub projection: Option<usize>,
}

/// The two layouts text encoders come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// `text_model.encoder.layers.0.self_attn.q_proj`: CLIP-L in every file, G in files of its own.
    Transformers,
    /// `transformer.resblocks.0.attn.in_proj_weight`: H and G inside SD 2.x and SDXL checkpoints.
    OpenClip,
}

/// Which hidden states to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// 1 is the last layer, 2 the one before it (clip skip).
    pub skip: usize,
    /// Apply the final norm to them.
    pub norm: bool,
    pub pooled: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    pub hidden: Node,
    pub pooled: Option<Node>,
}

const EPS: f32 = 1e-5;
const HEAD: usize = 64;

impl Config {
    /// Reads sizes from tensor shapes alone; `None` when this is not a CLIP text encoder.
    pub fn detect(find: &Find) -> Option<Config> {
        let shape = |name: &str| find(name).map(|(s, _)| s);
        let names = if shape(Names::OpenClip.token_embedding()).is_some() {
            Names::OpenClip
        } else {
            Names::Transformers
        };
        let [vocab, width] = *shape(names.token_embedding())? else {
            return None;
        };
        let fc1 = |i| shape(&format!("{}.{}.weight", names.layer(i), names.mlp()[0]));
        let projection = match names {
            Names::Transformers => shape("text_projection.weight").map(|s| s[0]),
            Names::OpenClip => shape("text_projection").map(|s| s.last_dim()),
        };
        Some(Config {
            names,
            vocab,
            width,
            max_tokens: shape(names.position_embedding())?[0],
            mlp: fc1(0)?[0],
            heads: (width / HEAD).max(1),
            n_layers: (0..256).take_while(|&i| fc1(i).is_some()).count(),
            // Only OpenAI's own model, the narrow one, has the quick form.
            act: if width <= 768 {
                Act::QuickGelu
            } else {
                Act::Gelu
            },
            projection,
        })
    }
}

/// Token embeddings `[b, n, d]` of ids `[b, n]` (i32). Textual inversion replaces some of them.
pub fn embed(g: &mut Graph, p: &Params, c: &Config, ids: Node, dtype: DType) -> Node {
    let table = p.matrix(g, c.names.token_embedding(), c.vocab, c.width);
    g.gather(table, ids, dtype)
}

/// From token embeddings. `end` `[b, 1, n]` is 1 at each prompt's end token and 0 elsewhere.
pub fn encoder(g: &mut Graph, p: &Params, c: &Config, x: Node, end: Node, want: Want) -> Encoded {
    let n = g.shape(x)[1];
    let positions = p.matrix(g, c.names.position_embedding(), c.max_tokens, c.width);
    let positions = g.slice(positions, 0, 0, n);
    let positions = g.cast(positions, g.dtype(x));
    let mut h = g.add(x, positions);
    let mask = causal_mask(g, n);
    let stop = c.n_layers + 1 - want.skip.clamp(1, c.n_layers);
    let last = if want.pooled { c.n_layers } else { stop };
    let mut hidden = h;
    for i in 0..last {
        h = layer(g, &p.at(c.names.layer(i)), c, h, mask);
        if i + 1 == stop {
            hidden = h;
        }
    }
    let norm = |g: &mut Graph, x| p.layer_norm(g, c.names.final_norm(), x, EPS);
    let pooled = want.pooled.then(|| {
        let b = g.shape(h)[0];
        let y = norm(g, h);
        let y = g.matmul(end, y); // [b, 1, d]
        let y = g.reshape(y, [b, c.width]);
        project(g, p, c, y)
    });
    if want.norm {
        hidden = norm(g, hidden);
    }
    Encoded { hidden, pooled }
}

fn layer(g: &mut Graph, p: &Params, c: &Config, x: Node, mask: Node) -> Node {
    let [norm1, norm2] = c.names.norms();
    let [fc1, fc2] = c.names.mlp();
    let h = p.layer_norm(g, norm1, x, EPS);
    let h = attention(g, p, c, h, mask);
    let x = g.add(x, h);
    let h = p.layer_norm(g, norm2, x, EPS);
    let h = p.linear(g, fc1, h, c.mlp);
    let h = g.act(h, c.act);
    let h = p.linear(g, fc2, h, c.width);
    let y = g.add(x, h);
    p.label(g, y)
}

fn attention(g: &mut Graph, p: &Params, c: &Config, x: Node, mask: Node) -> Node {
    let shape = g.shape(x);
    let (b, n, d) = (shape[0], shape[1], c.width);
    let qkv: Vec<Node> = match c.names {
        Names::Transformers => ["q_proj", "k_proj", "v_proj"]
            .iter()
            .map(|name| p.at("self_attn").linear(g, name, x, d))
            .collect(),
        Names::OpenClip => {
            let w = p.matrix(g, "attn.in_proj_weight", 3 * d, d);
            let bias = p.vector(g, "attn.in_proj_bias", 3 * d);
            let y = g.linear(x, w, Some(bias));
            g.split(y, 2, 3)
        }
    };
    let heads: Vec<Node> = qkv
        .into_iter()
        .map(|y| g.reshape(y, [b, n, c.heads, d / c.heads])) // [b, n, heads, hd]
        .collect();
    let y = g.attention(heads[0], heads[1], heads[2], Some(mask));
    let y = g.reshape(y, [b, n, d]);
    match c.names {
        Names::Transformers => p.linear(g, "self_attn.out_proj", y, d),
        Names::OpenClip => p.linear(g, "attn.out_proj", y, d),
    }
}

fn project(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    match (c.projection, c.names) {
        (None, _) => x,
        (Some(out), Names::Transformers) => p.linear_no_bias(g, "text_projection", x, out),
        // Stored the other way around.
        (Some(out), Names::OpenClip) => {
            let w = p.matrix(g, "text_projection", c.width, out);
            g.matmul(x, w)
        }
    }
}

/// A token sees itself and those before it.
fn causal_mask(g: &mut Graph, n: usize) -> Node {
    let values: Vec<f32> = (0..n * n)
        .map(|i| if i % n > i / n { -1e30 } else { 0.0 })
        .collect();
    g.constant(&format!("causal mask of {n}"), [1, 1, n, n], &values)
}

impl Names {
    fn token_embedding(self) -> &'static str {
        match self {
            Names::Transformers => "text_model.embeddings.token_embedding.weight",
            Names::OpenClip => "token_embedding.weight",
        }
    }

    fn position_embedding(self) -> &'static str {
        match self {
            Names::Transformers => "text_model.embeddings.position_embedding.weight",
            Names::OpenClip => "positional_embedding",
        }
    }

    fn layer(self, i: usize) -> String {
        match self {
            Names::Transformers => format!("text_model.encoder.layers.{i}"),
            Names::OpenClip => format!("transformer.resblocks.{i}"),
        }
    }

    fn norms(self) -> [&'static str; 2] {
        match self {
            Names::Transformers => ["layer_norm1", "layer_norm2"],
            Names::OpenClip => ["ln_1", "ln_2"],
        }
    }

    fn mlp(self) -> [&'static str; 2] {
        match self {
            Names::Transformers => ["mlp.fc1", "mlp.fc2"],
            Names::OpenClip => ["mlp.c_fc", "mlp.c_proj"],
        }
    }

    fn final_norm(self) -> &'static str {
        match self {
            Names::Transformers => "text_model.final_layer_norm",
            Names::OpenClip => "ln_final",
        }
    }
}
