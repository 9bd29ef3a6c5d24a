//! The stack machine. Values refer to each other and are never copied, so memory is bounded by the
//! pickle's own length and by [`MAX_VALUES`].

use super::globals::verdict;
#[allow(clippy::wildcard_imports)] // a module of opcode names and nothing else
use super::ops::*;
use super::{Heap, Id, Node, Problem, Verdict};

/// Values one pickle may make, and may hold on its stack and in its memo; a checkpoint of 2,000
/// tensors with optimizer state makes 100,000.
const MAX_VALUES: usize = 4_000_000;

/// Bytes of the name of a module or of a class in it.
const MAX_NAME: usize = 1024;

/// Interprets one pickle. Returns the values, the top one, and the bytes used up to STOP.
pub fn run(program: &[u8]) -> Result<(Heap, Id, usize), Problem> {
    let mut machine = Machine {
        program,
        pos: 0,
        op: 0,
        at: 0,
        heap: Heap::default(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        n_memos: 0,
    };
    let top = machine.run()?;
    Ok((machine.heap, top, machine.pos))
}

struct Machine<'a> {
    program: &'a [u8],
    pos: usize,
    /// The opcode at hand and its offset, for messages.
    op: u8,
    at: usize,
    heap: Heap,
    stack: Vec<Id>,
    marks: Vec<usize>,
    /// Remembered values by their keys, which picklers count up.
    memo: Vec<Option<Id>>,
    /// Those that are set.
    n_memos: u64,
}

impl<'a> Machine<'a> {
    fn run(&mut self) -> Result<Id, Problem> {
        loop {
            self.at = self.pos;
            let Some(&op) = self.program.get(self.pos) else {
                return Err(Problem::NoStop { offset: self.pos });
            };
            self.op = op;
            self.pos += 1;
            if op == STOP {
                return self.pop();
            }
            self.step(op)?;
        }
    }

    fn step(&mut self, op: u8) -> Result<(), Problem> {
        match op {
            PROTO => match self.take::<1>()?[0] {
                0..=5 => Ok(()),
                found => Err(Problem::Protocol {
                    offset: self.at,
                    found,
                }),
            },
            FRAME => self.take::<8>().map(drop),
            MARK => {
                self.has_room(self.marks.len())?;
                self.marks.push(self.stack.len());
                Ok(())
            }
            POP => match self.marks.last() {
                Some(&mark) if mark == self.stack.len() => {
                    self.marks.pop();
                    Ok(())
                }
                _ => self.pop().map(drop),
            },
            POP_MARK => self.pop_mark().map(drop),
            DUP => {
                let top = self.top()?;
                self.again(top)
            }
            NONE | NEWTRUE | NEWFALSE | INT | LONG | BININT | BININT1 | BININT2 | LONG1 | LONG4
            | FLOAT | BINFLOAT | STRING | UNICODE | BINSTRING | SHORT_BINSTRING | BINUNICODE
            | SHORT_BINUNICODE | BINUNICODE8 | BINBYTES | SHORT_BINBYTES | BINBYTES8
            | BYTEARRAY8 => {
                let node = self.scalar(op)?;
                self.push(node)
            }
            GET | BINGET | LONG_BINGET | PUT | BINPUT | LONG_BINPUT | MEMOIZE => self.memo_op(op),
            EMPTY_LIST | EMPTY_SET => self.push(Node::List(Vec::new())),
            EMPTY_TUPLE => self.push(Node::Tuple(Vec::new())),
            EMPTY_DICT => self.push(Node::Dict(Vec::new())),
            LIST | TUPLE | FROZENSET | DICT | APPEND | APPENDS | ADDITEMS | TUPLE1 | TUPLE2
            | TUPLE3 | SETITEM | SETITEMS => self.collection(op),
            GLOBAL | STACK_GLOBAL | BINPERSID | REDUCE | NEWOBJ | NEWOBJ_EX | BUILD => {
                self.object(op)
            }
            opcode => Err(Problem::Opcode {
                offset: self.at,
                opcode,
            }),
        }
    }

