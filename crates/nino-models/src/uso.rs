//! USO by ByteDance: projects the hidden states of three SigLIP layers to style tokens, which
//! precede the text tokens of Flux after its `txt_in`. Behavior: ComfyUI's
//! `SigLIPMultiFeatProjModel`, whose names are canonical.
//! Hidden states `[b, n, siglip]` of a low, a middle and a high layer → tokens
//! `[b, 3·style, hidden]`.

use crate::{Find, Params};
use nino_graph::{Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Tokens of SigLIP's hidden states.
    pub tokens: usize,
    /// Style tokens per layer of SigLIP.
    pub style: usize,
    /// Width of SigLIP's hidden states.
    pub siglip: usize,
    /// Width of Flux's tokens.
    pub hidden: usize,
}

const EPS: f32 = 1e-5;

impl Config {
    /// The published one, for Flux.1 dev.
    pub fn dev() -> Config {
        Config {
            tokens: 729,
            style: 64,
            siglip: 1152,
            hidden: 3072,
        }
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not USO's.
    pub fn detect(find: &Find) -> Option<Config> {
        let [style, tokens] = *find("high_embedding_linear.0.weight")?.0 else {
            return None;
        };
        let [hidden, siglip] = *find("high_projection.weight")?.0 else {
            return None;
        };
        Some(Config {
            tokens,
            style,
            siglip,
            hidden,
        })
    }
}

/// Hidden states of a low, a middle and a high layer to tokens; those of the high layer are first.
pub fn projector(g: &mut Graph, p: &Params, c: &Config, states: [Node; 3]) -> Node {
    let [low, mid, high] = states;
    let tokens = [("high", high), ("mid", mid), ("low", low)].map(|(name, states)| {
        let x = g.permute(states, &[0, 2, 1]); // [b, siglip, n]
        let x = p.linear(g, &format!("{name}_embedding_linear.0"), x, c.style);
        let x = g.silu(x);
        let x = g.permute(x, &[0, 2, 1]); // [b, style, siglip]
        let x = p.layer_norm(g, &format!("{name}_layer_norm"), x, EPS);
        p.linear(g, &format!("{name}_projection"), x, c.hidden)
    });
    g.concat(&tokens, 1)
}
