//! Rows of queries to start with, rows of the output in the end. Both lie in shared memory as 64
//! columns of all rows after another.

use super::copy::Share;
use super::{LINE, Word, Writer};
use crate::asm::{list, op};

impl Writer {
    /// Rows beyond the last one hold the last one's values; they are never stored.
    pub(super) fn copy_queries(&mut self, share: &Share) {
        let [rows, width] = [self.word(Word::Rows), self.word(Word::Width)];
        let base = self.element(Word::Q, Word::BatchQ, false);
        let block = self.kernel.rows();
        let a = &mut self.a;
        let (view, last) = (a.view(self.kernel.query_view()), a.b32());
        op!(a, "sub.u32 {last}, {rows}, 1");
        for first in (0..block).step_by(share.lines as usize) {
            let [row, element, from] = [a.b32(), a.b32(), a.b64()];
            op!(a, "add.u32 {row}, {}, {}", self.row, share.line);
            op!(a, "add.u32 {row}, {row}, {first}");
            op!(a, "min.u32 {row}, {row}, {last}");
            op!(a, "mad.lo.u32 {element}, {row}, {width}, {base}");
            op!(a, "mad.lo.u32 {element}, {}, 8, {element}", share.chunk);
            op!(a, "mul.wide.u32 {from}, {element}, 2");
            op!(a, "add.u64 {from}, {from}, {view}");
            for beside in 0..self.kernel.hd / 64 {
                let to = (beside * block + first) * LINE;
                op!(
                    a,
                    "cp.async.cg.shared.global [{}+{to}], [{from}+{}], 16",
                    share.within,
                    beside * LINE
                );
            }
        }
    }

    /// Sums of values over sums of exponentials, through where the queries were, as whole chunks.
    pub(super) fn store(&mut self) {
        self.softmax.total(&mut self.a);
        if self.kernel.log {
            self.write_logs();
        }
        self.put();
        op!(self.a, "bar.warp.sync 0xffffffff");
        self.write();
    }

    fn put(&mut self) {
        let factors = self.softmax.factors(&mut self.a);
        let block = self.kernel.rows();
        let a = &mut self.a;
        let [eighth, row, word, line] = [a.b32(), a.b32(), a.b32(), a.b32()];
        op!(a, "shr.u32 {row}, {}, 5", self.tid);
        op!(a, "shr.u32 {eighth}, {}, 2", self.lane);
        op!(a, "mad.lo.u32 {row}, {row}, 16, {eighth}");
        op!(a, "and.b32 {word}, {}, 3", self.lane);
        op!(a, "mad.lo.u32 {line}, {row}, {LINE}, {}", self.shared);
        op!(a, "mad.lo.u32 {line}, {word}, 4, {line}");
        op!(a, "shl.b32 {eighth}, {eighth}, 4");
        for (chunk, out) in (0..).zip(&self.out[0]) {
            let [turn, address] = [a.b32(), a.b32()];
            op!(a, "xor.b32 {turn}, {eighth}, {}", chunk % 8 * 16);
            op!(a, "add.u32 {address}, {line}, {turn}");
            for half in 0..2 {
                let [low, high, pair] = [a.f32(), a.f32(), a.b32()];
                op!(a, "mul.f32 {low}, {}, {}", out[2 * half], factors[half]);
                op!(
                    a,
                    "mul.f32 {high}, {}, {}",
                    out[2 * half + 1],
                    factors[half]
                );
                op!(a, "cvt.rn.f16x2.f32 {pair}, {high}, {low}");
                let plus = (chunk / 8 * block + 8 * half as u32) * LINE;
                op!(a, "st.shared.b32 [{address}+{plus}], {pair}");
            }
        }
    }

    /// The first of four lanes stores what the weights of their two rows sum up to.
    fn write_logs(&mut self) {
        let [rows, width] = [self.word(Word::Rows), self.word(Word::Width)];
        let logs = self.softmax.logs(&mut self.a);
        let (hd, parts) = (self.kernel.hd, self.kernel.parts());
        let a = &mut self.a;
        let view = a.view(1);
        let [heads, head, row, eighth] = [a.b32(), a.b32(), a.b32(), a.b32()];
        let [mine, inside] = [a.pred(), a.pred()];
        op!(a, "div.u32 {heads}, {width}, {hd}");
        op!(a, "mov.u32 {head}, %ctaid.y");
        op!(a, "div.u32 {head}, {head}, {parts}");
        op!(a, "shr.u32 {row}, {}, 5", self.tid);
        op!(a, "shr.u32 {eighth}, {}, 2", self.lane);
        op!(a, "mad.lo.u32 {row}, {row}, 16, {eighth}");
        op!(a, "add.u32 {row}, {row}, {}", self.row);
        op!(a, "and.b32 {eighth}, {}, 3", self.lane);
        op!(a, "setp.eq.u32 {mine}, {eighth}, 0");
        for log in logs {
            let [at, to] = [a.b32(), a.b64()];
            op!(a, "mad.lo.u32 {at}, {row}, {heads}, {head}");
            op!(a, "mul.wide.u32 {to}, {at}, 4");
            op!(a, "add.u64 {to}, {to}, {view}");
            op!(a, "setp.lt.and.u32 {inside}, {row}, {rows}, {mine}");
            op!(a, "@{inside} st.global.f32 [{to}], {log}");
            op!(a, "add.u32 {row}, {row}, 8");
        }
    }

    /// Eight lanes store a line of one of the warp's rows.
    fn write(&mut self) {
        let [rows, width] = [self.word(Word::Rows), self.word(Word::Width)];
        let base = self.element(Word::Out, Word::BatchQ, true);
        let (columns, block) = (self.kernel.columns(), self.kernel.rows());
        let a = &mut self.a;
        let view = a.view(0);
        let [first, chunk] = [a.b32(), a.b32()];
        op!(a, "shr.u32 {first}, {}, 5", self.tid);
        op!(a, "shl.b32 {first}, {first}, 4");
        let eighth = a.b32();
        op!(a, "shr.u32 {eighth}, {}, 3", self.lane);
        op!(a, "add.u32 {first}, {first}, {eighth}");
        op!(a, "and.b32 {chunk}, {}, 7", self.lane);
        for fourth in (0..16).step_by(4) {
            let [row, turn, from, element] = [a.b32(), a.b32(), a.b32(), a.b32()];
            let (to, inside) = (a.b64(), a.pred());
            op!(a, "add.u32 {row}, {first}, {fourth}");
            op!(a, "and.b32 {turn}, {row}, 7");
            op!(a, "xor.b32 {turn}, {turn}, {chunk}");
            op!(a, "mad.lo.u32 {from}, {row}, {LINE}, {}", self.shared);
            op!(a, "mad.lo.u32 {from}, {turn}, 16, {from}");
            op!(a, "add.u32 {row}, {row}, {}", self.row);
            op!(a, "setp.lt.u32 {inside}, {row}, {rows}");
            op!(a, "mad.lo.u32 {element}, {row}, {width}, {base}");
            op!(a, "mad.lo.u32 {element}, {chunk}, 8, {element}");
            op!(a, "mul.wide.u32 {to}, {element}, 2");
            op!(a, "add.u64 {to}, {to}, {view}");
            for beside in 0..columns / 64 {
                let four = list(&[a.b32(), a.b32(), a.b32(), a.b32()]);
                let plus = beside * block * LINE;
                op!(a, "@{inside} ld.shared.v4.b32 {four}, [{from}+{plus}]");
                op!(
                    a,
                    "@{inside} st.global.v4.b32 [{to}+{}], {four}",
                    beside * LINE
                );
            }
        }
    }
}
