//! Byte-level byte-pair encoding as language models have it: any text to ids, nothing unknown.
//!
//! Special pieces such as `<|im_end|>` are found first, as they are. The text between them is put
//! into Unicode's NFC and cut into words ([`words`]), a word is its UTF-8 bytes, and pairs are
//! merged as in [`Bpe`](crate::Bpe). Equal to transformers' `Qwen2Tokenizer` 5.17.

mod load;
mod words;

use crate::merges::{Merges, merged};
use unicode_normalization::UnicodeNormalization;

/// A vocabulary of bytes and its merges.
pub struct ByteBpe {
    merges: Merges,
    /// The id of each byte.
    bytes: [u32; 256],
    /// Pieces that stand for themselves wherever they are in a text.
    special: Vec<(&'static str, u32)>,
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

    /// The first special piece in a text: where it is, the piece, its id. None begins with
    /// another.
    fn next_special(&self, text: &str) -> Option<(usize, &'static str, u32)> {
        text.match_indices('<').find_map(|(at, _)| {
            let mut pieces = self.special.iter();
            let &(piece, id) = pieces.find(|(piece, _)| text[at..].starts_with(piece))?;
            Some((at, piece, id))
        })
    }

    fn plain(&self, text: &str, ids: &mut Vec<u32>) {
        let normal: String = text.nfc().collect();
        words::each(&normal, |word| {
            let bytes = word.bytes().map(|b| self.bytes[usize::from(b)]);
            merged(&self.merges, bytes.collect(), ids);
        });
    }
}
