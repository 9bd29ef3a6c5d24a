//! Byte-pair encoding in CLIP's format: text to the ids of vocabulary pieces.
//!
//! A word is its UTF-8 bytes, the last one marked as a word's end. Of all neighboring pairs the one
//! learned first is merged, the leftmost of equals, until no pair is known. Equal to transformers'
//! `CLIPTokenizer` 5.17 with the settings ComfyUI gives it.

mod load;
mod pieces;
#[cfg(test)]
mod tests;

use pieces::Part;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// A vocabulary and its merges.
pub struct Bpe {
    /// What a pair of ids merges to.
    merges: HashMap<(u32, u32), Merge>,
    /// The id of each byte inside a word.
    inner: [u32; 256],
    /// The id of each byte that ends a word.
    last: [u32; 256],
    start: u32,
    end: u32,
    n_vocab: usize,
}

#[derive(Clone, Copy)]
struct Merge {
    rank: u32,
    id: u32,
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
        Word::new(self, symbols).merge(ids);
    }
}

/// A word being merged: a doubly linked list in arrays, and a heap of the merges on offer, so that
/// a word of a million bytes takes n log n and not n².
struct Word<'a> {
    bpe: &'a Bpe,
    ids: Vec<u32>,
    next: Vec<usize>,
    previous: Vec<usize>,
    gone: Vec<bool>,
    offers: BinaryHeap<Reverse<Offer>>,
}

/// Ordered by rank, then place.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Offer {
    rank: u32,
    at: usize,
    pair: (u32, u32),
    id: u32,
}

const NONE: usize = usize::MAX;

impl<'a> Word<'a> {
    fn new(bpe: &'a Bpe, ids: Vec<u32>) -> Word<'a> {
        let n = ids.len();
        let mut word = Word {
            bpe,
            next: (1..n).chain([NONE]).collect(),
            previous: [NONE].into_iter().chain(0..n - 1).collect(),
            gone: vec![false; n],
            offers: BinaryHeap::new(),
            ids,
        };
        for at in 0..n {
            word.offer(at);
        }
        word
    }

    fn merge(mut self, out: &mut Vec<u32>) {
        while let Some(Reverse(offer)) = self.offers.pop() {
            let at = offer.at;
            if self.gone[at] || self.pair(at) != Some(offer.pair) {
                continue;
            }
            let right = self.next[at];
            self.ids[at] = offer.id;
            self.gone[right] = true;
            self.next[at] = self.next[right];
            if self.next[at] != NONE {
                self.previous[self.next[at]] = at;
            }
            if self.previous[at] != NONE {
                self.offer(self.previous[at]);
            }
            self.offer(at);
        }
        let mut at = 0;
        while at != NONE {
            out.push(self.ids[at]);
            at = self.next[at];
        }
    }

    fn pair(&self, at: usize) -> Option<(u32, u32)> {
        (self.next[at] != NONE).then(|| (self.ids[at], self.ids[self.next[at]]))
    }

    fn offer(&mut self, at: usize) {
        let Some(pair) = self.pair(at) else { return };
        if let Some(&Merge { rank, id }) = self.bpe.merges.get(&pair) {
            let offer = Offer { rank, at, pair, id };
            self.offers.push(Reverse(offer));
        }
    }
}
