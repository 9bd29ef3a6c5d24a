//! What a style does to a prompt.

use super::{StyleStrength, StyleTokens};
use crate::{Conditioning, EngineError};
use std::sync::Arc;

fn prompt() -> Conditioning {
    Conditioning {
        context: Arc::new(vec![1.0; 6]),
        width: 2,
        ..Conditioning::default()
    }
}

#[test]
fn styles_stand_behind_a_prompt_and_look_without_their_own_bias() {
    let style = StyleTokens {
        values: vec![3.0; 4],
        width: 2,
    };
    let multiplied = prompt().with_style(&style, StyleStrength::Multiply(0.5));
    let multiplied = multiplied.unwrap();
    assert_eq!(multiplied.context[6..], [1.5; 4]);
    assert!(multiplied.biased.is_empty());

    let once = prompt()
        .with_style(&style, StyleStrength::Heed(0.5))
        .unwrap();
    let twice = once.with_style(&style, StyleStrength::Heed(0.0)).unwrap();
    assert_eq!(twice.tokens(), 7);
    let half = 0.5f32.ln();
    // Rows: the prompt's own tokens, then the first style's.
    let expected = [
        [0.0, 0.0, 0.0, half, half, -6e4, -6e4],
        [0.0, 0.0, 0.0, 0.0, 0.0, -6e4, -6e4],
    ];
    assert_eq!(twice.bias_values(), expected.concat());
}

#[test]
fn a_style_of_another_width_is_refused() {
    let style = StyleTokens {
        values: vec![0.0; 3],
        width: 3,
    };
    let error = prompt().with_style(&style, StyleStrength::Multiply(1.0));
    assert!(matches!(
        error,
        Err(EngineError::StyleWidth {
            prompt: 2,
            style: 3
        })
    ));
}
