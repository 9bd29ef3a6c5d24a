//! From sums to the result: scale, bias, activation, factor, residual or product, f16, and stores
//! of 16 bytes.

use super::vectors::{Vectors, unpack};
use super::{Act, Frame, GemmKernel, Join, word};
use crate::asm::{Asm, Reg, list, op};

impl GemmKernel {
    /// A thread has two neighbours of every eight columns, in two rows of each block; four lanes
    /// exchange theirs so that each has eight neighbours of one row to read and write.
    pub(super) fn epilogue(
        &self,
        a: &mut Asm,
        f: &Frame,
        (lane, vectors): (&Lane, &Vectors),
        sums: &[Vec<Reg>],
    ) {
        let (tile, columns) = (f.tile, f.columns);
        let Vectors {
            scale,
            bias,
            factor,
        } = vectors;
        let out = a.view_from(0, word::OUT_AT);
        let beside = self
            .beside
            .map(|_| a.view_from(self.beside_view(), word::BESIDE_AT));
        // Warp group, warp and lane / 4 say the row.
        let (row, t) = (a.b32(), a.b32());
        op!(a, "shr.u32 {t}, {}, 7", f.tid);
        op!(a, "mad.lo.u32 {row}, {t}, {}, {}", 64 * tile.blocks, f.m0);
        op!(a, "shr.u32 {t}, {}, 5", f.tid);
        op!(a, "and.b32 {t}, {t}, 3");
        op!(a, "mad.lo.u32 {row}, {t}, 16, {row}");
        op!(a, "shr.u32 {t}, {}, 2", f.tid);
        op!(a, "and.b32 {t}, {t}, 7");
        op!(a, "add.u32 {row}, {row}, {t}");
        let column = a.b32();
        op!(a, "mad.lo.u32 {column}, {}, 8, {}", lane.of_four, f.n0);

        // A gated tile's later columns are of the second half.
        let sides: Vec<u32> = match self.gate {
            Some(_) => vec![0, columns / 8],
            None => vec![0],
        };
        let quarters = columns / 32;
        for (block, sums) in (0..).zip(sums) {
            for half in 0..2 {
                let (r, e, at, valid) = (a.b32(), a.b32(), a.b64(), a.pred());
                op!(a, "add.u32 {r}, {row}, {}", block * 64 + half * 8);
                op!(a, "setp.lt.u32 {valid}, {r}, {}", f.m);
                op!(a, "mad.lo.u32 {e}, {r}, {}, {column}", f.n);
                op!(a, "mul.wide.u32 {at}, {e}, 2");
                let inside: Vec<Reg> = (0..quarters)
                    .map(|quarter| {
                        let (inside, c) = (a.pred(), a.b32());
                        op!(a, "add.u32 {c}, {column}, {}", quarter * 32);
                        op!(a, "setp.lt.and.u32 {inside}, {c}, {}, {valid}", f.n);
                        inside
                    })
                    .collect();
                // All reads before the first write, which may be to where these are read from.
                let others: Vec<Option<[Reg; 4]>> = (0..)
                    .zip(&inside)
                    .map(|(quarter, &inside)| {
                        let base = beside?;
                        Some(read_four(a, inside, (base, at), quarter * 64))
                    })
                    .collect();
                let to = a.b64();
                op!(a, "add.u64 {to}, {out}, {at}");
                for (quarter, inside) in (0..).zip(&inside) {
                    let others = others[quarter as usize].map(|words| lane.exchange(a, words));
                    let words = [0, 1, 2, 3].map(|j| {
                        let eight = quarter * 4 + j;
                        let side = |&side: &u32| {
                            let at = (side + eight) as usize * 4 + half * 2;
                            let mut pair = [sums[at], sums[at + 1]];
                            if let Some(scale) = scale {
                                let scale = scale.pair(a, side + eight);
                                pair = both(a, "mul", pair, scale);
                            }
                            if let Some(bias) = bias {
                                let bias = bias.pair(a, side + eight);
                                pair = both(a, "add", pair, bias);
                            }
                            pair
                        };
                        let sides: Vec<[Reg; 2]> = sides.iter().map(side).collect();
                        let factor = factor.as_ref().map(|factor| factor.pair(a, eight));
                        self.word(a, &sides, (factor, others.map(|words| words[j as usize])))
                    });
                    let four = list(&lane.exchange(a, words));
                    op!(
                        a,
                        "@{inside} st.global.v4.b32 [{to}+{}], {four}",
                        quarter * 64
                    );
                }
            }
        }
    }

