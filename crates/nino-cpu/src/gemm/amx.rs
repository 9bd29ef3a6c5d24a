//! Products of bf16 pairs by AMX tiles (Sapphire Rapids and later), eight times as many a cycle as
//! by vectors there.
//!
//! A tile register has 16 rows of 64 bytes. The packs of `pairs` are its layouts as they are: 16
//! slots of 16 rows of A, 16 slots of 16 columns of B, 16 x 16 sums. The instructions are written
//! out because Rust's intrinsics for them are not stable. Rust never uses tile registers itself,
//! so their values last from one `asm!` to the next.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::cell::Cell;
use std::sync::OnceLock;

use super::micro::{Block, LDA, PANEL};

/// Rows of a tile, slots of a row, and columns of sums.
const SIDE: usize = 16;

/// Whether this CPU has AMX for bf16 and the system lets this process use it.
pub(crate) fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        // Leaf 7, EDX: bit 22 is AMX-BF16, bit 24 AMX-TILE.
        let wanted = 1 << 22 | 1 << 24;
        __cpuid_count(7, 0).edx & wanted == wanted && permitted()
    })
}

/// Asks the system for tile registers, which it saves only for processes that ask.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: the call changes what this process may use and touches no memory.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_arch_prctl,
            ARCH_REQ_XCOMP_PERM,
            XFEATURE_XTILEDATA,
        )
    };
    answer == 0
}

#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// Computes C = A B, or C += A B with `accumulate`. Tiles 0 to 3 hold sums of two by two tiles, 4
/// and 5 A's, 6 and 7 B's.
pub(crate) unsafe fn block(t: &Block<'_>) {
    let mut row = 0;
    while row < t.rows {
        let left = t.rows - row;
        // Two whole tiles, one whole tile, or one with the rows that are left.
        let (tiles, rows) = match left {
            _ if left >= 2 * SIDE => (2, SIDE),
            _ if left >= SIDE => (1, SIDE),
            _ => (1, left),
        };
        configure(rows);
        let part = Part {
            a: t.a.add(row * LDA),
            c: t.c.add(row * t.ldc),
            tiles,
            rows,
        };
        part.multiply(t);
        row += tiles * rows;
    }
}

/// What `ldtilecfg` reads: bytes of a row and rows of each tile.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Sets the shapes of tiles: `rows` rows for A and the sums, unless this thread has them so.
unsafe fn configure(rows: usize) {
    thread_local! {
        static ROWS: Cell<usize> = const { Cell::new(0) };
    }
    if ROWS.replace(rows) == rows {
        return;
    }
    let mut shapes = Shapes {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        row_bytes: [0; 16],
        rows: [0; 16],
    };
    for tile in 0..8 {
        shapes.row_bytes[tile] = 4 * SIDE as u16;
        shapes.rows[tile] = if tile < 6 { rows } else { SIDE } as u8;
    }
    asm!("ldtilecfg [{}]", in(reg) &raw const shapes, options(nostack, readonly));
}

/// One or two tiles of rows.
struct Part {
    a: *const f32,
    c: *mut f32,
    tiles: usize,
    rows: usize,
}

/// Sixteen slots of A's rows and of B's panel.
struct Step {
    a: *const f32,
    /// Slots between two rows of A.
    lda: usize,
    b: *const f32,
}

impl Part {
    unsafe fn multiply(&self, t: &Block<'_>) {
        let two_columns = t.cols > SIDE;
        self.start(t, two_columns);
        let (mut b, mut left) = (t.b, t.k);
        for &segment in t.segments {
            let len = left.min(t.segment_len);
            left -= len;
            let a = self.a.add(segment);
            for k in (0..len - len % SIDE).step_by(SIDE) {
                let step = Step {
                    a: a.add(k),
                    lda: LDA,
                    b: b.add(k * PANEL),
                };
                self.add(&step, two_columns);
            }
            let rest = len % SIDE;
            if rest > 0 {
                let k = len - rest;
                self.add_rest(a.add(k), b.add(k * PANEL), rest, two_columns);
            }
            b = b.add(len * PANEL);
        }
        self.store(t, two_columns);
    }

