//! The reader: key-values, then tensor infos, then where the data begins.

use std::collections::HashSet;

use nino_dtype::DType;

use super::cursor::Cursor;
use super::{DEFAULT_ALIGNMENT, MAGIC, ORIG_SHAPE, Problem, dtype_from_id};
use crate::{Array, Entry, Metadata, Source, Span, Value};

const MAX_DIMS: u32 = 8;
const MAX_DEPTH: usize = 4;
/// Smallest possible key-value and tensor info, to bound counts by the file's size.
const MIN_KEY_VALUE: u64 = 8 + 4 + 1;
const MIN_TENSOR_INFO: u64 = 8 + 4 + 4 + 8;

#[derive(Debug)]
pub struct Parsed {
    pub version: u32,
    pub entries: Vec<Entry>,
    pub metadata: Metadata,
}

/// Reads and checks the header. Shapes come out in row-major order
/// (slowest first), the reverse of the file's.
pub fn parse<S: Source + ?Sized>(source: &S, file: usize) -> Result<Parsed, Problem> {
    let mut cursor = Cursor::new(source);
    let magic: [u8; 4] = cursor.array("magic")?;
    if magic != MAGIC {
        return Err(Problem::Magic { found: magic });
    }
    let version = cursor.u32("version")?;
    if (1..=3).contains(&version.swap_bytes()) {
        return Err(Problem::BigEndian);
    }
    if !(2..=3).contains(&version) {
        return Err(Problem::Version { found: version });
    }
    let n_tensors = cursor.u64("tensor count")?;
    let n_keys = cursor.u64("key count")?;
    cursor.expect("key-values", n_keys, MIN_KEY_VALUE)?;
    cursor.expect("tensor infos", n_tensors, MIN_TENSOR_INFO)?;

    let metadata = read_metadata(&mut cursor, n_keys)?;
    let alignment = alignment(&metadata)?;
    let infos = read_infos(&mut cursor, n_tensors)?;
    let data = cursor.pos().next_multiple_of(alignment);
    let entries = place(infos, &metadata, data, alignment, source.size(), file)?;
    Ok(Parsed {
        version,
        entries,
        metadata,
    })
}

fn read_metadata<S: Source + ?Sized>(
    cursor: &mut Cursor<'_, S>,
    n_keys: u64,
) -> Result<Metadata, Problem> {
    let mut metadata = Metadata::new();
    for _ in 0..n_keys {
        let offset = cursor.pos();
        let key = cursor.string("key")?;
        let kind = cursor.u32("value type")?;
        let value = read_value(cursor, &key, kind)?;
        if metadata.contains_key(&key) {
            return Err(Problem::Duplicate {
                what: "key",
                name: key,
                offset,
            });
        }
        metadata.insert(key, value);
    }
    Ok(metadata)
}

fn read_value<S: Source + ?Sized>(
    cursor: &mut Cursor<'_, S>,
    key: &str,
    kind: u32,
) -> Result<Value, Problem> {
    const WHAT: &str = "value";
    Ok(match kind {
        0 => Value::U8(u8::from_le_bytes(cursor.array(WHAT)?)),
        1 => Value::I8(i8::from_le_bytes(cursor.array(WHAT)?)),
        2 => Value::U16(u16::from_le_bytes(cursor.array(WHAT)?)),
        3 => Value::I16(i16::from_le_bytes(cursor.array(WHAT)?)),
        4 => Value::U32(u32::from_le_bytes(cursor.array(WHAT)?)),
        5 => Value::I32(i32::from_le_bytes(cursor.array(WHAT)?)),
        6 => Value::F32(f32::from_le_bytes(cursor.array(WHAT)?)),
        7 => Value::Bool(read_bool(cursor, key)?),
        8 => Value::Str(cursor.string("string value")?),
        9 => Value::Array(read_array(cursor, key, 0)?),
        10 => Value::U64(u64::from_le_bytes(cursor.array(WHAT)?)),
        11 => Value::I64(i64::from_le_bytes(cursor.array(WHAT)?)),
        12 => Value::F64(f64::from_le_bytes(cursor.array(WHAT)?)),
        found => {
            return Err(Problem::ValueType {
                key: key.to_owned(),
                offset: cursor.pos(),
                found,
            });
        }
    })
}

fn read_bool<S: Source + ?Sized>(cursor: &mut Cursor<'_, S>, key: &str) -> Result<bool, Problem> {
    let offset = cursor.pos();
    match cursor.array::<1>("boolean")?[0] {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(Problem::Bool {
            key: key.to_owned(),
            offset,
            found,
        }),
    }
}

