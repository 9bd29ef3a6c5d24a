//! Byte-level byte-pair encoding as language models have it: any text to ids, nothing unknown.
//!
//! Special pieces such as `<|im_end|>` are found first, as they are. The text between them is put
//! into Unicode's NFC (Qwen) and cut into words ([`words`]), a word is its UTF-8 bytes, and pairs
//! are merged as in [`Bpe`](crate::Bpe). Equal to transformers' `Qwen2Tokenizer` 5.17, and for
//! Mistral's vocabulary to what ComfyUI makes of it.

mod load;
mod tekken;
mod words;

use crate::merges::{Merges, merged};
use std::collections::HashMap;
use unicode_normalization::UnicodeNormalization;

/// A vocabulary of bytes and its merges.
pub struct ByteBpe {
    merges: Merges,
    /// The id of each byte.
    bytes: [u32; 256],
    /// Pieces that stand for themselves wherever they are in a text.
    special: Vec<(String, u32)>,
    /// Words that are one piece whatever the merges would make of them.
    whole: HashMap<Vec<u8>, u32>,
    normalized: bool,
    /// Digits of one word, at most.
    digits: usize,
}

impl ByteBpe {
    /// The ids of `text`, without a start or end.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut rest = text;
        while let Some((at, piece, id)) = self.next_special(rest) {
            self.plain(&rest[..at], &mut ids);
            ids.push(id);
            rest = &rest[at + piece.len()..];
        }
        self.plain(rest, &mut ids);
        ids
    }

    /// The first special piece in a text, the longest at its place: where it is, the piece, its id.
    fn next_special(&self, text: &str) -> Option<(usize, &str, u32)> {
        text.match_indices(['<', '[']).find_map(|(at, _)| {
            let pieces = self.special.iter();
            let here = pieces.filter(|(piece, _)| text[at..].starts_with(piece.as_str()));
            let (piece, id) = here.max_by_key(|(piece, _)| piece.len())?;
            Some((at, piece.as_str(), *id))
        })
    }

    fn plain(&self, text: &str, ids: &mut Vec<u32>) {
        let normal: String = if self.normalized {
            text.nfc().collect()
        } else {
            text.to_owned()
        };
        words::each(&normal, self.digits, |word| {
            if let Some(&id) = self.whole.get(word.as_bytes()) {
                ids.push(id);
                return;
            }
            let bytes = word.bytes().map(|b| self.bytes[usize::from(b)]);
            merged(&self.merges, bytes.collect(), ids);
        });
    }
}
