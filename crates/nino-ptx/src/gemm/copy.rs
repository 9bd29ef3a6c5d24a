//! The copies of one thread in a K step: 16 bytes of some rows of each operand, swizzled.

use super::{Frame, Window, word};
use crate::asm::{Asm, Reg, op};
use crate::swizzle::Swizzle;

/// One operand's copies by one thread.
#[derive(Clone)]
pub(super) struct Copies {
    each: Vec<Copy>,
    /// Where the first one goes in the ring's first step.
    to: Reg,
    line: u32,
}

#[derive(Clone, Copy)]
struct Copy {
    /// Moves on with every step.
    from: Reg,
    /// Bytes behind where the first one goes.
    plus: u32,
    /// Whether this thread takes part.
    when: Option<Reg>,
    /// Bytes read of the 16; the rest is zero.
    bytes: Option<Reg>,
}

/// A matrix with K values in a row: a view from the element on that a word names. The tile takes
/// `rows` rows from `first` on; rows beyond `limit` repeat the last one.
#[derive(Clone, Copy)]
pub(super) struct Matrix {
    pub(super) view: usize,
    pub(super) at: Option<usize>,
    pub(super) first: Reg,
    pub(super) limit: Reg,
    pub(super) rows: u32,
    /// Half of the rows lie `limit` rows further on.
    pub(super) halves: bool,
}

/// Which 16 bytes of which rows are this thread's: one chunk of every `each`-th row.
struct Share {
    chunk: Reg,
    row: Reg,
    each: u32,
    /// Where its first chunk goes in the ring's first step.
    to: Reg,
}

impl Share {
    fn new(a: &mut Asm, f: &Frame, rows_before: u32) -> Share {
        let line = f.tile.line();
        let chunks = line / 16;
        let (chunk, row) = (a.b32(), a.b32());
        op!(a, "and.b32 {chunk}, {}, {}", f.copier, chunks - 1);
        op!(
            a,
            "shr.u32 {row}, {}, {}",
            f.copier,
            chunks.trailing_zeros()
        );
        let to = Swizzle::new(line).offset(a, row, chunk);
        op!(a, "add.u32 {to}, {to}, {}", f.shared);
        op!(a, "add.u32 {to}, {to}, {}", rows_before * line);
        Share {
            chunk,
            row,
            each: f.tile.copying() / chunks,
            to,
        }
    }

    /// The row of a pass, where it goes, and whether there is one for this thread.
    fn pass(&self, a: &mut Asm, f: &Frame, pass: u32, rows: u32) -> (Reg, u32, Option<Reg>) {
        let (row, plus) = (a.b32(), pass * self.each * f.tile.line());
        op!(a, "add.u32 {row}, {}, {}", self.row, pass * self.each);
        let when = (rows < (pass + 1) * self.each).then(|| {
            let when = a.pred();
            op!(a, "setp.lt.u32 {when}, {row}, {rows}");
            when
        });
        (row, plus, when)
    }
}

impl Copies {
    pub(super) fn rows(a: &mut Asm, f: &Frame, matrix: Matrix, rows_before: u32) -> Copies {
        let Matrix {
            view,
            at,
            first,
            limit,
            rows,
            halves,
        } = matrix;
        let base = match at {
            Some(word) => a.view_from(view, word),
            None => a.view(view),
        };
        let share = Share::new(a, f, rows_before);
        let (last, wide) = (a.b32(), a.b64());
        op!(a, "sub.u32 {last}, {limit}, 1");
        op!(a, "mul.wide.u32 {wide}, {}, 16", share.chunk);
        op!(a, "add.u64 {base}, {base}, {wide}");
        let copies = (0..rows.div_ceil(share.each)).map(|pass| {
            let (row, plus, when) = share.pass(a, f, pass, rows);
            let from = a.b64();
            let second = halves.then(|| {
                let second = a.pred();
                op!(a, "setp.ge.u32 {second}, {row}, {}", rows / 2);
                op!(a, "@{second} sub.u32 {row}, {row}, {}", rows / 2);
                second
            });
            op!(a, "add.u32 {row}, {row}, {first}");
            op!(a, "min.u32 {row}, {row}, {last}");
            if let Some(second) = second {
                op!(a, "@{second} add.u32 {row}, {row}, {limit}");
            }
            op!(a, "mul.wide.u32 {from}, {row}, {}", f.k);
            op!(a, "shl.b64 {from}, {from}, 1");
            op!(a, "add.u64 {from}, {from}, {base}");
            Copy {
                from,
                plus,
                when,
                bytes: None,
            }
        });
        let copies = copies.collect();
        Copies {
            each: copies,
            to: share.to,
            line: f.tile.line(),
        }
    }

