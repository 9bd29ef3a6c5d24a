//! A pickle interpreter that cannot run anything. It knows the opcodes that data needs; a class or
//! function is only ever a name. Calls of the few functions that rebuild tensors become
//! [`Node::Call`] values for the tensor reader to look at, calls of other names become inert
//! [`Node::Opaque`] values, and names whose only use in a pickle is an attack are refused.
//!
//! Opcodes: CPython `Lib/pickletools.py`.

mod globals;
mod machine;
mod ops;

pub use globals::Verdict;
pub use machine::run;

/// A value's place in the [`Heap`].
pub type Id = u32;

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    None,
    Bool(bool),
    Int(i64),
    /// An integer too long for 64 bits, such as the legacy magic number.
    Long(Vec<u8>),
    Float(f64),
    Str(String),
    Bytes(Vec<u8>),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// `module.name`, never looked up: two strings of the heap, and what the name may stand for.
    Global {
        module: Id,
        name: Id,
        verdict: Verdict,
    },
    /// A persistent id: how `torch.save` refers to storages.
    Persistent(Id),
    /// A call of an allow-listed function, kept as data.
    Call {
        function: Id,
        args: Id,
    },
    /// An instance of a class unknown here, whose contents are dropped: the class, where the pickle
    /// names it.
    Opaque(Option<Id>),
}

/// All values a pickle made; they refer to each other by [`Id`].
#[derive(Debug, Default)]
pub struct Heap {
    nodes: Vec<Node>,
}

impl Heap {
    pub fn get(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }

    /// All values, in the order they were made.
    pub fn ids(&self) -> impl Iterator<Item = Id> + use<> {
        0..self.nodes.len() as Id
    }

    pub fn str(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Node::Str(s) => Some(s),
            _ => None,
        }
    }

    pub fn int(&self, id: Id) -> Option<i64> {
        match self.get(id) {
            Node::Int(n) => Some(*n),
            Node::Bool(b) => Some((*b).into()),
            _ => None,
        }
    }

    /// Members of a tuple or list.
    pub fn items(&self, id: Id) -> Option<&[Id]> {
        match self.get(id) {
            Node::Tuple(v) | Node::List(v) => Some(v),
            _ => None,
        }
    }

    pub fn global(&self, id: Id) -> Option<(&str, &str)> {
        match self.get(id) {
            Node::Global { module, name, .. } => Some((self.str(*module)?, self.str(*name)?)),
            _ => None,
        }
    }

    /// `module.name` of the class that an opaque value is an instance of.
    pub fn class(&self, id: Id) -> Option<String> {
        let Node::Opaque(Some(class)) = self.get(id) else {
            return None;
        };
        let (module, name) = self.global(*class)?;
        Some(format!("{module}.{name}"))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("ends at offset {offset} inside opcode {opcode:#04x}")]
    Truncated { offset: usize, opcode: u8 },
    #[error("has no STOP before its end at offset {offset}")]
    NoStop { offset: usize },
    #[error("opcode {opcode:#04x} at offset {offset} is not one that data needs")]
    Opcode { offset: usize, opcode: u8 },
    #[error("protocol {found} at offset {offset}; up to 5 is readable")]
    Protocol { offset: usize, found: u8 },
    #[error("opcode {opcode:#04x} at offset {offset} finds {found} on the stack, needs {expected}")]
    Stack {
        offset: usize,
        opcode: u8,
        expected: &'static str,
        found: &'static str,
    },
    #[error("opcode {opcode:#04x} at offset {offset} reads memo {key}, which was never set")]
    Memo { offset: usize, opcode: u8, key: u64 },
    #[error("text of opcode {opcode:#04x} at offset {offset} is not {expected}")]
    Text {
        offset: usize,
        opcode: u8,
        expected: &'static str,
    },
    #[error("wants to call {module}.{name} at offset {offset}: refused, nothing was run")]
    Forbidden {
        offset: usize,
        module: String,
        name: String,
    },
    #[error("makes more than {most} values at offset {offset}")]
    TooMany { offset: usize, most: usize },
    #[error("name of {len} bytes at offset {offset}; at most {most} are read")]
    LongName {
        offset: usize,
        len: usize,
        most: usize,
    },
}