    unsafe fn start(&self, t: &Block<'_>, two_columns: bool) {
        if !t.accumulate {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                options(nostack, nomem)
            );
            return;
        }
        let ld = 4 * t.ldc;
        asm!("tileloadd tmm0, [{c} + {ld}*1]", c = in(reg) self.c, ld = in(reg) ld,
            options(nostack, readonly));
        if two_columns {
            asm!("tileloadd tmm1, [{c} + {ld}*1]", c = in(reg) self.c.add(SIDE), ld = in(reg) ld,
                options(nostack, readonly));
        }
        if self.tiles == 2 {
            let c = self.c.add(SIDE * t.ldc);
            asm!("tileloadd tmm2, [{c} + {ld}*1]", c = in(reg) c, ld = in(reg) ld,
                options(nostack, readonly));
            if two_columns {
                asm!("tileloadd tmm3, [{c} + {ld}*1]", c = in(reg) c.add(SIDE), ld = in(reg) ld,
                    options(nostack, readonly));
            }
        }
    }

    #[inline(always)]
    unsafe fn add(&self, step: &Step, two_columns: bool) {
        let Step { a, lda, b } = *step;
        asm!(
            "tileloadd tmm4, [{a} + {lda}*1]",
            "tileloadd tmm6, [{b} + {ldb}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            a = in(reg) a, lda = in(reg) 4 * lda, b = in(reg) b, ldb = in(reg) 4 * PANEL,
            options(nostack, readonly)
        );
        if two_columns {
            asm!(
                "tileloadd tmm7, [{b} + {ldb}*1]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                b = in(reg) b.add(SIDE), ldb = in(reg) 4 * PANEL,
                options(nostack, readonly)
            );
        }
        if self.tiles == 2 {
            asm!(
                "tileloadd tmm5, [{a} + {lda}*1]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                a = in(reg) a.add(SIDE * lda), lda = in(reg) 4 * lda,
                options(nostack, readonly)
            );
            if two_columns {
                asm!("tdpbf16ps tmm3, tmm5, tmm7", options(nostack, nomem));
            }
        }
    }

    /// Adds fewer than sixteen slots, with zeros for the others on both sides.
    unsafe fn add_rest(&self, a: *const f32, b: *const f32, rest: usize, two_columns: bool) {
        let mut rows = [0f32; 2 * SIDE * SIDE];
        let mut panel = [0f32; SIDE * PANEL];
        for i in 0..self.tiles * self.rows {
            let row = rows.as_mut_ptr().add(i * SIDE);
            row.copy_from_nonoverlapping(a.add(i * LDA), rest);
        }
        panel.as_mut_ptr().copy_from_nonoverlapping(b, rest * PANEL);
        let step = Step {
            a: rows.as_ptr(),
            lda: SIDE,
            b: panel.as_ptr(),
        };
        self.add(&step, two_columns);
    }

    unsafe fn store(&self, t: &Block<'_>, two_columns: bool) {
        let ld = 4 * t.ldc;
        asm!("tilestored [{c} + {ld}*1], tmm0", c = in(reg) self.c, ld = in(reg) ld,
            options(nostack));
        if two_columns {
            asm!("tilestored [{c} + {ld}*1], tmm1", c = in(reg) self.c.add(SIDE), ld = in(reg) ld,
                options(nostack));
        }
        if self.tiles == 2 {
            let c = self.c.add(SIDE * t.ldc);
            asm!("tilestored [{c} + {ld}*1], tmm2", c = in(reg) c, ld = in(reg) ld,
                options(nostack));
            if two_columns {
                asm!("tilestored [{c} + {ld}*1], tmm3", c = in(reg) c.add(SIDE), ld = in(reg) ld,
                    options(nostack));
            }
        }
    }
}
