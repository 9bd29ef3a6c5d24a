//! Vectors with a value for each column of the result: scales, biases and factors.

use super::{Frame, GemmKernel};
use crate::asm::{Asm, Reg, list, op};

/// The vectors of a tile, as a thread finds them.
pub(super) struct Vectors {
    pub(super) scale: Option<Vector>,
    pub(super) bias: Option<Vector>,
    pub(super) factor: Option<Vector>,
}

/// Of every eight columns, the two of this thread.
pub(super) enum Vector {
    Registers(Vec<[Reg; 2]>),
    /// Where the first two lie in shared memory.
    Shared(Reg),
}

impl Vector {
    /// The two values, f32, of this thread's columns among eight.
    pub(super) fn pair(&self, a: &mut Asm, eight: u32) -> [Reg; 2] {
        match self {
            Vector::Registers(pairs) => pairs[eight as usize],
            Vector::Shared(at) => {
                let pair = [a.f32(), a.f32()];
                let two = list(&pair);
                op!(a, "ld.shared.v2.f32 {two}, [{at}+{}]", eight * 32);
                pair
            }
        }
    }
}

/// How a vector is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stored {
    F32,
    F16,
}

impl Stored {
    /// Bytes of a value.
    fn size(self) -> u32 {
        match self {
            Stored::F32 => 4,
            Stored::F16 => 2,
        }
    }
}

/// Vectors that a kernel may have.
pub(super) const MOST: u32 = 3;

impl GemmKernel {
    /// The view of each vector that there is, and how it is stored.
    fn vectors(&self) -> [Option<(usize, Stored)>; MOST as usize] {
        [
            self.scale.then_some((3, Stored::F32)),
            self.bias.then_some((self.bias_view(), Stored::F32)),
            self.factor.then_some((self.factor_view(), Stored::F16)),
        ]
    }
}

impl Vectors {
    fn new([scale, bias, factor]: [Option<Vector>; MOST as usize]) -> Vectors {
        Vectors {
            scale,
            bias,
            factor,
        }
    }

    /// Reads all values of this thread's columns; `of_four` is its number among the lanes that
    /// share a row.
    pub(super) fn read(kernel: &GemmKernel, a: &mut Asm, f: &Frame, of_four: Reg) -> Vectors {
        let vectors = kernel.vectors();
        Vectors::new(vectors.map(|v| v.map(|stored| read(a, f, of_four, stored))))
    }
}

fn read(a: &mut Asm, f: &Frame, of_four: Reg, (view, stored): (usize, Stored)) -> Vector {
    let size = stored.size();
    let (base, wide, column) = (a.view(view), a.b64(), a.b32());
    op!(a, "mad.lo.u32 {column}, {of_four}, 2, {}", f.n0);
    op!(a, "mul.wide.u32 {wide}, {column}, {size}");
    op!(a, "add.u64 {base}, {base}, {wide}");
    let second = a.b64();
    op!(a, "mul.wide.u32 {second}, {}, {size}", f.n);
    op!(a, "add.u64 {second}, {second}, {base}");
    let pairs = (0..f.tile.bn / 8).map(|eight| {
        // A gated tile's later columns are of the second half.
        let (base, eight) = match eight.checked_sub(f.columns / 8) {
            Some(eight) => (second, eight),
            None => (base, eight),
        };
        let (inside, c) = (a.pred(), a.b32());
        op!(a, "add.u32 {c}, {column}, {}", eight * 8);
        op!(a, "setp.lt.u32 {inside}, {c}, {}", f.n);
        let at = eight * 8 * size;
        match stored {
            Stored::F16 => {
                let word = a.b32();
                op!(a, "mov.b32 {word}, 0");
                op!(a, "@{inside} ld.global.b32 {word}, [{base}+{at}]");
                unpack(a, word)
            }
            Stored::F32 => {
                let pair = [a.f32(), a.f32()];
                let [first, last] = pair;
                op!(a, "mov.f32 {first}, 0f00000000");
                op!(a, "mov.f32 {last}, 0f00000000");
                let two = list(&pair);
                op!(a, "@{inside} ld.global.v2.f32 {two}, [{base}+{at}]");
                pair
            }
        }
    });
    Vector::Registers(pairs.collect())
}

