//! Byte-pair encoding in CLIP's format: text to the ids of vocabulary pieces.
//!
//! A word is its UTF-8 bytes, the last one marked as a word's end. Of all neighboring pairs the one
//! learned first is merged, the leftmost of equals, until no pair is known. Equal to transformers'
//! `CLIPTokenizer` 5.17 with the settings ComfyUI gives it.

mod load;
mod pieces;
#[cfg(test)]
mod tests;

pub(crate) use load::byte_symbols;

use crate::merges::{Merges, merged};
use pieces::Part;

/// A vocabulary and its merges.
pub struct Bpe {
    /// What a pair of ids merges to.
    merges: Merges,
    /// The id of each byte inside a word.
    inner: [u32; 256],
    /// The id of each byte that ends a word.
    last: [u32; 256],
    start: u32,
    end: u32,
    n_vocab: usize,
}

impl Bpe {
    /// The ids of `text`, without a start or end. A literal `<|startoftext|>` or `<|endoftext|>` in
    /// it becomes that token, as in transformers.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        pieces::split(text, |part| match part {
            Part::Start => ids.push(self.start),
            Part::End => ids.push(self.end),
            Part::Word(word) => self.word(word, &mut ids),
        });
        ids
    }

    /// The id of `<|startoftext|>`.
    pub fn start(&self) -> u32 {
        self.start
    }

    /// The id of `<|endoftext|>`, which also stands for bytes the vocabulary lacks.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// One more than the largest id.
    pub fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    fn word(&self, word: &str, ids: &mut Vec<u32>) {
        let Some((&last, inner)) = word.as_bytes().split_last() else {
            return;
        };
        let symbols = inner.iter().map(|&b| self.inner[b as usize]);
        let symbols = symbols.chain([self.last[last as usize]]).collect();
        merged(&self.merges, symbols, ids);
    }
}
