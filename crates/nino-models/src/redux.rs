//! Flux Redux by Black Forest Labs: projects SigLIP's hidden states to tokens that are appended to
//! the text embeddings. Behavior: <https://github.com/black-forest-labs/flux>
//! `image_embedders.py`, whose names are canonical.
//! Hidden states `[b, n, redux_dim]` → tokens `[b, n, txt_dim]`.

use crate::{Find, Params};
use nino_graph::{Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Width of SigLIP's hidden states.
    pub redux_dim: usize,
    /// Width between the two layers.
    pub hidden: usize,
    /// Width of the text embeddings.
    pub txt_dim: usize,
}

impl Config {
    /// Flux.1 Redux dev.
    pub fn dev() -> Config {
        Config {
            redux_dim: 1152,
            hidden: 3 * 4096,
            txt_dim: 4096,
        }
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not Redux.
    pub fn detect(find: &Find) -> Option<Config> {
        let [hidden, redux_dim] = *find("redux_up.weight")?.0 else {
            return None;
        };
        let [txt_dim, _] = *find("redux_down.weight")?.0 else {
            return None;
        };
        Some(Config {
            redux_dim,
            hidden,
            txt_dim,
        })
    }
}

/// Hidden states `[b, n, redux_dim]` to tokens `[b, n, txt_dim]`.
pub fn redux(g: &mut Graph, p: &Params, c: &Config, states: Node) -> Node {
    let x = p.linear(g, "redux_up", states, c.hidden);
    let x = g.silu(x);
    p.linear(g, "redux_down", x, c.txt_dim)
}
