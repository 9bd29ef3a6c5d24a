//! T5's tokens and prompts equal transformers' and ComfyUI's.

use crate::golden;
use crate::tokens::{Crc, sampled_characters};
use nino_text::{Layout, Piece, Unigram, tokenize};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Layout, prompt, tokens, ids without the padding, weights by place.
type Prompt = (String, String, usize, Vec<u32>, Vec<(usize, f32)>);

fn read<T: DeserializeOwned>(key: &str) -> Vec<T> {
    let mut golden: Value = serde_json::from_slice(&golden::bytes("t5.json")).unwrap();
    serde_json::from_value(golden[key].take()).unwrap()
}

#[test]
fn texts_have_t5s_tokens() {
    let t5 = Unigram::t5();
    assert_eq!(t5.n_vocab(), 32100);
    for (text, ids) in read::<(String, Vec<u32>)>("tokens") {
        assert_eq!(t5.encode(&text), ids, "{text:?}");
    }
}

#[test]
fn every_character_has_t5s_tokens() {
    let t5 = Unigram::t5();
    let sums: Vec<u32> = read("characters");
    assert_eq!(sums.len(), 0x110);
    for (block, expected) in sums.into_iter().enumerate() {
        let mut crc = Crc::new();
        for c in sampled_characters(block as u32) {
            for id in t5.encode(&format!("x{c}1{c}!{c}\u{301} e{c}")) {
                crc.update(&id.to_le_bytes());
            }
        }
        assert_eq!(crc.value(), expected, "U+{:04X} and on", block * 4096);
    }
}

#[test]
fn prompts_are_one_chunk_with_comfyuis_weights() {
    let t5 = Unigram::t5();
    let prompts: Vec<Prompt> = read("prompts");
    assert!(prompts.len() > 150);
    for (layout, prompt, n, mut ids, weighted) in prompts {
        let layout = match layout.as_str() {
            "flux" => Layout::t5_flux(),
            _ => Layout::t5_chroma(),
        };
        let found = tokenize(&t5, &layout, &prompt, &|_| None).unwrap().chunks;
        assert_eq!(found.len(), 1, "{prompt:?}");
        ids.resize(n, 0);
        let pieces: Vec<Piece> = ids.into_iter().map(Piece::Id).collect();
        let tokens = found[0].tokens.iter().map(|t| t.piece.clone());
        assert_eq!(tokens.collect::<Vec<_>>(), pieces, "{prompt:?}");
        let mut weights = vec![1.0; n];
        weighted
            .iter()
            .for_each(|&(at, weight)| weights[at] = weight);
        assert_eq!(found[0].weights(), weights, "{prompt:?}");
    }
}

#[test]
fn the_empty_prompts_of_t5_differ() {
    assert_eq!(Layout::t5_flux().empty(3), [1, 0, 0]);
    assert_eq!(Layout::t5_chroma().empty(3), [0, 0, 0]);
}

#[test]
fn vocabularies_of_sentencepiece_are_read_from_their_files() {
    let file = golden::bytes("small/spiece.model");
    let small = Unigram::from_sentencepiece(&file).unwrap();
    let rows = golden::tokens("small/spiece.json");
    assert!(rows.len() > 60);
    for (text, ids) in rows {
        assert_eq!(small.encode(&text), ids, "{text:?}");
    }
    for end in [1, 7, file.len() / 2, file.len() - 1] {
        let error = Unigram::from_sentencepiece(&file[..end]).err();
        assert!(error.is_some(), "{end} bytes of {}", file.len());
    }
}
