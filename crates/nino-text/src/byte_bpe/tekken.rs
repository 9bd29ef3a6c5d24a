//! Mistral's vocabulary out of its pieces. Its file has no merges: two pieces merge where both
//! together are a piece, the one with the lower number first.

use super::ByteBpe;
use crate::bpe::byte_symbols;
use crate::error::Error;
use crate::merges::Merge;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::HashMap;

/// The most bytes of a piece whose halves are looked at: longer ones are never made by merging.
const MAX_PIECE: usize = 256;
/// llama.cpp's number for special pieces.
const CONTROL: i32 = 3;

/// The part of `tekken.json` that counts.
#[derive(serde::Deserialize)]
struct File {
    config: Sizes,
    vocab: Vec<Piece>,
    #[serde(default)]
    special_tokens: Vec<Special>,
}

#[derive(serde::Deserialize)]
struct Sizes {
    /// Pieces of the model, special ones included: files have more.
    default_vocab_size: usize,
}

#[derive(serde::Deserialize)]
struct Piece {
    token_bytes: String,
}

#[derive(serde::Deserialize)]
struct Special {
    token_str: String,
}

impl ByteBpe {
    /// The vocabulary of a `tekken.json`, as Mistral publishes it.
    pub fn from_tekken(json: &[u8]) -> Result<ByteBpe, Error> {
        let file: File = serde_json::from_slice(json).map_err(Error::Tekken)?;
        let special = file.special_tokens.into_iter().map(|s| s.token_str);
        let special: Vec<String> = special.collect();
        let n = file.config.default_vocab_size.saturating_sub(special.len());
        let pieces = file.vocab.iter().take(n).enumerate().map(|(rank, piece)| {
            let bytes = STANDARD.decode(&piece.token_bytes);
            bytes.map_err(|_| Error::TekkenPiece { rank })
        });
        ByteBpe::tekken(special, &pieces.collect::<Result<Vec<_>, _>>()?)
    }

    /// The vocabulary that llama.cpp's files have of it: texts of all pieces, in which printable
    /// characters stand for bytes, and their kinds.
    pub fn from_ggml(texts: &[String], kinds: &[i32]) -> Result<ByteBpe, Error> {
        let symbols: HashMap<char, u8> = byte_symbols().map(|(byte, c)| (c, byte)).collect();
        let is_special = |rank: usize| kinds.get(rank) == Some(&CONTROL);
        let n_special = (0..texts.len()).take_while(|&rank| is_special(rank));
        let (special, pieces) = texts.split_at(n_special.count());
        let pieces = pieces.iter().enumerate().map(|(rank, text)| {
            let bytes = text.chars().map(|c| symbols.get(&c).copied());
            bytes
                .collect::<Option<Vec<u8>>>()
                .ok_or(Error::TekkenPiece { rank })
        });
        ByteBpe::tekken(special.to_vec(), &pieces.collect::<Result<Vec<_>, _>>()?)
    }

    /// The vocabulary of these pieces, the first 256 of which are the bytes in some order. Numbers
    /// of the pieces follow those of the special ones, which stand for themselves.
    fn tekken(special: Vec<String>, pieces: &[Vec<u8>]) -> Result<ByteBpe, Error> {
        let first = special.len() as u32;
        let number: HashMap<&[u8], u32> = pieces.iter().map(Vec::as_slice).zip(first..).collect();
        let mut bytes = [0; 256];
        for byte in 0..=u8::MAX {
            let id = number.get(&[byte][..]).ok_or(Error::Byte { byte })?;
            bytes[usize::from(byte)] = *id;
        }
        let mut merges = Vec::new();
        let mut rank = 0;
        for (piece, id) in pieces.iter().zip(first..) {
            if number.get(piece.as_slice()) != Some(&id) || piece.len() > MAX_PIECE {
                continue;
            }
            let halves = (1..piece.len()).filter_map(|at| {
                let (left, right) = piece.split_at(at);
                Some((*number.get(left)?, *number.get(right)?))
            });
            let mut halves: Vec<(u32, u32)> = halves.collect();
            halves.sort_unstable();
            for pair in halves {
                merges.push((pair, Merge { rank, id }));
                rank += 1;
            }
        }
        let whole = number.iter().map(|(piece, id)| (piece.to_vec(), *id));
        Ok(ByteBpe {
            whole: whole.collect(),
            merges: merges.into_iter().collect(),
            bytes,
            special: special.into_iter().zip(0..).collect(),
            normalized: false,
            digits: 3,
        })
    }
}