    /// Two neighbours of the result as f16. `sides` are these columns with scale and bias, and
    /// those of the gate where there is one.
    fn word(
        &self,
        a: &mut Asm,
        sides: &[[Reg; 2]],
        (factor, other): (Option<[Reg; 2]>, Option<Reg>),
    ) -> Reg {
        let mut made = sides[0].map(|v| activate(a, self.act, v));
        if let (Some(gate), Some(second)) = (self.gate, sides.get(1)) {
            let second = second.map(|v| activate(a, gate, v));
            made = both(a, "mul", made, second);
        }
        if let Some(factor) = factor {
            made = both(a, "mul", made, factor);
        }
        if let (Some(join), Some(word)) = (self.beside, other) {
            let values = unpack(a, word);
            let op = match join {
                Join::Add => "add",
                Join::Multiply => "mul",
            };
            made = both(a, op, made, values);
        }
        made = made.map(|v| activate(a, self.post, v));
        let word = a.b32();
        op!(a, "cvt.rn.f16x2.f32 {word}, {}, {}", made[1], made[0]);
        word
    }
}

/// 16 bytes at `base + at`, `plus` further on; zero where not `inside`.
fn read_four(a: &mut Asm, inside: Reg, (base, at): (Reg, Reg), plus: u32) -> [Reg; 4] {
    let from = a.b64();
    op!(a, "add.u64 {from}, {base}, {at}");
    let words = [(); 4].map(|()| a.b32());
    for word in words {
        op!(a, "mov.b32 {word}, 0");
    }
    let four = list(&words);
    op!(a, "@{inside} ld.global.v4.b32 {four}, [{from}+{plus}]");
    words
}

/// `add` or `mul` of both.
fn both(a: &mut Asm, how: &str, x: [Reg; 2], y: [Reg; 2]) -> [Reg; 2] {
    [0, 1].map(|i| {
        let made = a.f32();
        op!(a, "{how}.f32 {made}, {}, {}", x[i], y[i]);
        made
    })
}

fn activate(a: &mut Asm, act: Act, value: Reg) -> Reg {
    let out = a.f32();
    match act {
        Act::None => return value,
        Act::Affine { mul, add } => {
            op!(a, "fma.rn.f32 {out}, {value}, 0f{mul:08x}, 0f{add:08x}");
        }
        Act::Relu => op!(a, "max.NaN.f32 {out}, {value}, 0f00000000"),
        Act::Silu => {
            // x / (1 + 2^(-x log2 e))
            op!(a, "mul.f32 {out}, {value}, 0fbfb8aa3b");
            op!(a, "ex2.approx.f32 {out}, {out}");
            op!(a, "add.f32 {out}, {out}, 0f3f800000");
            op!(a, "div.approx.f32 {out}, {value}, {out}");
        }
        Act::Clamp { lo, hi } => {
            op!(a, "max.NaN.f32 {out}, {value}, 0f{lo:08x}");
            op!(a, "min.NaN.f32 {out}, {out}, 0f{hi:08x}");
        }
        Act::GeluTanh => {
            // 1 + tanh(u) is 2 / (1 + e^(-2u)), with u = sqrt(2 / pi) (x + 0.044715 x^3).
            let [cubic, linear] = [0.044_715_f32, 1.0].map(|factor| {
                let root = std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2;
                (-2.0 * std::f32::consts::LOG2_E * root * factor).to_bits()
            });
            op!(a, "mul.f32 {out}, {value}, {value}");
            op!(a, "fma.rn.f32 {out}, {out}, 0f{cubic:08x}, 0f{linear:08x}");
            op!(a, "mul.f32 {out}, {out}, {value}");
            op!(a, "ex2.approx.f32 {out}, {out}");
            op!(a, "add.f32 {out}, {out}, 0f3f800000");
            op!(a, "div.approx.f32 {out}, {value}, {out}");
        }
        Act::Gelu => {
            let erf = erf_of_root_half(a, value);
            op!(a, "fma.rn.f32 {out}, {erf}, {value}, {value}");
            op!(a, "mul.f32 {out}, {out}, 0f3f000000");
        }
    }
    out
}

