//! What the result of a node is kept by: its class, its values and the results it is linked to.
//!
//! Keys are numbers that stand for these, given out once for each combination. So a key is small
//! however long the way to it is, and two different results never share one.

use crate::check::{Bound, CheckedNode};
use crate::value::Value;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[derive(Default)]
pub(super) struct Keys {
    known: HashMap<Made, u64>,
    next: u64,
}

/// How a result is made.
#[derive(PartialEq, Eq, Hash)]
struct Made {
    class: &'static str,
    inputs: Vec<(&'static str, Part)>,
}

#[derive(PartialEq, Eq, Hash)]
enum Part {
    /// Another result.
    Link {
        of: Option<u64>,
        slot: usize,
    },
    Int(i128),
    /// The bits of a float.
    Float(u64),
    Text(String),
    Boolean(bool),
    File(FileState),
    /// A value that is like no other.
    Unlike(u64),
}

/// A file as it is now: a file that was written again is another one.
#[derive(PartialEq, Eq, Hash)]
struct FileState {
    path: PathBuf,
    bytes: Option<u64>,
    modified: Option<SystemTime>,
}

impl FileState {
    fn of(path: &Path) -> FileState {
        let about = std::fs::metadata(path).ok();
        FileState {
            path: path.to_owned(),
            bytes: about.as_ref().map(std::fs::Metadata::len),
            modified: about.and_then(|m| m.modified().ok()),
        }
    }
}

impl Keys {
    /// The key of a node, whose linked nodes have theirs in `others`.
    pub(super) fn of(&mut self, node: &CheckedNode, others: &HashMap<&str, u64>) -> u64 {
        let fresh = self.next;
        let part = |bound: &Bound| match bound {
            Bound::Link(link) => Part::Link {
                of: others.get(link.node.as_str()).copied(),
                slot: link.slot,
            },
            Bound::File(path) => Part::File(FileState::of(path)),
            Bound::Value(Value::Int(n)) => Part::Int(*n),
            Bound::Value(Value::Float(n)) => Part::Float(n.to_bits()),
            Bound::Value(Value::Text(text)) => Part::Text(text.to_string()),
            Bound::Value(Value::Boolean(b)) => Part::Boolean(*b),
            Bound::Value(_) => Part::Unlike(fresh),
        };
        let inputs = node.inputs.iter();
        let mut inputs: Vec<_> = inputs.map(|(name, bound)| (*name, part(bound))).collect();
        if node.def.acts() {
            inputs.push(("", Part::Unlike(fresh)));
        }
        let made = Made {
            class: node.def.class,
            inputs,
        };
        let next = &mut self.next;
        *self.known.entry(made).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }

    /// Forgets all keys but these.
    pub(super) fn retain(&mut self, used: &HashSet<u64>) {
        self.known.retain(|_, key| used.contains(key));
    }
}
