//! A writer of PTX: registers are numbered as they are asked for, instructions are lines of text.

use std::fmt::{self, Write};

use super::PtxKernel;

/// A register; shown as PTX names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reg {
    kind: Kind,
    index: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pred,
    B16,
    B32,
    B64,
    F32,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Pred, Kind::B16, Kind::B32, Kind::B64, Kind::F32];

    fn prefix_and_type(self) -> (&'static str, &'static str) {
        match self {
            Kind::Pred => ("%p", ".pred"),
            Kind::B16 => ("%h", ".b16"),
            Kind::B32 => ("%r", ".b32"),
            Kind::B64 => ("%d", ".b64"),
            Kind::F32 => ("%f", ".f32"),
        }
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.prefix_and_type().0, self.index)
    }
}

/// Registers as an operand of several.
pub(crate) fn list(regs: &[Reg]) -> String {
    let names: Vec<String> = regs.iter().map(Reg::to_string).collect();
    format!("{{{}}}", names.join(", "))
}

/// What the driver is told about a kernel beside its text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a str,
    /// The least architecture, `sm_80` or `sm_90a`.
    pub(crate) target: &'a str,
    pub(crate) views: usize,
    pub(crate) words: usize,
    pub(crate) threads: u32,
    pub(crate) shared: u32,
    /// Workgroups a multiprocessor should hold: bounds the registers a thread may have.
    pub(crate) per_sm: u32,
}

/// A kernel being written.
#[derive(Debug, Default)]
pub(crate) struct Asm {
    body: String,
    used: [u32; 5],
    labels: u32,
}

/// Appends one instruction, given as `format!` takes it.
macro_rules! op {
    ($asm:expr, $($text:tt)*) => { $asm.line(format_args!($($text)*)) };
}
pub(crate) use op;

impl Asm {
    fn reg(&mut self, kind: Kind) -> Reg {
        let index = self.used[kind as usize];
        self.used[kind as usize] += 1;
        Reg { kind, index }
    }

    pub(crate) fn pred(&mut self) -> Reg {
        self.reg(Kind::Pred)
    }

    pub(crate) fn b16(&mut self) -> Reg {
        self.reg(Kind::B16)
    }

    pub(crate) fn b32(&mut self) -> Reg {
        self.reg(Kind::B32)
    }

    pub(crate) fn b64(&mut self) -> Reg {
        self.reg(Kind::B64)
    }

    pub(crate) fn f32(&mut self) -> Reg {
        self.reg(Kind::F32)
    }

    /// The address of a view.
    pub(crate) fn view(&mut self, index: usize) -> Reg {
        let reg = self.b64();
        op!(self, "ld.param.u64 {reg}, [view{index}]");
        reg
    }

    /// The address of a view of f16, from the element on that a word says.
    pub(crate) fn view_from(&mut self, index: usize, word: usize) -> Reg {
        let (base, at, bytes) = (self.view(index), self.word(word), self.b64());
        op!(self, "mul.wide.u32 {bytes}, {at}, 2");
        op!(self, "add.u64 {base}, {base}, {bytes}");
        base
    }

    /// A word of the launch.
    pub(crate) fn word(&mut self, index: usize) -> Reg {
        let reg = self.b32();
        op!(self, "ld.param.u32 {reg}, [word{index}]");
        reg
    }

    pub(crate) fn line(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "\t{text};");
    }

    /// A name for a place in the kernel, to be put there by `place`.
    pub(crate) fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    pub(crate) fn place(&mut self, label: &str) {
        let _ = writeln!(self.body, "{label}:");
    }

    pub(crate) fn finish(self, entry: Entry<'_>) -> PtxKernel {
        let views = (0..entry.views).map(|i| format!(".param .u64 view{i}"));
        let words = (0..entry.words).map(|i| format!(".param .u32 word{i}"));
        let params: Vec<String> = views.chain(words).collect();
        let mut text = format!(
            ".version 8.0\n.target {}\n.address_size 64\n.extern .shared .align 1024 .b8 shared[];\n\
             .visible .entry {}({})\n.maxntid {}\n.minnctapersm {}\n{{\n",
            entry.target,
            entry.name,
            params.join(", "),
            entry.threads,
            entry.per_sm,
        );
        for kind in Kind::ALL {
            let (prefix, ty) = kind.prefix_and_type();
            let used = self.used[kind as usize].max(1);
            let _ = writeln!(text, "\t.reg {ty} {prefix}<{used}>;");
        }
        text.push_str(&self.body);
        text.push_str("\tret;\n}\n");
        PtxKernel {
            name: entry.name.to_owned(),
            text,
            threads: entry.threads,
            shared: entry.shared,
        }
    }
}
