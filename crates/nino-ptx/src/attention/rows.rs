//! Rows of queries to start with, rows of the output in the end.

use super::{Word, Writer};
use crate::asm::{Reg, list, op};

impl Writer {
    /// Rows beyond the last one hold the last one's values; they are never stored. The output may
    /// lie where the queries do: a workgroup reads its rows before it writes them.
    pub(super) fn load_q(&mut self) {
        let [rows, width] = [self.word(Word::Rows), self.word(Word::Width)];
        let base = self.element(Word::Q, Word::BatchQ);
        let a = &mut self.a;
        let view = a.view(1);
        let [last, group, column] = [a.b32(), a.b32(), a.b32()];
        op!(a, "sub.u32 {last}, {rows}, 1");
        op!(a, "shr.u32 {group}, {}, 2", self.lane);
        op!(a, "and.b32 {column}, {}, 3", self.lane);
        op!(a, "shl.b32 {column}, {column}, 1");
        for block in 0..self.kernel.warp_rows / 16 {
            let halves = [0, 8].map(|half| {
                let [row, element, address] = [a.b32(), a.b32(), a.b64()];
                op!(a, "add.u32 {row}, {}, {group}", self.row);
                op!(a, "add.u32 {row}, {row}, {}", block * 16 + half);
                op!(a, "min.u32 {row}, {row}, {last}");
                op!(a, "mad.lo.u32 {element}, {row}, {width}, {base}");
                op!(a, "add.u32 {element}, {element}, {column}");
                op!(a, "mul.wide.u32 {address}, {element}, 2");
                op!(a, "add.u64 {address}, {address}, {view}");
                address
            });
            let chunks: Vec<[Reg; 2]> = (0..self.kernel.chunks())
                .map(|chunk| {
                    halves.map(|address| {
                        let value = a.b32();
                        op!(a, "ld.global.nc.b32 {value}, [{address}+{}]", chunk * 16);
                        value
                    })
                })
                .collect();
            let steps = chunks.chunks(2).map(<[[Reg; 2]]>::concat);
            self.q.push(steps.collect());
        }
    }

    /// Sums of values over sums of exponentials, through shared memory, as whole chunks.
    pub(super) fn store(&mut self) {
        self.softmax.total(&mut self.a);
        let factors = self.softmax.factors(&mut self.a);
        // Every warp has read the last tile; from here a warp keeps to its own part.
        op!(self.a, "bar.sync 0");
        let part = self.part();
        self.put(part, &factors);
        op!(self.a, "bar.warp.sync 0xffffffff");
        self.write(part);
    }

    /// Address of the warp's part of shared memory.
    fn part(&mut self) -> Reg {
        let a = &mut self.a;
        let [part, warp] = [a.b32(), a.b32()];
        op!(a, "shr.u32 {warp}, {}, 5", self.tid);
        op!(a, "mov.u32 {part}, shared");
        let bytes = self.kernel.warp_rows * self.kernel.row_bytes();
        op!(a, "mad.lo.u32 {part}, {warp}, {bytes}, {part}");
        part
    }

    fn put(&mut self, part: Reg, factors: &[Reg]) {
        let a = &mut self.a;
        let [row, first, word] = [a.b32(), a.b32(), a.b32()];
        op!(a, "shr.u32 {row}, {}, 2", self.lane);
        op!(a, "mov.u32 {first}, 0");
        let within = self.swizzle.offset(a, row, first);
        op!(a, "and.b32 {word}, {}, 3", self.lane);
        op!(a, "shl.b32 {word}, {word}, 2");
        op!(a, "add.u32 {within}, {within}, {part}");
        op!(a, "add.u32 {within}, {within}, {word}");
        for chunk in 0..self.kernel.chunks() {
            let (flip, plus) = self.swizzle.step(chunk);
            let address = a.b32();
            op!(a, "xor.b32 {address}, {within}, {flip}");
            for (block, out) in self.out.iter().enumerate() {
                let out = out[chunk as usize];
                for half in 0..2 {
                    let factor = factors[2 * block + half];
                    let [low, high, pair] = [a.f32(), a.f32(), a.b32()];
                    op!(a, "mul.f32 {low}, {}, {factor}", out[2 * half]);
                    op!(a, "mul.f32 {high}, {}, {factor}", out[2 * half + 1]);
                    op!(a, "cvt.rn.f16x2.f32 {pair}, {high}, {low}");
                    let rows = (16 * block + 8 * half) as u32 * self.swizzle.row_bytes;
                    op!(a, "st.shared.b32 [{address}+{}], {pair}", plus + rows);
                }
            }
        }
    }

    /// Consecutive lanes store consecutive chunks of the warp's rows.
    fn write(&mut self, part: Reg) {
        let [rows, width] = [self.word(Word::Rows), self.word(Word::Width)];
        let base = self.element(Word::Out, Word::BatchQ);
        let a = &mut self.a;
        let view = a.view(0);
        let per_row = self.kernel.chunks();
        let total = per_row * self.kernel.warp_rows;
        for round in 0..total.div_ceil(32) {
            let [index, row, column, inside] = [a.b32(), a.b32(), a.b32(), a.pred()];
            op!(a, "add.u32 {index}, {}, {}", self.lane, round * 32);
            op!(a, "div.u32 {row}, {index}, {per_row}");
            op!(a, "rem.u32 {column}, {index}, {per_row}");
            let from = self.swizzle.offset(a, row, column);
            let [element, address] = [a.b32(), a.b64()];
            op!(a, "add.u32 {from}, {from}, {part}");
            op!(a, "add.u32 {row}, {row}, {}", self.row);
            op!(a, "setp.lt.u32 {inside}, {row}, {rows}");
            op!(a, "mad.lo.u32 {element}, {row}, {width}, {base}");
            op!(a, "mad.lo.u32 {element}, {column}, 8, {element}");
            op!(a, "mul.wide.u32 {address}, {element}, 2");
            op!(a, "add.u64 {address}, {address}, {view}");
            if total < (round + 1) * 32 {
                op!(a, "setp.lt.and.u32 {inside}, {index}, {total}, {inside}");
            }
            let chunk = list(&[a.b32(), a.b32(), a.b32(), a.b32()]);
            op!(a, "@{inside} ld.shared.v4.b32 {chunk}, [{from}]");
            op!(a, "@{inside} st.global.v4.b32 [{address}], {chunk}");
        }
    }
}
