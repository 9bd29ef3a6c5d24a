//! Byte-pair merging: neighboring pieces of a word become one, the pair that was learned first
//! before others, the leftmost of equals, until no pair is known.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What pairs of ids merge to, ordered by pair: Qwen's 151387 take 2.4 MB, about half of what a
/// hash table of them takes.
pub(crate) struct Merges(pub(crate) Vec<(Pair, Merge)>);

/// The ids of two neighbors.
pub(crate) type Pair = (u32, u32);

impl Merges {
    fn find(&self, pair: Pair) -> Option<Merge> {
        let at = self.0.binary_search_by_key(&pair, |&(pair, _)| pair);
        Some(self.0[at.ok()?].1)
    }
}

/// Of several merges of one pair, the one with the highest rank counts: the last one of a file.
impl FromIterator<(Pair, Merge)> for Merges {
    fn from_iter<I: IntoIterator<Item = (Pair, Merge)>>(merges: I) -> Merges {
        let mut merges: Vec<_> = merges.into_iter().collect();
        merges.sort_unstable_by_key(|&(pair, merge)| (pair, merge.rank));
        merges.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            if is_same {
                *kept = *later;
            }
            is_same
        });
        merges.shrink_to_fit();
        Merges(merges)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Merge {
    /// Of two merges, the one with the lower rank is made first.
    pub(crate) rank: u32,
    pub(crate) id: u32,
}

/// Appends the ids of a word to `out`; `word` has the ids of its single bytes.
pub(crate) fn merged(merges: &Merges, word: Vec<u32>, out: &mut Vec<u32>) {
    if !word.is_empty() {
        Word::new(merges, word).merge(out);
    }
}

/// A word being merged: a doubly linked list in arrays, and a heap of the merges on offer, so that
/// a word of a million bytes takes n log n and not n².
struct Word<'a> {
    merges: &'a Merges,
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
    pair: Pair,
    id: u32,
}

const NONE: usize = usize::MAX;

impl<'a> Word<'a> {
    fn new(merges: &'a Merges, ids: Vec<u32>) -> Word<'a> {
        let n = ids.len();
        let mut word = Word {
            merges,
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

    fn pair(&self, at: usize) -> Option<Pair> {
        (self.next[at] != NONE).then(|| (self.ids[at], self.ids[self.next[at]]))
    }

    fn offer(&mut self, at: usize) {
        let Some(pair) = self.pair(at) else { return };
        if let Some(Merge { rank, id }) = self.merges.find(pair) {
            let offer = Offer { rank, at, pair, id };
            self.offers.push(Reverse(offer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file may name a pair twice: the last one counts.
    #[test]
    fn the_last_merge_of_a_pair_counts() {
        let merge = |rank, id| Merge { rank, id };
        let merges: Merges = [
            ((5, 6), merge(0, 10)),
            ((1, 2), merge(1, 11)),
            ((5, 6), merge(2, 12)),
            ((1, 3), merge(3, 13)),
        ]
        .into_iter()
        .collect();
        let ids = |word: &[u32]| {
            let mut ids = Vec::new();
            merged(&merges, word.to_vec(), &mut ids);
            ids
        };
        assert_eq!(ids(&[5, 6]), [12]);
        assert_eq!(ids(&[1, 2, 1, 3]), [11, 13]);
        assert_eq!(ids(&[2, 1]), [2, 1]);
    }
}
