//! Chunks and weights equal ComfyUI's.

use crate::golden;
use nino_text::{Bpe, Layout, Piece, apply_weights, tokenize};
use serde_json::{Value, json};

fn n_vectors(name: &str) -> Option<usize> {
    let files = [
        ("cat", 1),
        ("style", 3),
        ("bad-hands", 8),
        ("long", 90),
        ("sub/dir", 2),
        ("comma,", 1),
    ];
    let name = name.strip_suffix(".safetensors").unwrap_or(name);
    files.iter().find(|(n, _)| *n == name).map(|(_, n)| *n)
}

fn layout(bpe: &Bpe, name: &str) -> Layout {
    match name {
        "l" => Layout::clip_l(),
        "g" => Layout::clip_g(),
        "short" => Layout::new(bpe, 32),
        "open" => Layout {
            min_length: 0,
            ..Layout::clip_l()
        },
        _ => panic!("no layout {name}"),
    }
}

fn piece(piece: &Piece) -> Value {
    match piece {
        Piece::Id(id) => json!(id),
        Piece::Embedding { name, index } => {
            json!([name.strip_suffix(".safetensors").unwrap_or(name), index])
        }
    }
}

#[test]
fn chunks_and_weights_are_comfyuis() {
    let bpe = Bpe::clip();
    let rows = golden::rows("prompts.json");
    assert!(rows.len() > 150);
    for row in rows {
        let prompt = row["prompt"].as_str().unwrap();
        let layout = layout(&bpe, row["layout"].as_str().unwrap());
        let chunks = tokenize(&bpe, &layout, prompt, &n_vectors).unwrap().chunks;
        let expected = row["chunks"].as_array().unwrap();
        assert_eq!(chunks.len(), expected.len(), "{prompt:?}");
        for (chunk, expected) in chunks.iter().zip(expected) {
            let n = expected["n"].as_u64().unwrap() as usize;
            let mut ids = expected["ids"].as_array().unwrap().clone();
            ids.resize(n, json!(layout.pad));
            let found: Vec<Value> = chunk.tokens.iter().map(|t| piece(&t.piece)).collect();
            assert_eq!(found, ids, "{prompt:?}");

            let mut weights = vec![1.0; n];
            for pair in expected["weights"].as_array().unwrap() {
                let place = pair[0].as_u64().unwrap() as usize;
                weights[place] = pair[1].as_f64().unwrap() as f32;
            }
            assert_eq!(chunk.weights(), weights, "{prompt:?}");
        }
    }
}

#[test]
fn weights_move_the_encoders_output_as_in_comfyui() {
    let [empty_ids, weights, before, empty, after]: [Vec<f32>; 5] =
        serde_json::from_slice(&golden::bytes("weights.json")).unwrap();
    let bpe = Bpe::clip();
    let layout = Layout {
        max_length: Some(16),
        min_length: 16,
        ..Layout::clip_g()
    };
    let prompt = "a (red:1.3) fox (in (the) snow:0.7), (bright:-0.5) (light:0)";
    let tokens = tokenize(&bpe, &layout, prompt, &|_| None).unwrap();
    assert!(tokens.weighted());
    assert_eq!(tokens.chunks[0].weights(), weights);
    assert!(layout.empty(16).iter().map(|&id| id as f32).eq(empty_ids));
    assert_ne!(before, after);
    let mut z = before;
    apply_weights(&mut z, &empty, &weights, 2);
    assert_eq!(z, after);
}
