//! The format before PyTorch 1.6: five pickles (magic, version, system, object, storage keys), then
//! the storages, each preceded by its length in values.

use std::collections::HashMap;

use super::pickle::{self, Heap, Id, Node};
use super::{Parsed, Problem, read, state, tensor};
use crate::{Source, Span};

/// 0x1950a86a20f9469cfc6c, little-endian.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
const VERSION: i64 = 1001;
const FIRST_WINDOW: u64 = 1 << 20;
const MAX_WINDOW: u64 = 512 << 20;

pub(super) fn parse<S: Source + ?Sized>(source: &S, file: usize) -> Result<Parsed, Problem> {
    let mut pos = 0;
    let (heap, top) = next(source, &mut pos)?;
    if !matches!(heap.get(top), Node::Long(bytes) if *bytes == MAGIC) {
        return Err(Problem::Legacy {
            offset: 0,
            what: "no magic number of torch.save",
        });
    }
    let offset = pos;
    let (heap, top) = next(source, &mut pos)?;
    if heap.int(top) != Some(VERSION) {
        return Err(Problem::Legacy {
            offset,
            what: "unknown version",
        });
    }
    let (heap, top) = next(source, &mut pos)?;
    if big_endian(&heap, top) {
        return Err(Problem::BigEndian);
    }
    let (heap, top) = next(source, &mut pos)?;
    let storages = locate(source, &heap, pos, file)?;
    state::collect(&heap, top, |tensor, key, expected| {
        let span = storages.get(key).ok_or_else(|| Problem::NoStorage {
            tensor: tensor.to_owned(),
            key: key.to_owned(),
        })?;
        if span.len < expected {
            return Err(Problem::StorageLength {
                tensor: tensor.to_owned(),
                key: key.to_owned(),
                offset: span.offset,
                expected,
                found: span.len,
            });
        }
        Ok(*span)
    })
}

/// Runs the pickle at `pos`, reading as much of the file as it turns out to need.
fn next<S: Source + ?Sized>(source: &S, pos: &mut u64) -> Result<(Heap, Id), Problem> {
    let left = source.size() - *pos;
    let mut window = FIRST_WINDOW;
    loop {
        let len = window.min(left);
        let mut program = vec![0; len as usize];
        read(source, &mut program, *pos)?;
        match pickle::run(&program) {
            Ok((heap, top, used)) => {
                *pos += used as u64;
                return Ok((heap, top));
            }
            Err(pickle::Problem::Truncated { .. } | pickle::Problem::NoStop { .. })
                if window < left && window < MAX_WINDOW =>
            {
                window *= 8;
            }
            Err(problem) => return Err(problem.into()),
        }
    }
}

fn big_endian(heap: &Heap, system: Id) -> bool {
    let Node::Dict(items) = heap.get(system) else {
        return false;
    };
    items
        .iter()
        .any(|&(k, v)| heap.str(k) == Some("little_endian") && *heap.get(v) == Node::Bool(false))
}

/// Where each storage's bytes are: the list of keys, then length and values in that order.
fn locate<S: Source + ?Sized>(
    source: &S,
    object: &Heap,
    mut pos: u64,
    file: usize,
) -> Result<HashMap<String, Span>, Problem> {
    let mut value_bytes = HashMap::new();
    for id in object.ids() {
        if let Some(storage) = tensor::storage(object, id, "storage list")? {
            let size = storage.dtype.map_or(1, nino_dtype::DType::block_bytes);
            value_bytes.insert(storage.key, size as u64);
        }
    }
    let offset = pos;
    let (heap, keys) = next(source, &mut pos)?;
    let bad = |offset, what| Problem::Legacy { offset, what };
    let keys = heap
        .items(keys)
        .ok_or_else(|| bad(offset, "no list of storages"))?;
    let mut storages = HashMap::new();
    for &key in keys {
        let key = match heap.get(key) {
            Node::Str(key) => key.clone(),
            Node::Int(key) => key.to_string(),
            _ => return Err(bad(offset, "storage key is no string")),
        };
        let size = *value_bytes
            .get(&key)
            .ok_or_else(|| bad(pos, "storage of no tensor"))?;
        let mut n = [0; 8];
        read(source, &mut n, pos)?;
        let len = u64::try_from(i64::from_le_bytes(n))
            .ok()
            .and_then(|n| n.checked_mul(size));
        let len = len.ok_or_else(|| bad(pos, "storage length out of range"))?;
        let start = pos + 8;
        if start.checked_add(len).is_none_or(|end| end > source.size()) {
            return Err(bad(pos, "storage reaches past the end of the file"));
        }
        storages.insert(
            key,
            Span {
                file,
                offset: start,
                len,
            },
        );
        pos = start + len;
    }
    Ok(storages)
}