    /// Copies a step to `write` bytes into the ring, and moves on.
    pub(super) fn step(&self, a: &mut Asm, write: Reg) {
        let to = a.b32();
        op!(a, "add.u32 {to}, {}, {write}", self.to);
        for copy in &self.each {
            let (from, plus) = (copy.from, copy.plus);
            let when = copy.when.map_or(String::new(), |p| format!("@{p} "));
            let bytes = copy.bytes.map_or(String::new(), |b| format!(", {b}"));
            op!(
                a,
                "{when}cp.async.cg.shared.global.L2::128B [{to}+{plus}], [{from}], 16{bytes}"
            );
            op!(a, "add.u64 {from}, {from}, {}", self.line);
        }
    }
}

/// The rows of a convolution: a pixel's channels, for one place of the window after another.
pub(super) struct Pixels {
    pub(super) copies: Copies,
    window: Window,
    base: Reg,
    places: Vec<Place>,
    size: [Reg; 2],
    /// Row and pixels of the picture before upsampling, and channels.
    width: Reg,
    area: Reg,
    c: Reg,
    /// Steps left at this place of the window, steps at each, and the place.
    left: Reg,
    each: Reg,
    y: Reg,
    x: Reg,
}

/// An output pixel: the corner of its window, and the first pixel of the frame that is looked at.
struct Place {
    y: Reg,
    x: Reg,
    frame: Reg,
}

impl Pixels {
    pub(super) fn new(a: &mut Asm, f: &Frame, window: Window) -> Pixels {
        let rows = f.tile.bm();
        let share = Share::new(a, f, 0);
        let base = a.view(1);
        let wide = a.b64();
        let at = a.word(word::X_AT);
        op!(a, "mul.wide.s32 {wide}, {at}, 16");
        op!(a, "add.s64 {base}, {base}, {wide}");
        op!(a, "mul.wide.u32 {wide}, {}, 16", share.chunk);
        op!(a, "add.u64 {base}, {base}, {wide}");
        let [first, c, h, w] = [word::FIRST, word::C, word::H, word::W].map(|i| a.word(i));
        let [out_h, out_w, pad_y, pad_x] =
            [word::OUT_H, word::OUT_W, word::PAD_Y, word::PAD_X].map(|i| a.word(i));
        let (out_area, area, width) = (a.b32(), a.b32(), a.b32());
        op!(a, "mul.lo.u32 {out_area}, {out_h}, {out_w}");
        op!(a, "div.u32 {width}, {w}, {}", window.upsample);
        op!(a, "div.u32 {area}, {h}, {}", window.upsample);
        op!(a, "mul.lo.u32 {area}, {area}, {width}");
        let clip = window
            .is_over_frames()
            .then(|| [word::FRAMES, word::OUT_FRAMES].map(|i| a.word(i)));
        let mut places = Vec::new();
        let mut copies = Vec::new();
        for pass in 0..rows.div_ceil(share.each) {
            let (row, plus, when) = share.pass(a, f, pass, rows);
            let (frame, y, x, beyond) = (a.b32(), a.b32(), a.b32(), a.pred());
            op!(a, "add.u32 {row}, {row}, {}", f.m0);
            op!(a, "setp.ge.u32 {beyond}, {row}, {}", f.m);
            op!(a, "add.u32 {row}, {row}, {first}");
            op!(a, "div.u32 {frame}, {row}, {out_area}");
            op!(a, "mul.lo.u32 {x}, {frame}, {out_area}");
            op!(a, "sub.u32 {row}, {row}, {x}");
            if let Some([frames, out_frames]) = clip {
                let clip = a.b32();
                op!(a, "div.u32 {clip}, {frame}, {out_frames}");
                op!(a, "mul.lo.u32 {x}, {clip}, {out_frames}");
                op!(a, "sub.u32 {frame}, {frame}, {x}");
                op!(a, "mul.lo.u32 {frame}, {frame}, {}", window.stride[0]);
                op!(a, "mad.lo.u32 {frame}, {clip}, {frames}, {frame}");
            }
            op!(a, "mul.lo.u32 {frame}, {frame}, {area}");
            op!(a, "div.u32 {y}, {row}, {out_w}");
            op!(a, "mul.lo.u32 {x}, {y}, {out_w}");
            op!(a, "sub.u32 {x}, {row}, {x}");
            op!(a, "mul.lo.u32 {y}, {y}, {}", window.stride[1]);
            op!(a, "mul.lo.u32 {x}, {x}, {}", window.stride[2]);
            op!(a, "sub.u32 {y}, {y}, {pad_y}");
            op!(a, "sub.u32 {x}, {x}, {pad_x}");
            // Rows beyond the last are outside every picture.
            op!(a, "@{beyond} mov.u32 {y}, 0x40000000");
            places.push(Place { y, x, frame });
            copies.push(Copy {
                from: a.b64(),
                plus,
                when,
                bytes: Some(a.b32()),
            });
        }
        let (left, each, y, x) = (a.b32(), a.b32(), a.b32(), a.b32());
        op!(a, "div.u32 {each}, {c}, {}", f.tile.bk);
        op!(a, "mov.u32 {left}, {each}");
        op!(a, "mov.u32 {y}, 0");
        op!(a, "mov.u32 {x}, 0");
        let pixels = Pixels {
            copies: Copies {
                each: copies,
                to: share.to,
                line: f.tile.line(),
            },
            window,
            base,
            places,
            size: [h, w],
            width,
            area,
            c,
            left,
            each,
            y,
            x,
        };
        pixels.look(a);
        pixels
    }