    fn scalar(&mut self, op: u8) -> Result<Node, Problem> {
        Ok(match op {
            NONE => Node::None,
            NEWTRUE => Node::Bool(true),
            NEWFALSE => Node::Bool(false),
            INT => match self.line()? {
                "00" => Node::Bool(false),
                "01" => Node::Bool(true),
                text => Node::Int(text.parse().map_err(|_| self.text("a number"))?),
            },
            LONG => {
                let text = self.line()?.trim_end_matches('L');
                Node::Int(text.parse().map_err(|_| self.text("a number"))?)
            }
            BININT => Node::Int(i32::from_le_bytes(self.take()?).into()),
            BININT1 => Node::Int(self.take::<1>()?[0].into()),
            BININT2 => Node::Int(u16::from_le_bytes(self.take()?).into()),
            LONG1 => long(self.counted::<1>()?),
            LONG4 => long(self.counted::<4>()?),
            FLOAT => {
                let text = self.line()?;
                Node::Float(text.parse().map_err(|_| self.text("a number"))?)
            }
            BINFLOAT => Node::Float(f64::from_be_bytes(self.take()?)),
            STRING => Node::Str(self.line()?.trim_matches(['\'', '"']).to_owned()),
            UNICODE => Node::Str(self.line()?.to_owned()),
            // Python 2 strings: bytes whose meaning is unknown; torch uses them for ASCII names.
            BINSTRING => self.old_string::<4>()?,
            SHORT_BINSTRING => self.old_string::<1>()?,
            BINUNICODE => self.unicode::<4>()?,
            SHORT_BINUNICODE => self.unicode::<1>()?,
            BINUNICODE8 => self.unicode::<8>()?,
            BINBYTES => Node::Bytes(self.counted::<4>()?.to_vec()),
            SHORT_BINBYTES => Node::Bytes(self.counted::<1>()?.to_vec()),
            BINBYTES8 | BYTEARRAY8 => Node::Bytes(self.counted::<8>()?.to_vec()),
            opcode => {
                return Err(Problem::Opcode {
                    offset: self.at,
                    opcode,
                });
            }
        })
    }

    fn memo_op(&mut self, op: u8) -> Result<(), Problem> {
        let key = match op {
            MEMOIZE => self.n_memos,
            GET | PUT => {
                let text = self.line()?;
                text.parse().map_err(|_| self.text("a number"))?
            }
            BINGET | BINPUT => self.take::<1>()?[0].into(),
            _ => u32::from_le_bytes(self.take()?).into(),
        };
        if matches!(op, GET | BINGET | LONG_BINGET) {
            let memo = usize::try_from(key).ok().and_then(|k| self.memo.get(k));
            let id = memo.copied().flatten().ok_or(Problem::Memo {
                offset: self.at,
                opcode: self.op,
                key,
            })?;
            return self.again(id);
        }
        let top = self.top()?;
        let key = usize::try_from(key).unwrap_or(usize::MAX);
        self.has_room(key)?;
        if key >= self.memo.len() {
            self.memo.resize(key + 1, None);
        }
        self.n_memos += u64::from(self.memo[key].replace(top).is_none());
        Ok(())
    }

