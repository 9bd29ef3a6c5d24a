//! Qwen's tokens equal transformers', and the prompts of each model ComfyUI's.

use crate::golden;
use crate::tokens::{Crc, sampled_characters};
use nino_text::{ByteBpe, Layout, Piece, tokenize};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Layout, prompt, tokens, ids without the padding.
type Prompt = (String, String, usize, Vec<u32>);

const PAD: u32 = 151_643;

fn read<T: DeserializeOwned>(key: &str) -> Vec<T> {
    let mut golden: Value = serde_json::from_slice(&golden::bytes("qwen.json")).unwrap();
    serde_json::from_value(golden[key].take()).unwrap()
}

#[test]
fn texts_have_qwens_tokens() {
    let qwen = ByteBpe::qwen();
    for (text, ids) in read::<(String, Vec<u32>)>("tokens") {
        assert_eq!(qwen.encode(&text), ids, "{text:?}");
    }
}

#[test]
fn every_character_has_qwens_tokens() {
    let qwen = ByteBpe::qwen();
    let sums: Vec<u32> = read("characters");
    assert_eq!(sums.len(), 0x110);
    for (block, expected) in sums.into_iter().enumerate() {
        let mut crc = Crc::new();
        for c in sampled_characters(block as u32) {
            for id in qwen.encode(&format!("x{c}1{c}!{c} e{c}")) {
                crc.update(&id.to_le_bytes());
            }
        }
        assert_eq!(crc.value(), expected, "U+{:04X} and on", block * 4096);
    }
}

#[test]
fn prompts_are_comfyuis_conversations() {
    let qwen = ByteBpe::qwen();
    let prompts: Vec<Prompt> = read("prompts");
    assert!(prompts.len() > 100);
    for (layout, prompt, n, mut ids) in prompts {
        let layout = match layout.as_str() {
            "z_image" => Layout::qwen3_z_image(),
            _ => Layout::qwen3_klein(),
        };
        let found = tokenize(&qwen, &layout, &prompt, &|_| None).unwrap();
        assert!(!found.weighted() && found.chunks.len() == 1, "{prompt:?}");
        let chunk = &found.chunks[0];
        let seen = ids.iter().position(|&id| id == PAD).unwrap_or(ids.len());
        assert_eq!(chunk.end, seen - 1, "{prompt:?}");
        ids.resize(n, PAD);
        let pieces: Vec<Piece> = ids.into_iter().map(Piece::Id).collect();
        let tokens = chunk.tokens.iter().map(|t| t.piece.clone());
        assert_eq!(tokens.collect::<Vec<_>>(), pieces, "{prompt:?}");
    }
}
