//! Where vocabularies come from: CLIP's, built in, or a model's own `vocab.json` and `merges.txt`.

use super::Bpe;
use crate::error::Error;
use crate::merges::{Merge, Merges};
use std::collections::HashMap;

const START: &str = "<|startoftext|>";
const END: &str = "<|endoftext|>";
const WORD_END: &str = "</w>";

/// CLIP's merges, two little-endian u16 each: the ids of the pair. CLIP numbers its pieces 256
/// bytes, 256 bytes that end a word, one for each merge in order, then start and end, so the pairs
/// are the whole vocabulary.
static CLIP: &[u8] = include_bytes!("../../data/clip.merges");

impl Bpe {
    /// The vocabulary of OpenAI's CLIP, which OpenCLIP's text models share: 49408 pieces.
    pub fn clip() -> Bpe {
        let pairs = CLIP.as_chunks::<4>().0;
        let merge = |(rank, &[a, b, c, d]): (usize, &[u8; 4])| {
            let pair = (
                u16::from_le_bytes([a, b]) as u32,
                u16::from_le_bytes([c, d]) as u32,
            );
            let rank = rank as u32;
            (
                pair,
                Merge {
                    rank,
                    id: 512 + rank,
                },
            )
        };
        let merges = pairs.iter().enumerate().map(merge).collect();
        let mut inner = [0; 256];
        let mut last = [0; 256];
        for (i, (byte, _)) in byte_symbols().enumerate() {
            inner[byte as usize] = i as u32;
            last[byte as usize] = 256 + i as u32;
        }
        let start = 512 + pairs.len() as u32;
        Bpe {
            merges,
            inner,
            last,
            start,
            end: start + 1,
            n_vocab: start as usize + 2,
        }
    }

    /// A vocabulary in CLIP's file format. Bytes it has no piece for become the end token.
    pub fn from_files(vocab_json: &[u8], merges_txt: &[u8]) -> Result<Bpe, Error> {
        let vocab: HashMap<String, u32> =
            serde_json::from_slice(vocab_json).map_err(Error::Vocabulary)?;
        let special = |piece| {
            let id = vocab.get(piece).copied();
            id.ok_or(Error::MissingSpecial { piece })
        };
        let (start, end) = (special(START)?, special(END)?);
        let mut inner = [end; 256];
        let mut last = [end; 256];
        for (byte, symbol) in byte_symbols() {
            let id = |piece: &str| vocab.get(piece).copied().unwrap_or(end);
            inner[byte as usize] = id(&symbol.to_string());
            last[byte as usize] = id(&format!("{symbol}{WORD_END}"));
        }
        Ok(Bpe {
            merges: merges(&vocab, merges_txt)?,
            inner,
            last,
            start,
            end,
            n_vocab: vocab.values().max().map_or(0, |&id| id as usize + 1),
        })
    }
}

fn merges(vocab: &HashMap<String, u32>, text: &[u8]) -> Result<Merges, Error> {
    let text = std::str::from_utf8(text).map_err(|e| Error::MergesEncoding {
        valid: e.valid_up_to(),
    })?;
    let rows = text.lines().enumerate();
    let is_version = |i, row: &str| i == 0 && row.starts_with("#version");
    let rows = rows.filter(|&(i, row)| !row.is_empty() && !is_version(i, row));
    let merge = |(i, row): (usize, &str)| {
        let line = i + 1;
        let found = || row.chars().take(80).collect();
        let pair = row
            .split_once(' ')
            .filter(|(_, right)| !right.contains(' '));
        let (left, right) = pair.ok_or_else(|| Error::MergesLine {
            line,
            found: found(),
        })?;
        let id = |piece: &str| {
            vocab.get(piece).copied().ok_or_else(|| Error::MergesPiece {
                line,
                piece: piece.chars().take(80).collect(),
            })
        };
        let merge = Merge {
            rank: i as u32,
            id: id(&format!("{left}{right}"))?,
        };
        Ok(((id(left)?, id(right)?), merge))
    };
    rows.map(merge).collect()
}

/// Each byte with the printable character that stands for it in vocabulary files, in CLIP's order:
/// the printable Latin-1 bytes as themselves, then the others as U+0100 and up.
pub(crate) fn byte_symbols() -> impl Iterator<Item = (u8, char)> {
    let plain = |b: &u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    let others = (0..=255u8).filter(move |b| !plain(b));
    let others = others.zip('\u{100}'..);
    (0..=255u8)
        .filter(plain)
        .map(|b| (b, b as char))
        .chain(others)
}