    fn collection(&mut self, op: u8) -> Result<(), Problem> {
        match op {
            LIST | FROZENSET => {
                let items = self.pop_mark()?;
                self.push(Node::List(items))
            }
            TUPLE => {
                let items = self.pop_mark()?;
                self.push(Node::Tuple(items))
            }
            TUPLE1 | TUPLE2 | TUPLE3 => {
                let mut items = Vec::new();
                for _ in 0..=op - TUPLE1 {
                    items.push(self.pop()?);
                }
                items.reverse();
                self.push(Node::Tuple(items))
            }
            APPEND => {
                let item = self.pop()?;
                self.extend(&[item])
            }
            APPENDS | ADDITEMS => {
                let items = self.pop_mark()?;
                self.extend(&items)
            }
            SETITEM => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set_items(&[key, value])
            }
            SETITEMS => {
                let items = self.pop_mark()?;
                self.set_items(&items)
            }
            _ => {
                let items = self.pop_mark()?;
                self.push(Node::Dict(Vec::new()))?;
                self.set_items(&items)
            }
        }
    }

    fn extend(&mut self, items: &[Id]) -> Result<(), Problem> {
        let top = self.top()?;
        match &mut self.heap.nodes[top as usize] {
            Node::List(list) => list.extend_from_slice(items),
            Node::Opaque(_) => {}
            _ => return Err(self.stack_problem("a list", "another value")),
        }
        Ok(())
    }

    fn set_items(&mut self, items: &[Id]) -> Result<(), Problem> {
        let top = self.top()?;
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(self.stack_problem("keys and values in pairs", "an odd number"));
        }
        match &mut self.heap.nodes[top as usize] {
            Node::Dict(dict) => dict.extend(pairs.iter().map(|&[k, v]| (k, v))),
            Node::Opaque(_) => {}
            _ => return Err(self.stack_problem("a dictionary", "another value")),
        }
        Ok(())
    }

    fn object(&mut self, op: u8) -> Result<(), Problem> {
        match op {
            GLOBAL => {
                let module = Node::Str(self.line()?.to_owned());
                let name = Node::Str(self.line()?.to_owned());
                let (module, name) = (self.make(module)?, self.make(name)?);
                self.global(module, name)
            }
            STACK_GLOBAL => {
                let name = self.pop()?;
                let module = self.pop()?;
                self.global(module, name)
            }
            BINPERSID => {
                let id = self.pop()?;
                self.push(Node::Persistent(id))
            }
            REDUCE | NEWOBJ => {
                let args = self.pop()?;
                let function = self.pop()?;
                self.call(function, args)
            }
            NEWOBJ_EX => {
                let _keywords = self.pop()?;
                let args = self.pop()?;
                let function = self.pop()?;
                self.call(function, args)
            }
            _ => {
                // BUILD: state for the object below. Attributes never hold a checkpoint's tensors.
                self.pop()?;
                self.top().map(drop)
            }
        }
    }

    fn global(&mut self, module: Id, name: Id) -> Result<(), Problem> {
        let (Some(m), Some(n)) = (self.heap.str(module), self.heap.str(name)) else {
            return Err(self.stack_problem("two strings", "other values"));
        };
        let len = m.len().max(n.len());
        if len > MAX_NAME {
            return Err(Problem::LongName {
                offset: self.at,
                len,
                most: MAX_NAME,
            });
        }
        let verdict = verdict(m, n);
        if verdict == Verdict::Forbidden {
            return Err(Problem::Forbidden {
                offset: self.at,
                module: m.to_owned(),
                name: n.to_owned(),
            });
        }
        self.push(Node::Global {
            module,
            name,
            verdict,
        })
    }

    fn call(&mut self, function: Id, args: Id) -> Result<(), Problem> {
        let Node::Global { verdict, .. } = *self.heap.get(function) else {
            // Calling what a call returned: whatever it is, it is not a tensor.
            return self.push(Node::Opaque(None));
        };
        let first = self.heap.items(args).and_then(|a| a.first().copied());
        match verdict {
            Verdict::Dict => self.push(Node::Dict(Vec::new())),
            // The argument itself: copying it for every call would let memory grow without bytes.
            Verdict::List => match first.filter(|&id| self.heap.items(id).is_some()) {
                Some(id) => self.again(id),
                None => self.push(Node::List(Vec::new())),
            },
            Verdict::Through => {
                let first = first.ok_or_else(|| self.stack_problem("arguments", "none"))?;
                self.again(first)
            }
            Verdict::Rebuild => self.push(Node::Call { function, args }),
            // No forbidden name becomes a value that could be called.
            Verdict::Opaque | Verdict::Forbidden => self.push(Node::Opaque(Some(function))),
        }
    }

    /// Makes a value and puts it on the stack.
    fn push(&mut self, node: Node) -> Result<(), Problem> {
        let id = self.make(node)?;
        self.again(id)
    }

    fn make(&mut self, node: Node) -> Result<Id, Problem> {
        self.has_room(self.heap.nodes.len())?;
        self.heap.nodes.push(node);
        Ok((self.heap.nodes.len() - 1) as Id)
    }

    /// Puts a value that is there already on the stack.
    fn again(&mut self, id: Id) -> Result<(), Problem> {
        self.has_room(self.stack.len())?;
        self.stack.push(id);
        Ok(())
    }

    fn has_room(&self, len: usize) -> Result<(), Problem> {
        if len < MAX_VALUES {
            return Ok(());
        }
        Err(Problem::TooMany {
            offset: self.at,
            most: MAX_VALUES,
        })
    }

    fn top(&self) -> Result<Id, Problem> {
        self.stack
            .last()
            .copied()
            .ok_or_else(|| self.stack_problem("a value", "none"))
    }

    fn pop(&mut self) -> Result<Id, Problem> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(self.stack_problem("a value", "none"));
        }
        self.stack
            .pop()
            .ok_or_else(|| self.stack_problem("a value", "none"))
    }

    fn pop_mark(&mut self) -> Result<Vec<Id>, Problem> {
        let mark = self
            .marks
            .pop()
            .ok_or_else(|| self.stack_problem("a mark", "none"))?;
        Ok(self.stack.split_off(mark))
    }

    fn slice(&mut self, n: usize) -> Result<&'a [u8], Problem> {
        let truncated = Problem::Truncated {
            offset: self.at,
            opcode: self.op,
        };
        let end = self
            .pos
            .checked_add(n)
            .filter(|&end| end <= self.program.len());
        let Some(end) = end else {
            return Err(truncated);
        };
        let bytes = &self.program[self.pos..end];
        self.pos = end;
        Ok(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.slice(N)?);
        Ok(bytes)
    }

    /// Bytes preceded by their count in `N` bytes.
    fn counted<const N: usize>(&mut self) -> Result<&'a [u8], Problem> {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(&self.take::<N>()?);
        self.slice(usize::try_from(u64::from_le_bytes(wide)).unwrap_or(usize::MAX))
    }

    fn unicode<const N: usize>(&mut self) -> Result<Node, Problem> {
        let text = std::str::from_utf8(self.counted::<N>()?).map(str::to_owned);
        text.map(Node::Str).map_err(|_| self.text("UTF-8"))
    }

    fn old_string<const N: usize>(&mut self) -> Result<Node, Problem> {
        let bytes = self.counted::<N>()?;
        Ok(match std::str::from_utf8(bytes) {
            Ok(s) => Node::Str(s.to_owned()),
            Err(_) => Node::Bytes(bytes.to_vec()),
        })
    }

    fn line(&mut self) -> Result<&'a str, Problem> {
        let rest = &self.program[self.pos..];
        let Some(len) = rest.iter().position(|&b| b == b'\n') else {
            return Err(Problem::Truncated {
                offset: self.at,
                opcode: self.op,
            });
        };
        self.pos += len + 1;
        std::str::from_utf8(&rest[..len]).map_err(|_| self.text("UTF-8"))
    }

    fn text(&self, expected: &'static str) -> Problem {
        Problem::Text {
            offset: self.at,
            opcode: self.op,
            expected,
        }
    }

    fn stack_problem(&self, expected: &'static str, found: &'static str) -> Problem {
        Problem::Stack {
            offset: self.at,
            opcode: self.op,
            expected,
            found,
        }
    }
}

/// Little-endian two's complement of any length.
fn long(bytes: &[u8]) -> Node {
    if bytes.len() > 8 {
        return Node::Long(bytes.to_vec());
    }
    let negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
    let mut wide = [if negative { 0xff } else { 0 }; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    Node::Int(i64::from_le_bytes(wide))
}
