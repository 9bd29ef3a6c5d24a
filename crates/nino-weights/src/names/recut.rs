//! Cuts stored tensors to the shapes canonical names have, by moving spans and strides; reads
//! nothing.

use std::collections::HashMap;

use nino_dtype::DType;

use super::discover::Found;
use super::{Mapper, Op};
use crate::{Entry, Error, Index, Result, Span};

/// Why a stored tensor cannot stand for the canonical one.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("shape {shape:?} does not split into {of} parts by rows")]
    Split { shape: Vec<usize>, of: usize },
    #[error("piece {part} of {of} of {target:?} is missing")]
    Piece {
        target: String,
        part: usize,
        of: usize,
    },
    #[error(
        "pieces of {target:?} do not fit together: {found:?} {dtype} beside {expected:?} {other}"
    )]
    Mixed {
        target: String,
        expected: Vec<usize>,
        other: DType,
        found: Vec<usize>,
        dtype: DType,
    },
    #[error("{dtype} has its own layout and cannot be {what}")]
    Layout { dtype: DType, what: &'static str },
    #[error("also becomes {target:?}, as {other:?} does")]
    Twice { target: String, other: String },
}

/// The component's entries under canonical names, and the names its tables do not know.
pub(super) fn apply(index: &Index, found: &Found, mapper: &Mapper) -> Result<(Index, Vec<String>)> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut sources: HashMap<String, &Entry> = HashMap::new();
    let mut joins: HashMap<String, Vec<Option<&Entry>>> = HashMap::new();
    let mut unmapped = Vec::new();
    for &i in &found.members {
        let stored = &index.entries()[i];
        let Some(targets) = mapper.map(&stored.name[found.prefix.len()..]) else {
            unmapped.push(stored.name.clone());
            continue;
        };
        for (target, op) in targets {
            let fail = |reason| Error::Names {
                tensor: stored.name.clone(),
                reason,
            };
            if let Op::Join { part, of } = op {
                let pieces = joins
                    .entry(target.clone())
                    .or_insert_with(|| vec![None; of]);
                pieces[part] = Some(stored);
                if pieces.iter().all(Option::is_some) {
                    let pieces: Vec<&Entry> = pieces.iter().flatten().copied().collect();
                    entries.push(join(&target, &pieces).map_err(fail)?);
                    joins.remove(&target);
                }
                continue;
            }
            if let Some(other) = sources.get(&target) {
                // Tied weights are often saved twice.
                if other.shape == stored.shape {
                    continue;
                }
                let other = other.name.clone();
                return Err(fail(Problem::Twice { target, other }));
            }
            sources.insert(target.clone(), stored);
            entries.push(cut(stored, target, op).map_err(fail)?);
        }
    }
    if let Some((target, pieces)) = joins.iter().next() {
        let part = pieces.iter().position(Option::is_none).unwrap_or(0);
        let tensor = pieces
            .iter()
            .flatten()
            .next()
            .map_or(String::new(), |e| e.name.clone());
        let reason = Problem::Piece {
            target: target.clone(),
            part,
            of: pieces.len(),
        };
        return Err(Error::Names { tensor, reason });
    }
    Ok((index.with_entries(entries), unmapped))
}

fn cut(stored: &Entry, name: String, op: Op) -> Result<Entry, Problem> {
    let entry = Entry {
        name,
        ..stored.clone()
    };
    let layout = |what| Problem::Layout {
        dtype: stored.dtype,
        what,
    };
    match op {
        Op::Slice { part, of } => {
            let spans = rows(stored, part, of)?;
            let mut shape = stored.shape.clone();
            shape[0] /= of;
            Ok(Entry {
                shape,
                spans,
                ..entry
            })
        }
        Op::SwapHalves => {
            let mut spans = rows(stored, 1, 2)?;
            spans.extend(rows(stored, 0, 2)?);
            Ok(Entry { spans, ..entry })
        }
        Op::Transpose => {
            let &[rows, columns] = &stored.shape[..] else {
                return Err(layout("transposed: it is not a matrix"));
            };
            if stored.dtype.is_block() || stored.scale.is_some() {
                return Err(layout("transposed without decoding it"));
            }
            let strides = match &stored.strides {
                Some(s) => vec![s[1], s[0]],
                None if stored.spans.len() == 1 => vec![1, columns],
                None => return Err(layout("transposed")),
            };
            Ok(Entry {
                shape: vec![columns, rows],
                strides: Some(strides),
                ..entry
            })
        }
        Op::AsConv if stored.shape.len() == 2 => {
            let mut shape = stored.shape.clone();
            shape.extend([1, 1]);
            let strides = stored.strides.as_ref().map(|s| [&s[..], &[1, 1]].concat());
            Ok(Entry {
                shape,
                strides,
                ..entry
            })
        }
        _ => Ok(entry),
    }
}

/// The bytes of part `part` of `of` equal parts by rows.
fn rows(stored: &Entry, part: usize, of: usize) -> Result<Vec<Span>, Problem> {
    let split = || Problem::Split {
        shape: stored.shape.clone(),
        of,
    };
    let bytes = stored.n_bytes();
    let whole_blocks = bytes.is_multiple_of((of * stored.dtype.block_bytes()) as u64);
    let n_rows = *stored.shape.first().ok_or_else(split)?;
    if !n_rows.is_multiple_of(of) || !whole_blocks || stored.strides.is_some() {
        return Err(split());
    }
    let mut start = bytes / of as u64 * part as u64;
    let mut left = bytes / of as u64;
    let mut spans = Vec::new();
    for span in &stored.spans {
        if start >= span.len {
            start -= span.len;
            continue;
        }
        let len = (span.len - start).min(left);
        if len > 0 {
            spans.push(Span {
                offset: span.offset + start,
                len,
                ..*span
            });
        }
        start = 0;
        left -= len;
    }
    Ok(spans)
}

fn join(target: &str, pieces: &[&Entry]) -> Result<Entry, Problem> {
    let first = pieces[0];
    let mut spans = Vec::new();
    let mut n_rows = 0;
    for piece in pieces {
        let fits = piece.dtype == first.dtype
            && !piece.shape.is_empty()
            && piece.shape[1..] == first.shape[1..];
        if !fits {
            return Err(Problem::Mixed {
                target: target.to_owned(),
                expected: first.shape.clone(),
                other: first.dtype,
                found: piece.shape.clone(),
                dtype: piece.dtype,
            });
        }
        if piece.strides.is_some() || piece.scale.is_some() {
            let what = "joined to others without decoding it";
            return Err(Problem::Layout {
                dtype: piece.dtype,
                what,
            });
        }
        n_rows += piece.shape[0];
        spans.extend(&piece.spans);
    }
    let mut shape = first.shape.clone();
    shape[0] = n_rows;
    Ok(Entry {
        name: target.to_owned(),
        shape,
        spans,
        ..first.clone()
    })
}
