//! Attention bias of spans of text tokens, as ComfyUI's `StyleModelApply` sets it with `attn_bias`.
//! An n×n mask would be larger than anything else in the graph. Its rows are equal except for a few
//! spans of queries, so attention runs per span, with one mask row each.

use super::Bias;
use nino_graph::{Graph, Node};
use std::ops::Range;

/// A range of queries with one mask row.
#[derive(Clone, Debug)]
pub(super) struct QuerySpan {
    pub(super) tokens: Range<usize>,
    /// Added to the scores, `[b, 1, 1, n]`.
    pub(super) mask: Option<Node>,
}

/// Splits all tokens, text first, into ranges of queries with one mask row each.
pub(super) fn query_spans(
    g: &mut Graph,
    bias: Bias<'_>,
    [n_txt, n_img]: [usize; 2],
) -> Vec<QuerySpan> {
    let shape = g.shape(bias.values);
    let (b, count) = (shape[0], shape[1]);
    let name = format!("no bias of {n_img} tokens, {count} of {b} rows");
    let zeros = g.constant(&name, [b, count, 1, n_img], &vec![0.0; b * count * n_img]);
    let masks = g.concat(&[bias.values, zeros], 3); // [b, spans, 1, n]
    let masks: Vec<Node> = (0..count).map(|i| g.slice(masks, 1, i, i + 1)).collect();
    let queries = |tokens: Range<usize>, row: usize| QuerySpan {
        tokens,
        mask: masks.get(row).copied(),
    };
    let mut spans = Vec::new();
    let mut end = 0;
    for (i, span) in bias.spans.iter().enumerate() {
        spans.push(queries(end..span.start, 0));
        spans.push(queries(span.clone(), i + 1));
        end = span.end;
    }
    spans.push(queries(end..n_txt + n_img, 0));
    spans.retain(|span| !span.tokens.is_empty());
    spans
}