/// erf(x / sqrt 2) by Abramowitz and Stegun 7.1.26, as `act.wgsl` has it.
fn erf_of_root_half(a: &mut Asm, x: Reg) -> Reg {
    let bits = |v: f32| format!("0f{:08x}", v.to_bits());
    let (z, size, t, y, e) = (a.f32(), a.f32(), a.f32(), a.f32(), a.f32());
    op!(
        a,
        "mul.f32 {z}, {x}, {}",
        bits(std::f32::consts::FRAC_1_SQRT_2)
    );
    op!(a, "abs.f32 {size}, {z}");
    op!(
        a,
        "fma.rn.f32 {t}, {size}, {}, {}",
        bits(0.327_591_1),
        bits(1.0)
    );
    op!(a, "rcp.approx.f32 {t}, {t}");
    op!(a, "mov.f32 {y}, {}", bits(1.061_405_4));
    for factor in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        op!(a, "fma.rn.f32 {y}, {y}, {t}, {}", bits(factor));
    }
    op!(a, "mul.f32 {y}, {y}, {t}");
    op!(a, "mul.f32 {e}, {z}, {z}");
    op!(a, "mul.f32 {e}, {e}, {}", bits(-std::f32::consts::LOG2_E));
    op!(a, "ex2.approx.f32 {e}, {e}");
    op!(a, "neg.f32 {e}, {e}");
    op!(a, "fma.rn.f32 {y}, {y}, {e}, {}", bits(1.0));
    op!(a, "copysign.f32 {y}, {z}, {y}");
    y
}

/// A lane among the four that share rows.
pub(super) struct Lane {
    pub(super) of_four: Reg,
    odd: Reg,
    high: Reg,
}

impl Lane {
    pub(super) fn new(a: &mut Asm) -> Lane {
        let (of_four, bit, odd, high) = (a.b32(), a.b32(), a.pred(), a.pred());
        op!(a, "mov.u32 {of_four}, %tid.x");
        op!(a, "and.b32 {of_four}, {of_four}, 3");
        op!(a, "and.b32 {bit}, {of_four}, 1");
        op!(a, "setp.ne.u32 {odd}, {bit}, 0");
        op!(a, "setp.ge.u32 {high}, {of_four}, 2");
        Lane { of_four, odd, high }
    }

    /// Transposes four words of four lanes: lane i's word j becomes lane j's word i.
    fn exchange(&self, a: &mut Asm, words: [Reg; 4]) -> [Reg; 4] {
        let swap = |a: &mut Asm, p: Reg, distance: u32, low: Reg, high: Reg| {
            let (send, got, first, second) = (a.b32(), a.b32(), a.b32(), a.b32());
            op!(a, "selp.b32 {send}, {low}, {high}, {p}");
            op!(
                a,
                "shfl.sync.bfly.b32 {got}, {send}, {distance}, 0x1f, 0xffffffff"
            );
            op!(a, "selp.b32 {first}, {got}, {low}, {p}");
            op!(a, "selp.b32 {second}, {high}, {got}, {p}");
            (first, second)
        };
        let [a0, a1, a2, a3] = words;
        let (b0, b1) = swap(a, self.odd, 1, a0, a1);
        let (b2, b3) = swap(a, self.odd, 1, a2, a3);
        let (c0, c2) = swap(a, self.high, 2, b0, b2);
        let (c1, c3) = swap(a, self.high, 2, b1, b3);
        [c0, c1, c2, c3]
    }
}
