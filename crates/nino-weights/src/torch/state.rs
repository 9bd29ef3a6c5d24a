//! Finds the dictionary of tensors in what a pickle holds and flattens it to dotted names. A pickle
//! that holds one tensor alone, as `torch.save(latent, path)` writes it, gives that tensor.

use std::collections::HashSet;

use super::pickle::{Heap, Id, Node};
use super::tensor::{self, View};
use super::{Parsed, Problem};
use crate::{Entry, Metadata, Span, Value};

const MAX_DEPTH: usize = 16;

/// Bytes of all names and values that are copied out of the pickle, where one string may stand in
/// many places. Two thousand tensors have a hundred thousand.
const MAX_NAMES: usize = 64 << 20;

/// The name that a tensor gets where the file holds it alone and so gives it none.
pub const ALONE: &str = "tensor";

/// Walks the top value. `storage(tensor, key, bytes)` says where a storage's bytes are.
pub(super) fn collect(
    heap: &Heap,
    top: Id,
    storage: impl FnMut(&str, &str, u64) -> Result<Span, Problem>,
) -> Result<Parsed, Problem> {
    let mut walk = Walk {
        heap,
        storage,
        visited: HashSet::new(),
        names: HashSet::new(),
        n_bytes: 0,
        entries: Vec::new(),
        metadata: Metadata::new(),
    };
    let Node::Dict(items) = heap.get(top) else {
        let Some(view) = tensor::view(heap, top, ALONE)? else {
            return Err(Problem::NoStateDict {
                found: describe(heap, top),
            });
        };
        walk.tensor(ALONE.to_owned(), view)?;
        return Ok(Parsed {
            entries: walk.entries,
            metadata: walk.metadata,
        });
    };
    // Training checkpoints keep the model under this key, beside the optimizer and the like.
    let state = items
        .iter()
        .find(|(k, v)| heap.str(*k) == Some("state_dict") && matches!(heap.get(*v), Node::Dict(_)));
    if let Some(&(_, state)) = state {
        for &(key, value) in items {
            if let Some(key) = heap.str(key) {
                walk.scalar(key, value)?;
            }
        }
        walk.dict("", state, 0)?;
    } else {
        walk.dict("", top, 0)?;
    }
    if walk.entries.is_empty() {
        return Err(Problem::NoStateDict {
            found: "a dictionary without tensors".to_owned(),
        });
    }
    Ok(Parsed {
        entries: walk.entries,
        metadata: walk.metadata,
    })
}

struct Walk<'a, F> {
    heap: &'a Heap,
    storage: F,
    visited: HashSet<Id>,
    names: HashSet<String>,
    /// Bytes of names and values so far.
    n_bytes: usize,
    entries: Vec<Entry>,
    metadata: Metadata,
}

impl<F: FnMut(&str, &str, u64) -> Result<Span, Problem>> Walk<'_, F> {
    fn dict(&mut self, prefix: &str, id: Id, depth: usize) -> Result<(), Problem> {
        let Node::Dict(items) = self.heap.get(id) else {
            return Ok(());
        };
        if depth >= MAX_DEPTH {
            return Err(Problem::Depth {
                name: prefix.to_owned(),
                most: MAX_DEPTH,
            });
        }
        // Dictionaries inside dictionaries many times over would multiply without end.
        if !self.visited.insert(id) {
            return Err(Problem::Shared {
                name: prefix.to_owned(),
            });
        }
        for &(key, value) in items {
            let Some(key) = self.heap.str(key) else {
                continue;
            };
            let name = if prefix.is_empty() {
                key.to_owned()
            } else {
                format!("{prefix}.{key}")
            };
            self.count(&name, name.len())?;
            if let Some(view) = tensor::view(self.heap, value, &name)? {
                self.tensor(name, view)?;
            } else if matches!(self.heap.get(value), Node::Dict(_)) {
                self.dict(&name, value, depth + 1)?;
            } else {
                self.scalar(&name, value)?;
            }
        }
        Ok(())
    }

    fn count(&mut self, name: &str, n_bytes: usize) -> Result<(), Problem> {
        self.n_bytes += n_bytes;
        if self.n_bytes <= MAX_NAMES {
            return Ok(());
        }
        Err(Problem::Names {
            name: name.chars().take(100).collect(),
            most: MAX_NAMES,
        })
    }

    fn tensor(&mut self, name: String, view: View) -> Result<(), Problem> {
        let span = (self.storage)(&name, &view.key, view.storage_bytes)?;
        self.entries.push(tensor::place(&name, view, span)?);
        if !self.names.insert(name.clone()) {
            return Err(Problem::Duplicate { tensor: name });
        }
        Ok(())
    }

    fn scalar(&mut self, name: &str, id: Id) -> Result<(), Problem> {
        self.count(name, self.heap.str(id).map_or(0, str::len))?;
        let value = match self.heap.get(id) {
            Node::Bool(v) => Value::Bool(*v),
            Node::Int(v) => Value::I64(*v),
            Node::Float(v) => Value::F64(*v),
            Node::Str(v) => Value::Str(v.clone()),
            _ => return Ok(()),
        };
        self.metadata.insert(name.to_owned(), value);
        Ok(())
    }
}

fn describe(heap: &Heap, id: Id) -> String {
    match heap.get(id) {
        Node::Opaque(_) => match heap.class(id) {
            Some(class) => format!("an object of class {class}"),
            None => "an object".to_owned(),
        },
        Node::Call { .. } => "the result of a call".to_owned(),
        Node::List(_) | Node::Tuple(_) => "a list".to_owned(),
        _ => "a plain value".to_owned(),
    }
}
