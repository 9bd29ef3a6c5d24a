//! T5's vocabulary, built in.

use super::{Pieces, Unigram};
use zlib_rs::{InflateConfig, ReturnCode, decompress_slice};

/// One zlib stream: the number of pieces (u32), their scores (f32 each), their lengths (u8 each),
/// their texts, and the map of characters. `goldens/text/t5.py` writes it.
static T5: &[u8] = include_bytes!("../../data/t5.unigram");
/// Bytes of it when inflated.
const T5_BYTES: usize = 664_628;

/// The first of the hundred pieces that stand for gaps in T5's training.
const T5_GAPS: u32 = 32000;

impl Unigram {
    /// The vocabulary of T5 v1.1: 32100 pieces. 0 is padding, 1 the end, 2 what it lacks.
    pub fn t5() -> Unigram {
        let mut plain = vec![0; T5_BYTES];
        let (plain, code) = decompress_slice(&mut plain, T5, InflateConfig::default());
        assert_eq!(code, ReturnCode::Ok, "the built-in vocabulary is whole");
        let read = parse(plain).expect("the built-in vocabulary is whole");
        Unigram::new(read).expect("the built-in vocabulary is whole")
    }
}

fn parse(plain: &[u8]) -> Option<Pieces<'_>> {
    let (n, rest) = plain.split_first_chunk::<4>()?;
    let n = u32::from_le_bytes(*n) as usize;
    let (scores, rest) = rest.split_at_checked(4 * n)?;
    let (lengths, mut rest) = rest.split_at_checked(n)?;
    let mut pieces = Vec::with_capacity(n);
    for (score, &len) in scores.as_chunks::<4>().0.iter().zip(lengths) {
        let (text, behind) = rest.split_at_checked(len as usize)?;
        let text = std::str::from_utf8(text).ok()?;
        pieces.push((text.to_owned(), f32::from_le_bytes(*score)));
        rest = behind;
    }
    Some(Pieces {
        pieces,
        special: (0..3).chain(T5_GAPS..n as u32).collect(),
        unmatched: Vec::new(),
        bytes: Vec::new(),
        unknown: 2,
        charsmap: rest,
    })
}
