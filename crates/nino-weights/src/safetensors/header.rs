//! The header parser. Stricter than JSON: a name twice, an unknown field, a hole or an overlap is
//! an error, because every one of them means that two readers could disagree on what the file
//! holds.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use super::{MAX_HEADER, Problem, dtype_from_name};
use crate::{Entry, Metadata, Source, Span, Value};

/// What the header says: tensors in the order of their bytes.
#[derive(Debug)]
pub struct Parsed {
    pub entries: Vec<Entry>,
    pub metadata: Metadata,
}

/// Reads and checks the header; `file` is the number the spans will carry.
pub fn parse<S: Source + ?Sized>(source: &S, file: usize) -> Result<Parsed, Problem> {
    let size = source.size();
    if size < 8 {
        return Err(Problem::NoHeader { found: size });
    }
    let mut len = [0; 8];
    read(source, &mut len, 0)?;
    let len = u64::from_le_bytes(len);
    let most = MAX_HEADER.min(size - 8);
    if len > most {
        return Err(Problem::HeaderLength { found: len, most });
    }
    let mut json = vec![0; len as usize];
    read(source, &mut json, 8)?;
    let json = std::str::from_utf8(&json).map_err(|e| Problem::Utf8 {
        offset: 8 + e.valid_up_to() as u64,
    })?;
    let raw: RawHeader = serde_json::from_str(json).map_err(|reason| Problem::Json { reason })?;
    let entries = place(raw.tensors, 8 + len, size, file)?;
    let metadata = raw
        .metadata
        .into_iter()
        .map(|(k, v)| (k, Value::Str(v)))
        .collect();
    Ok(Parsed { entries, metadata })
}

fn read<S: Source + ?Sized>(source: &S, buf: &mut [u8], offset: u64) -> Result<(), Problem> {
    let len = buf.len() as u64;
    source
        .read_exact_at(buf, offset)
        .map_err(|reason| Problem::Read {
            offset,
            len,
            reason,
        })
}

/// Checks every range and that together they cover the data exactly.
fn place(
    mut tensors: Vec<(String, RawTensor)>,
    data: u64,
    size: u64,
    file: usize,
) -> Result<Vec<Entry>, Problem> {
    tensors.sort_by_key(|(_, t)| t.data_offsets);
    let mut entries = Vec::with_capacity(tensors.len());
    let mut expected = 0;
    let mut previous = String::from("start of data");
    for (tensor, raw) in tensors {
        let (begin, end) = raw.data_offsets;
        let Some(dtype) = dtype_from_name(&raw.dtype) else {
            return Err(Problem::DType {
                tensor,
                dtype: raw.dtype,
            });
        };
        let Some((shape, bytes)) = sizes(&raw.shape, dtype.block_bytes()) else {
            return Err(Problem::Shape {
                tensor,
                shape: raw.shape,
            });
        };
        if end.checked_sub(begin) != Some(bytes) {
            return Err(Problem::Length {
                tensor,
                begin,
                end,
                expected: bytes,
            });
        }
        if begin != expected {
            return Err(Problem::Gap {
                tensor,
                previous,
                expected,
                found: begin,
            });
        }
        expected = end;
        previous.clone_from(&tensor);
        // No overflow: `begin` is at most the sum of earlier lengths, and the file length check
        // below refuses what does not fit; a wrapped value is never used before it.
        let offset = data.saturating_add(begin);
        entries.push(Entry::plain(
            tensor,
            dtype,
            shape,
            Span {
                file,
                offset,
                len: bytes,
            },
        ));
    }
    let end = data.saturating_add(expected);
    if end != size {
        return Err(Problem::FileLength {
            expected: end,
            found: size,
        });
    }
    Ok(entries)
}

fn sizes(shape: &[u64], value_bytes: usize) -> Option<(Vec<usize>, u64)> {
    let mut values = 1u64;
    let mut sizes = Vec::with_capacity(shape.len());
    for &n in shape {
        values = values.checked_mul(n)?;
        sizes.push(usize::try_from(n).ok()?);
    }
    // A zero makes the product zero whatever the rest is; the rest must still multiply safely.
    sizes
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d.max(1)))?
        .checked_mul(value_bytes)?;
    Some((sizes, values.checked_mul(value_bytes as u64)?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

#[derive(Default)]
struct RawHeader {
    tensors: Vec<(String, RawTensor)>,
    metadata: Vec<(String, String)>,
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = RawHeader;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
        let mut header = RawHeader::default();
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom(format_args!(
                    "name {name:?} appears twice"
                )));
            }
            if name == "__metadata__" {
                header.metadata = map.next_value::<Strings>()?.0;
            } else {
                header.tensors.push((name, map.next_value()?));
            }
        }
        Ok(header)
    }
}

struct Strings(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Strings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(StringsVisitor).map(Strings)
    }
}

struct StringsVisitor;

impl<'de> Visitor<'de> for StringsVisitor {
    type Value = Vec<(String, String)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        let mut seen = HashSet::new();
        while let Some(pair) = map.next_entry::<String, String>()? {
            if !seen.insert(pair.0.clone()) {
                return Err(A::Error::custom(format_args!(
                    "metadata {:?} appears twice",
                    pair.0
                )));
            }
            pairs.push(pair);
        }
        Ok(pairs)
    }
}
