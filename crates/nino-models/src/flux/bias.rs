//! Attention that heeds some tokens of the text more or less, as ComfyUI's `StyleModelApply` asks
//! for with `attn_bias`. A mask of all tokens by all tokens would be larger than all else in the
//! graph; its rows are alike but for a few stretches, so each stretch looks for itself.

use super::Bias;
use nino_graph::{Graph, Node};
use std::ops::Range;

/// Tokens that look at all others with one bias.
#[derive(Clone, Debug)]
pub(super) struct Looking {
    pub(super) tokens: Range<usize>,
    /// Added to the scores, `[b, 1, 1, n]`.
    pub(super) mask: Option<Node>,
}

/// Parts of all tokens, text first, that look with one bias each.
pub(super) fn parts(g: &mut Graph, bias: Bias<'_>, [n_txt, n_img]: [usize; 2]) -> Vec<Looking> {
    let shape = g.shape(bias.values);
    let (b, count) = (shape[0], shape[1]);
    let name = format!("no bias of {n_img} tokens, {count} of {b} rows");
    let none = g.constant(&name, [b, count, 1, n_img], &vec![0.0; b * count * n_img]);
    let masks = g.concat(&[bias.values, none], 3); // [b, stretches, 1, n]
    let masks: Vec<Node> = (0..count).map(|i| g.slice(masks, 1, i, i + 1)).collect();
    let looking = |tokens: Range<usize>, i: usize| Looking {
        tokens,
        mask: masks.get(i).copied(),
    };
    let mut parts = Vec::new();
    let mut at = 0;
    for (i, stretch) in bias.stretches.iter().enumerate() {
        parts.push(looking(at..stretch.start, 0));
        parts.push(looking(stretch.clone(), i + 1));
        at = stretch.end;
    }
    parts.push(looking(at..n_txt + n_img, 0));
    parts.retain(|part| !part.tokens.is_empty());
    parts
}
