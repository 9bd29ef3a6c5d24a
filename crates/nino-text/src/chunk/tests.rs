//! `BREAK` in chunks, the empty prompt, weights.

use super::{Layout, tokenize};
use crate::{Bpe, apply_weights};

fn lengths(prompt: &str) -> Vec<usize> {
    let tokens = tokenize(&Bpe::clip(), &Layout::clip_l(), prompt, &|_| None).unwrap();
    assert!(tokens.chunks.iter().all(|c| c.tokens.len() == 77));
    tokens.chunks.iter().map(|c| c.end - 1).collect()
}

#[test]
fn break_starts_a_chunk() {
    assert_eq!(lengths("a b BREAK c"), [2, 1]);
    assert_eq!(lengths("BREAK c"), [0, 1]);
    assert_eq!(lengths("a BREAK BREAK c"), [1, 0, 1]);
}

#[test]
fn a_last_break_leaves_no_empty_chunk() {
    assert_eq!(lengths("a BREAK"), [1]);
    assert_eq!(lengths(""), [0]);
}

#[test]
fn the_empty_prompt_is_padded() {
    assert_eq!(Layout::clip_g().empty(4), [49406, 49407, 0, 0]);
    assert_eq!(Layout::clip_l().empty(3), [49406, 49407, 49407]);
    let empty = tokenize(&Bpe::clip(), &Layout::clip_h(), "", &|_| None).unwrap();
    let padded = empty.chunks[0]
        .tokens
        .iter()
        .zip(Layout::clip_h().empty(77));
    assert!(
        padded
            .into_iter()
            .all(|(t, id)| t.piece == super::Piece::Id(id))
    );
}

#[test]
fn weights_move_tokens_from_the_empty_prompt() {
    let mut z = [0.1, 0.2, 3.0, 5.0, 3.0, 5.0];
    let empty = [9.0, 9.0, 1.0, 1.0, 1.0, 1.0];
    apply_weights(&mut z, &empty, &[1.0, 1.5, 0.0], 2);
    let expected = [0.1, 0.2, 4.0, 7.0, 1.0, 1.0f32];
    assert_eq!(z.map(f32::to_bits), expected.map(f32::to_bits));
}

#[test]
#[should_panic(expected = "apply_weights: 3 values")]
fn weights_for_another_width_are_a_bug() {
    apply_weights(&mut [0.0; 3], &[0.0; 4], &[1.0; 2], 2);
}
