//! Ids equal transformers'.

use crate::golden;
use nino_text::Bpe;

fn compare(bpe: &Bpe, rows: &[(String, Vec<u32>)]) {
    for (text, ids) in rows {
        assert_eq!(bpe.encode(text), *ids, "{text:?}");
    }
}

#[test]
fn a_thousand_texts_have_clips_tokens() {
    let rows = golden::tokens("tokens.json");
    assert!(rows.len() >= 1000);
    assert!(rows.iter().filter(|(_, ids)| ids.len() >= 300).count() >= 10);
    compare(&Bpe::clip(), &rows);
}

#[test]
fn every_character_has_clips_tokens() {
    let bpe = Bpe::clip();
    let (_, sums) = characters();
    assert_eq!(sums.len(), 0x110);
    for (block, expected) in sums.into_iter().enumerate() {
        let mut crc = Crc::new();
        for c in sampled_characters(block as u32) {
            for id in bpe.encode(&format!("x{c}1{c}!{c}")) {
                crc.update(&id.to_le_bytes());
            }
        }
        assert_eq!(crc.value(), expected, "U+{:04X} and on", block * 4096);
    }
}

/// Code points that the oracle's Unicode lacks, as ranges, and the sums of blocks.
fn characters() -> (Vec<(u32, u32)>, Vec<u32>) {
    serde_json::from_slice(&golden::bytes("characters.json")).unwrap()
}

/// Characters of one block of 4096 that sums are taken of, fewer where thousands are alike. Only
/// those that the oracle's Unicode version knows: one that a later version added may be a letter
/// here.
pub(crate) fn sampled_characters(block: u32) -> impl Iterator<Item = char> {
    let (unassigned, _) = characters();
    let known = move |&c: &char| {
        let i = unassigned.partition_point(|&(_, last)| last < c as u32);
        unassigned.get(i).is_none_or(|&(first, _)| first > c as u32)
    };
    let taken = |&c: &char| match c as u32 {
        0x3400..0xA000 | 0xAC00..0xF900 | 0x17000..0x1A000 | 0x20000.. => {
            (c as u32).is_multiple_of(16)
        }
        _ => true,
    };
    let chars = (block * 4096..(block + 1) * 4096).filter_map(char::from_u32);
    chars.filter(known).filter(taken)
}

#[test]
fn a_vocabulary_in_files_works_like_clips() {
    let vocab = golden::bytes("small/vocab.json");
    let merges = golden::bytes("small/merges.txt");
    let bpe = Bpe::from_files(&vocab, &merges).unwrap();
    assert_eq!((bpe.n_vocab(), bpe.start(), bpe.end()), (700, 698, 699));
    compare(&bpe, &golden::tokens("small/tokens.json"));
}

pub(crate) struct Crc(u32);

impl Crc {
    pub(crate) fn new() -> Crc {
        Crc(!0)
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 ^= byte as u32;
            for _ in 0..8 {
                self.0 = (self.0 >> 1) ^ (0xEDB8_8320 & (self.0 & 1).wrapping_neg());
            }
        }
    }

    pub(crate) fn value(&self) -> u32 {
        !self.0
    }
}