    /// Points the copies at the pixels under this place of the window.
    fn look(&self, a: &mut Asm) {
        let [h, w] = self.size;
        for (place, copy) in self.places.iter().zip(&self.copies.each) {
            let (y, x, inside, wide) = (a.b32(), a.b32(), a.pred(), a.b64());
            op!(a, "add.u32 {y}, {}, {}", place.y, self.y);
            op!(a, "add.u32 {x}, {}, {}", place.x, self.x);
            // Coordinates left of zero are large as unsigned numbers.
            op!(a, "setp.lt.u32 {inside}, {y}, {h}");
            op!(a, "setp.lt.and.u32 {inside}, {x}, {w}, {inside}");
            if self.window.upsample == 2 {
                op!(a, "shr.u32 {y}, {y}, 1");
                op!(a, "shr.u32 {x}, {x}, 1");
            }
            op!(a, "mad.lo.u32 {y}, {y}, {}, {x}", self.width);
            op!(a, "add.u32 {y}, {y}, {}", place.frame);
            op!(a, "selp.b32 {y}, {y}, {}, {inside}", place.frame);
            op!(a, "mul.wide.u32 {wide}, {y}, {}", self.c);
            op!(a, "shl.b64 {wide}, {wide}, 1");
            op!(a, "add.u64 {}, {}, {wide}", copy.from, self.base);
            if let Some(bytes) = copy.bytes {
                op!(a, "selp.b32 {bytes}, 16, 0, {inside}");
            }
        }
    }

    /// Ends a step, and moves on to the window's next place when all channels of this one are done.
    pub(super) fn step(&self, a: &mut Asm) {
        let ([kt, kh, kw], [dh, dw]) = (self.window.size, self.window.dilation);
        let (more, within, stay) = (a.pred(), a.pred(), a.label());
        op!(a, "sub.u32 {}, {}, 1", self.left, self.left);
        op!(a, "setp.ne.u32 {more}, {}, 0", self.left);
        op!(a, "@{more} bra {stay}");
        op!(a, "mov.u32 {}, {}", self.left, self.each);
        op!(a, "add.u32 {}, {}, {dw}", self.x, self.x);
        op!(a, "setp.lt.u32 {within}, {}, {}", self.x, kw * dw);
        op!(a, "@!{within} mov.u32 {}, 0", self.x);
        op!(a, "@!{within} add.u32 {}, {}, {dh}", self.y, self.y);
        if kt > 1 {
            op!(a, "setp.lt.u32 {within}, {}, {}", self.y, kh * dh);
            op!(a, "@!{within} mov.u32 {}, 0", self.y);
            for Place { frame, .. } in &self.places {
                op!(a, "@!{within} add.u32 {frame}, {frame}, {}", self.area);
            }
        }
        self.look(a);
        a.place(&stay);
    }
}
