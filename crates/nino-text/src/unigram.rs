//! Sentencepiece's unigram model: text to the ids of the pieces that are likeliest together.
//!
//! Every piece has a score, the logarithm of its frequency. Of all ways to cut a word into pieces,
//! the one with the largest sum of scores is taken (Kudo 2018, Viterbi's algorithm). Equal to
//! transformers' `T5TokenizerFast` 5.17.

mod charsmap;
mod load;
mod sentencepiece;

use crate::error::Error;
use charsmap::Charsmap;
use std::collections::HashSet;

/// A vocabulary with its scores, and how text is normalized before it is cut.
pub struct Unigram {
    /// Every piece with its id, sorted by bytes.
    sorted: Vec<(Box<[u8]>, u32)>,
    scores: Vec<f32>,
    /// Pieces that are found in the text as it is, before anything else.
    special: Vec<(String, u32)>,
    unknown: u32,
    /// Ids of the 256 bytes, for characters that the vocabulary lacks; empty for none.
    bytes: Vec<u32>,
    unknown_score: f64,
    normalizer: Charsmap,
}

/// What a vocabulary file says.
pub struct Pieces<'a> {
    /// Texts and scores, by id.
    pub pieces: Vec<(String, f32)>,
    /// Ids of the pieces that stand for themselves wherever they are in a text, such as `</s>`.
    pub special: Vec<u32>,
    /// Ids of the pieces that no text has, such as padding.
    pub unmatched: Vec<u32>,
    /// Ids of the 256 bytes, which stand for characters without a piece; empty for none.
    pub bytes: Vec<u32>,
    /// The piece for what the vocabulary lacks.
    pub unknown: u32,
    /// Sentencepiece's compiled map of characters; empty for none.
    pub charsmap: &'a [u8],
}

/// The mark before every word.
const SPACE: char = '\u{2581}';

/// How much less likely than the rarest piece a character is that the vocabulary lacks.
const UNKNOWN_PENALTY: f64 = 10.0;

impl Unigram {
    /// A vocabulary of any model.
    pub fn new(given: Pieces<'_>) -> Result<Unigram, Error> {
        let n = given.pieces.len();
        let listed = given.special.iter().chain(&given.unmatched);
        let out_of_range = listed.chain(&given.bytes).chain([&given.unknown]);
        if let Some(&id) = out_of_range.into_iter().find(|&&id| id as usize >= n) {
            return Err(Error::PieceId { id, n });
        }
        let special = given.special.iter();
        let special = special.map(|&id| (given.pieces[id as usize].0.clone(), id));
        let special = special.filter(|(text, _)| !text.is_empty()).collect();
        let scores: Vec<f32> = given.pieces.iter().map(|(_, score)| *score).collect();
        let unmatched: HashSet<u32> = given.unmatched.into_iter().collect();
        let texts = given.pieces.into_iter().zip(0..);
        let mut sorted: Vec<(Box<[u8]>, u32)> = texts
            .filter(|((text, _), id)| !text.is_empty() && !unmatched.contains(id))
            .map(|((text, _), id)| (text.into_bytes().into_boxed_slice(), id))
            .collect();
        sorted.sort();
        let least = scores.iter().copied().fold(f32::INFINITY, f32::min);
        Ok(Unigram {
            sorted,
            special,
            unknown: given.unknown,
            bytes: given.bytes,
            unknown_score: f64::from(least) - UNKNOWN_PENALTY,
            scores,
            normalizer: Charsmap::new(given.charsmap)?,
        })
    }

    /// The ids of `text`, without an end.
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

    /// One more than the largest id.
    pub fn n_vocab(&self) -> usize {
        self.scores.len()
    }

    /// The first special piece in a text, the longest of those that begin there: where it is, the
    /// piece, its id.
    fn next_special(&self, text: &str) -> Option<(usize, &str, u32)> {
        text.char_indices().find_map(|(at, _)| {
            let here = self
                .special
                .iter()
                .filter(|(p, _)| text[at..].starts_with(p));
            let (piece, id) = here.max_by_key(|(piece, _)| piece.len())?;
            Some((at, piece.as_str(), *id))
        })
    }

    /// Text without special pieces: words between white space, each behind a mark.
    fn plain(&self, text: &str, ids: &mut Vec<u32>) {
        let normal = self.normalizer.apply(text);
        let mut word = String::new();
        for part in normal.split_whitespace() {
            word.clear();
            if !part.starts_with(SPACE) {
                word.push(SPACE);
            }
            word.push_str(part);
            // A mark inside of a word begins another.
            let mut start = 0;
            for (at, _) in word.match_indices(SPACE).skip(1) {
                self.word(&word[start..at], ids);
                start = at;
            }
            self.word(&word[start..], ids);
        }
    }

    /// The likeliest pieces of one word. Characters without a piece are their bytes; where those
    /// have no pieces either, neighboring ones are one unknown.
    fn word(&self, word: &str, ids: &mut Vec<u32>) {
        let bytes = word.as_bytes();
        let mut best: Vec<Option<Step>> = vec![None; bytes.len() + 1];
        for (at, char) in word.char_indices() {
            let so_far = match at {
                0 => 0.0,
                _ => best[at].map_or(f64::NEG_INFINITY, |s| s.score),
            };
            let mut offer = |end: usize, id: u32, score: f64| {
                let score = so_far + score;
                if best[end].is_none_or(|known| score > known.score) {
                    best[end] = Some(Step {
                        start: at,
                        id,
                        score,
                    });
                }
            };
            let mut is_known = false;
            self.prefixes(&bytes[at..], |len, id| {
                is_known |= len == char.len_utf8();
                offer(at + len, id, f64::from(self.scores[id as usize]));
            });
            if !is_known {
                offer(at + char.len_utf8(), self.unknown, self.unknown_score);
            }
        }
        let first = ids.len();
        let mut end = bytes.len();
        while let Some(step) = best[end].filter(|_| end > 0) {
            let again = ids.len() > first && ids.last() == Some(&self.unknown);
            if step.id == self.unknown && !self.bytes.is_empty() {
                let missing = bytes[step.start..end].iter().rev();
                ids.extend(missing.map(|&byte| self.bytes[usize::from(byte)]));
            } else if step.id != self.unknown || !again {
                ids.push(step.id);
            }
            end = step.start;
        }
        ids[first..].reverse();
    }

    /// Every piece that `bytes` begins with, the shortest first: its length and id.
    fn prefixes(&self, bytes: &[u8], mut found: impl FnMut(usize, u32)) {
        let mut range = &self.sorted[..];
        for (depth, &byte) in bytes.iter().enumerate() {
            // All of the range begin with the bytes so far; those that end here come first.
            let byte_at = |piece: &[u8]| piece.get(depth).copied();
            let from = range.partition_point(|(piece, _)| byte_at(piece) < Some(byte));
            let to = range.partition_point(|(piece, _)| byte_at(piece) <= Some(byte));
            range = &range[from..to];
            match range.first() {
                Some((piece, id)) if piece.len() == depth + 1 => found(depth + 1, *id),
                Some(_) => {}
                None => return,
            }
        }
    }
}

/// The best way to reach a place in a word: its last piece, where that begins, and the sum of
/// scores.
#[derive(Clone, Copy)]
struct Step {
    start: usize,
    id: u32,
    score: f64,
}
