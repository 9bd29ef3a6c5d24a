//! From a recorded `_rebuild_tensor_v2(storage, start, shape, strides, ..)` to an entry of the
//! index.

use nino_dtype::DType;

use super::pickle::{Heap, Id, Node};
use super::{Problem, dtype_from_name};
use crate::{Entry, Span};

/// The most dimensions of a tensor, which is PyTorch's own limit.
const MAX_DIMENSIONS: usize = 64;
/// Bytes of a storage's name; PyTorch numbers them.
const MAX_KEY: usize = 1024;

/// A tensor as the pickle describes it: a strided view into a storage.
#[derive(Debug)]
pub(super) struct View {
    dtype: DType,
    pub(super) key: String,
    /// Bytes the whole storage is said to have.
    pub(super) storage_bytes: u64,
    start: u64,
    shape: Vec<usize>,
    strides: Vec<usize>,
}

/// The storage a persistent id names.
pub(super) struct Storage {
    /// `None` for untyped storages, whose tensors carry the type.
    pub(super) dtype: Option<DType>,
    pub(super) key: String,
    n: u64,
    /// Legacy files have storages that are views of others.
    view_start: u64,
}

/// Reads a value as a tensor; `None` when it is something else.
pub(super) fn view(heap: &Heap, id: Id, tensor: &str) -> Result<Option<View>, Problem> {
    let Node::Call { function, args } = heap.get(id) else {
        return Ok(None);
    };
    let bad = |what| Problem::Rebuild {
        tensor: tensor.to_owned(),
        what,
    };
    let (mut function, mut args) = (
        *function,
        heap.items(*args).ok_or_else(|| bad("arguments"))?,
    );
    if heap.global(function) == Some(("torch._tensor", "_rebuild_from_type_v2")) {
        let &[inner, _class, inner_args, ..] = args else {
            return Err(bad("arguments"));
        };
        function = inner;
        args = heap.items(inner_args).ok_or_else(|| bad("arguments"))?;
    }
    let Some(("torch._utils", name)) = heap.global(function) else {
        return Ok(None);
    };
    let &[storage, start, shape, strides, ..] = args else {
        return Err(bad("arguments"));
    };
    let storage = self::storage(heap, storage, tensor)?.ok_or_else(|| bad("storage"))?;
    let typed = match (name, storage.dtype) {
        ("_rebuild_tensor_v3", _) => {
            let global = args.get(6).and_then(|&id| heap.global(id));
            let (_, found) = global.ok_or_else(|| bad("type"))?;
            dtype_from_name(found).ok_or_else(|| Problem::StorageType {
                tensor: tensor.to_owned(),
                found: found.to_owned(),
            })?
        }
        (_, Some(dtype)) => dtype,
        (_, None) => return Err(bad("untyped storage without a type")),
    };
    let unit = storage.dtype.map_or(1, DType::block_bytes) as u64;
    let storage_bytes = storage
        .n
        .checked_mul(unit)
        .ok_or_else(|| bad("storage length"))?;
    let start = heap
        .int(start)
        .and_then(|n| u64::try_from(n).ok())
        .ok_or_else(|| bad("start"))?;
    let start = start
        .checked_add(storage.view_start)
        .ok_or_else(|| bad("start"))?;
    let n_dimensions = |id| heap.items(id).map_or(0, <[Id]>::len);
    if n_dimensions(shape).max(n_dimensions(strides)) > MAX_DIMENSIONS {
        return Err(bad("more than 64 dimensions"));
    }
    let sizes = |id| {
        heap.items(id)?
            .iter()
            .map(|&n| heap.int(n)?.try_into().ok())
            .collect()
    };
    let shape: Option<Vec<usize>> = sizes(shape);
    let strides: Option<Vec<usize>> = sizes(strides);
    match (shape, strides) {
        (Some(shape), Some(strides)) if shape.len() == strides.len() => Ok(Some(View {
            dtype: typed,
            key: storage.key,
            storage_bytes,
            start,
            shape,
            strides,
        })),
        _ => Err(bad("shape or strides")),
    }
}

/// Reads `("storage", torch.FloatStorage, key, device, n[, view])`.
pub(super) fn storage(heap: &Heap, id: Id, tensor: &str) -> Result<Option<Storage>, Problem> {
    let bad = |what| Problem::Rebuild {
        tensor: tensor.to_owned(),
        what,
    };
    let Node::Persistent(id) = heap.get(id) else {
        return Ok(None);
    };
    let items = heap.items(*id).ok_or_else(|| bad("persistent id"))?;
    let &[tag, class, key, _device, n, ..] = items else {
        return Err(bad("persistent id"));
    };
    if heap.str(tag) != Some("storage") {
        return Err(bad("persistent id"));
    }
    let (_, class) = heap.global(class).ok_or_else(|| bad("storage class"))?;
    let dtype = match class {
        "UntypedStorage" => None,
        name => Some(dtype_from_name(name).ok_or_else(|| Problem::StorageType {
            tensor: tensor.to_owned(),
            found: name.to_owned(),
        })?),
    };
    let key = match heap.get(key) {
        Node::Str(key) if key.len() <= MAX_KEY => key.clone(),
        Node::Int(key) => key.to_string(),
        _ => return Err(bad("storage key")),
    };
    let n = heap
        .int(n)
        .and_then(|n| u64::try_from(n).ok())
        .ok_or_else(|| bad("storage length"))?;
    let mut view_start = 0;
    if let Some(view) = items.get(5).and_then(|&v| heap.items(v)) {
        let start = view
            .get(1)
            .and_then(|&v| heap.int(v))
            .and_then(|n| u64::try_from(n).ok());
        view_start = start.ok_or_else(|| bad("storage view"))?;
    }
    Ok(Some(Storage {
        dtype,
        key,
        n,
        view_start,
    }))
}

/// Checks the view against its storage's bytes and turns it into an entry.
pub(super) fn place(tensor: &str, view: View, storage: Span) -> Result<Entry, Problem> {
    let View {
        dtype,
        start,
        shape,
        strides,
        ..
    } = view;
    let size = dtype.block_bytes() as u64;
    let values = storage.len / size;
    let overflow = || Problem::OutOfStorage {
        tensor: tensor.to_owned(),
        shape: shape.clone(),
        strides: strides.clone(),
        start,
        values,
    };
    let n = shape
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d.max(1)))
        .ok_or_else(overflow)?;
    n.checked_mul(8).ok_or_else(overflow)?;
    let empty = shape.contains(&0);
    // One past the last value the view reaches, counted from its start.
    let mut reach = u64::from(!empty);
    if !empty {
        for (&d, &stride) in shape.iter().zip(&strides) {
            let step = (d as u64 - 1)
                .checked_mul(stride as u64)
                .ok_or_else(overflow)?;
            reach = reach.checked_add(step).ok_or_else(overflow)?;
        }
    }
    if start.checked_add(reach).is_none_or(|end| end > values) {
        return Err(overflow());
    }
    let span = Span {
        offset: storage.offset + start * size,
        len: reach * size,
        ..storage
    };
    let name = tensor.to_owned();
    if empty || is_contiguous(&shape, &strides) {
        return Ok(Entry::plain(name, dtype, shape, span));
    }
    if n as u64 > reach {
        return Err(Problem::Expanded {
            tensor: name,
            shape,
            strides,
        });
    }
    Ok(Entry {
        strides: Some(strides),
        ..Entry::plain(name, dtype, shape, span)
    })
}

fn is_contiguous(shape: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1;
    shape.iter().zip(strides).rev().all(|(&d, &stride)| {
        let fits = d == 1 || stride == expected;
        expected *= d;
        fits
    })
}