/// Two f16 of a word as f32.
pub(super) fn unpack(a: &mut Asm, word: Reg) -> [Reg; 2] {
    let halves = [a.b16(), a.b16()];
    op!(a, "mov.b32 {{{}, {}}}, {word}", halves[0], halves[1]);
    halves.map(|half| {
        let value = a.f32();
        op!(a, "cvt.f32.f16 {value}, {half}");
        value
    })
}

/// The vectors of a tile on their way to shared memory: each thread reads some columns before the
/// products and puts them down after, when they are there.
pub(super) struct Staged {
    values: [Option<Vec<Reg>>; MOST as usize],
}

impl Staged {
    pub(super) fn read(kernel: &GemmKernel, a: &mut Asm, f: &Frame) -> Staged {
        let each = f.tile.computing();
        let values = kernel.vectors().map(|vector| {
            let (view, stored) = vector?;
            let base = a.view(view);
            let columns = (0..f.tile.bn).step_by(each as usize);
            Some(
                columns
                    .map(|first| value(a, f, (base, stored), first))
                    .collect(),
            )
        });
        Staged { values }
    }

    /// Gives the vectors as this thread, one of four that share a row, finds them at `at` when all
    /// that compute have put down theirs.
    pub(super) fn put(&self, a: &mut Asm, f: &Frame, of_four: Reg, at: Reg) -> Vectors {
        let each = f.tile.computing();
        let vectors = [0, 1, 2].map(|number: usize| {
            let values = self.values[number].as_ref()?;
            let to = a.b32();
            op!(a, "mad.lo.u32 {to}, {}, 4, {at}", f.tid);
            let plus = number as u32 * f.tile.bn * 4;
            for (pass, value) in (0..).zip(values) {
                let (inside, column) = (a.pred(), a.b32());
                op!(a, "add.u32 {column}, {}, {}", f.tid, pass * each);
                op!(a, "setp.lt.u32 {inside}, {column}, {}", f.tile.bn);
                let plus = plus + pass * each * 4;
                op!(a, "@{inside} st.shared.f32 [{to}+{plus}], {value}");
            }
            let from = a.b32();
            op!(a, "mad.lo.u32 {from}, {of_four}, 8, {at}");
            op!(a, "add.u32 {from}, {from}, {plus}");
            Some(Vector::Shared(from))
        });
        Vectors::new(vectors)
    }
}

/// The value of the tile's column `first` and as many further on as the thread has for a number.
fn value(a: &mut Asm, f: &Frame, (base, stored): (Reg, Stored), first: u32) -> Reg {
    let [column, value, half] = [a.b32(), a.f32(), a.b32()];
    let (later, inside, at) = (a.pred(), a.pred(), a.b64());
    op!(a, "add.u32 {column}, {}, {first}", f.tid);
    // A gated tile's later columns are of the second half.
    op!(a, "setp.ge.u32 {later}, {column}, {}", f.columns);
    op!(a, "@{later} sub.u32 {column}, {column}, {}", f.columns);
    op!(a, "selp.u32 {half}, {}, 0, {later}", f.n);
    op!(a, "add.u32 {column}, {column}, {}", f.n0);
    op!(a, "setp.lt.u32 {inside}, {column}, {}", f.n);
    op!(a, "add.u32 {column}, {column}, {half}");
    op!(a, "mul.wide.u32 {at}, {column}, {}", stored.size());
    op!(a, "add.u64 {at}, {at}, {base}");
    match stored {
        Stored::F32 => {
            op!(a, "mov.f32 {value}, 0f00000000");
            op!(a, "@{inside} ld.global.f32 {value}, [{at}]");
        }
        Stored::F16 => {
            let half = a.b16();
            op!(a, "mov.b16 {half}, 0");
            op!(a, "@{inside} ld.global.b16 {half}, [{at}]");
            op!(a, "cvt.f32.f16 {value}, {half}");
        }
    }
    value
}
