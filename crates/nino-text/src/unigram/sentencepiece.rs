//! Vocabularies as sentencepiece writes them (`spiece.model`), which text encoders' files carry.
//!
//! The file is a protobuf message of sentencepiece's `sentencepiece_model.proto`: pieces (field 1)
//! with text, score and type, the trainer's settings (2) and the normalizer's (3). Only what a
//! unigram model needs is read.

use super::{Pieces, Unigram};
use crate::error::Error;

/// Types of pieces, by the numbers that the files have.
const UNKNOWN: u64 = 2;
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;
const UNUSED: u64 = 5;
const BYTE: u64 = 6;
/// The trainer's number for unigram models, which is its default.
const UNIGRAM: u64 = 1;
/// Pieces of a vocabulary, at most.
const MAX_PIECES: usize = 1 << 20;

impl Unigram {
    /// Reads the bytes of a `spiece.model`.
    pub fn from_sentencepiece(file: &[u8]) -> Result<Unigram, Error> {
        Unigram::new(Pieces::from_sentencepiece(file)?)
    }
}

impl<'a> Pieces<'a> {
    /// What the bytes of a `spiece.model` say.
    pub fn from_sentencepiece(file: &'a [u8]) -> Result<Pieces<'a>, Error> {
        let found = Pieces {
            pieces: Vec::new(),
            special: Vec::new(),
            unmatched: Vec::new(),
            bytes: Vec::new(),
            unknown: 0,
            charsmap: &[],
        };
        read(file, found)
    }
}

fn read<'a>(file: &'a [u8], mut found: Pieces<'a>) -> Result<Pieces<'a>, Error> {
    for field in fields(file) {
        match field? {
            (1, Value::Bytes(piece)) if found.pieces.len() < MAX_PIECES => {
                add_piece(&mut found, piece)?;
            }
            (2, Value::Bytes(trainer)) => {
                for field in fields(trainer) {
                    if let (3, Value::Number(kind)) = field?
                        && kind != UNIGRAM
                    {
                        return Err(Error::NotUnigram { kind });
                    }
                }
            }
            (3, Value::Bytes(normalizer)) => {
                for field in fields(normalizer) {
                    if let (2, Value::Bytes(charsmap)) = field? {
                        found.charsmap = charsmap;
                    }
                }
            }
            _ => {}
        }
    }
    if found.bytes.len() != 256 {
        found.bytes.clear();
    }
    Ok(found)
}

fn add_piece(found: &mut Pieces<'_>, piece: &[u8]) -> Result<(), Error> {
    let id = found.pieces.len() as u32;
    let (mut text, mut score, mut kind) = ("", 0.0, 1);
    for field in fields(piece) {
        match field? {
            (1, Value::Bytes(bytes)) => {
                text = std::str::from_utf8(bytes).map_err(|_| Error::PieceText { id })?;
            }
            (2, Value::Float(value)) => score = value,
            (3, Value::Number(value)) => kind = value,
            _ => {}
        }
    }
    match kind {
        USER_DEFINED => found.special.push(id),
        UNKNOWN => {
            found.unknown = id;
            found.unmatched.push(id);
        }
        CONTROL | UNUSED => found.unmatched.push(id),
        BYTE => {
            found.bytes.push(id);
            found.unmatched.push(id);
        }
        _ => {}
    }
    found.pieces.push((text.to_owned(), score));
    Ok(())
}

/// A field's value, by how the message stores it.
enum Value<'a> {
    Number(u64),
    Float(f32),
    Bytes(&'a [u8]),
    Other,
}

/// The fields of a message with their numbers; an error where it is cut short.
fn fields(message: &[u8]) -> impl Iterator<Item = Result<(u64, Value<'_>), Error>> {
    let all = message.len();
    let mut rest = message;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let read = next(&mut rest);
        if read.is_none() {
            rest = &[];
        }
        Some(read.ok_or(Error::SentencePiece { bytes: all }))
    })
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let tag = varint(rest)?;
    let value = match tag & 7 {
        0 => Value::Number(varint(rest)?),
        1 => {
            take(rest, 8)?;
            Value::Other
        }
        2 => {
            let len = usize::try_from(varint(rest)?).ok()?;
            Value::Bytes(take(rest, len)?)
        }
        5 => Value::Float(f32::from_le_bytes(take(rest, 4)?.try_into().ok()?)),
        _ => return None,
    };
    Some((tag >> 3, value))
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    Some(taken)
}

/// Seven bits a byte, the lowest first; the last byte's highest bit is 0.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