fn read_array<S: Source + ?Sized>(
    cursor: &mut Cursor<'_, S>,
    key: &str,
    depth: usize,
) -> Result<Array, Problem> {
    let offset = cursor.pos();
    if depth >= MAX_DEPTH {
        return Err(Problem::Depth {
            key: key.to_owned(),
            offset,
            most: MAX_DEPTH,
        });
    }
    let kind = cursor.u32("array type")?;
    let n = cursor.u64("array length")?;
    macro_rules! plain {
        ($variant:ident, $t:ty) => {{
            let size = size_of::<$t>();
            let n = cursor.expect("array", n, size as u64)?;
            let mut bytes = vec![0; n * size];
            cursor.fill("array", &mut bytes)?;
            let (chunks, _) = bytes.as_chunks::<{ size_of::<$t>() }>();
            Array::$variant(chunks.iter().map(|&b| <$t>::from_le_bytes(b)).collect())
        }};
    }
    Ok(match kind {
        0 => plain!(U8, u8),
        1 => plain!(I8, i8),
        2 => plain!(U16, u16),
        3 => plain!(I16, i16),
        4 => plain!(U32, u32),
        5 => plain!(I32, i32),
        6 => plain!(F32, f32),
        7 => {
            let n = cursor.expect("array", n, 1)?;
            Array::Bool(
                (0..n)
                    .map(|_| read_bool(cursor, key))
                    .collect::<Result<_, _>>()?,
            )
        }
        8 => {
            let n = cursor.expect("array of strings", n, 8)?;
            Array::Str(
                (0..n)
                    .map(|_| cursor.string("string"))
                    .collect::<Result<_, _>>()?,
            )
        }
        9 => {
            let n = cursor.expect("array of arrays", n, 12)?;
            let nested = (0..n).map(|_| read_array(cursor, key, depth + 1));
            Array::Nested(nested.collect::<Result<_, _>>()?)
        }
        10 => plain!(U64, u64),
        11 => plain!(I64, i64),
        12 => plain!(F64, f64),
        found => {
            return Err(Problem::ValueType {
                key: key.to_owned(),
                offset,
                found,
            });
        }
    })
}

fn alignment(metadata: &Metadata) -> Result<u64, Problem> {
    let Some(value) = metadata.get("general.alignment") else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    match value.as_u64() {
        Some(n) if n.is_power_of_two() && (8..=65536).contains(&n) => Ok(n),
        _ => Err(Problem::Alignment {
            found: value.to_string(),
        }),
    }
}

struct Info {
    name: String,
    shape: Vec<u64>,
    dtype: DType,
    offset: u64,
}

fn read_infos<S: Source + ?Sized>(
    cursor: &mut Cursor<'_, S>,
    n_tensors: u64,
) -> Result<Vec<Info>, Problem> {
    let mut infos = Vec::new();
    let mut seen = HashSet::new();
    for _ in 0..n_tensors {
        let at = cursor.pos();
        let name = cursor.string("tensor name")?;
        if !seen.insert(name.clone()) {
            return Err(Problem::Duplicate {
                what: "tensor",
                name,
                offset: at,
            });
        }
        let n_dims = cursor.u32("tensor dimensions")?;
        if n_dims > MAX_DIMS {
            return Err(Problem::Dims {
                tensor: name,
                offset: at,
                found: n_dims,
                most: MAX_DIMS,
            });
        }
        let mut shape = (0..n_dims)
            .map(|_| cursor.u64("tensor shape"))
            .collect::<Result<Vec<_>, _>>()?;
        shape.reverse();
        let id = cursor.u32("tensor type")?;
        let Some(dtype) = dtype_from_id(id) else {
            return Err(Problem::DType {
                tensor: name,
                offset: at,
                found: id,
            });
        };
        let offset = cursor.u64("tensor offset")?;
        infos.push(Info {
            name,
            shape,
            dtype,
            offset,
        });
    }
    Ok(infos)
}

fn place(
    mut infos: Vec<Info>,
    metadata: &Metadata,
    data: u64,
    alignment: u64,
    size: u64,
    file: usize,
) -> Result<Vec<Entry>, Problem> {
    infos.sort_by_key(|info| info.offset);
    let mut entries: Vec<Entry> = Vec::with_capacity(infos.len());
    let mut end = data;
    for Info {
        name: tensor,
        shape,
        dtype,
        offset,
    } in infos
    {
        let Some((mut sizes, values, bytes)) = sizes(&shape, dtype) else {
            return Err(Problem::Shape {
                tensor,
                shape,
                dtype,
            });
        };
        if !offset.is_multiple_of(alignment) {
            return Err(Problem::Misaligned {
                tensor,
                found: offset,
                alignment,
            });
        }
        let at = data.saturating_add(offset);
        if at.saturating_add(bytes) > size {
            return Err(Problem::OutOfFile {
                tensor,
                offset: at,
                needed: bytes,
                size,
            });
        }
        if at < end {
            let first = entries.last().map_or(String::new(), |e| e.name.clone());
            return Err(Problem::Overlap {
                first,
                second: tensor,
                offset: at,
            });
        }
        end = at + bytes;
        if let Some(Value::Array(kept)) = metadata.get(&format!("{ORIG_SHAPE}{tensor}")) {
            let kept = kept.to_sizes().unwrap_or_default();
            if kept.iter().try_fold(1usize, |n, &d| n.checked_mul(d)) != Some(values) {
                return Err(Problem::OrigShape {
                    tensor,
                    kept,
                    expected: values,
                });
            }
            sizes = kept;
        }
        entries.push(Entry::plain(
            tensor,
            dtype,
            sizes,
            Span {
                file,
                offset: at,
                len: bytes,
            },
        ));
    }
    Ok(entries)
}

/// Sizes, number of values and bytes; rows must be whole blocks.
fn sizes(shape: &[u64], dtype: DType) -> Option<(Vec<usize>, usize, u64)> {
    let sizes: Vec<usize> = shape
        .iter()
        .map(|&n| usize::try_from(n).ok())
        .collect::<Option<_>>()?;
    sizes
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d.max(1)))?
        .checked_mul(8)?;
    let row = sizes.last().copied().unwrap_or(1);
    if !row.is_multiple_of(dtype.block_len()) {
        return None;
    }
    let values = sizes.iter().product();
    let bytes = dtype.bytes_for(values)? as u64;
    Some((sizes, values, bytes))
}
