//! Prompt weights on a text encoder's output: each token's embedding moves along the line from the
//! empty prompt's embedding at its place.

/// `z` (n tokens of `width` values) becomes `(z - empty) * weight + empty` token by token; a weight
/// of 1 leaves a token as it is, to the bit. `empty` is the encoder's output for
/// [`Layout::empty`](crate::Layout::empty) and has at least as many tokens.
#[track_caller]
pub fn apply_weights(z: &mut [f32], empty: &[f32], weights: &[f32], width: usize) {
    assert!(
        z.len() == weights.len() * width && empty.len() >= z.len(),
        "apply_weights: {} values and {} of the empty prompt for {} weights of width {width}",
        z.len(),
        empty.len(),
        weights.len(),
    );
    if width == 0 {
        return;
    }
    let rows = z.chunks_exact_mut(width).zip(empty.chunks_exact(width));
    for ((z, empty), &weight) in rows.zip(weights) {
        if !is_neutral(weight) {
            for (z, &e) in z.iter_mut().zip(empty) {
                *z = (*z - e) * weight + e;
            }
        }
    }
}

/// Whether a weight changes nothing, which only exactly 1 does.
#[expect(clippy::float_cmp, reason = "1 is the absence of a weight")]
pub(crate) fn is_neutral(weight: f32) -> bool {
    weight == 1.0
}
