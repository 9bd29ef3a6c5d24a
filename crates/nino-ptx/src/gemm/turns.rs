//! The kernels of which a multiprocessor holds one workgroup: a warp group copies steps into the
//! ring, the others multiply, and neither waits for the other for longer than it must. A workgroup
//! makes one tile after another, and the first steps of the next one are copied while the results
//! of this one are written.

use super::epilogue::Lane;
use super::operands::Operands;
use super::vectors::Staged;
use super::{Both, Frame, GemmKernel, zeros};
use crate::asm::{Asm, Reg, op};
use crate::ring::{Ring, TOGETHER, Turn, barrier_bytes};

/// Registers of a thread that copies: rows need a pointer each, pixels their places, too.
const FEW: u32 = 72;
const FEW_OF_PIXELS: u32 = 104;

impl GemmKernel {
    pub(super) fn in_turns(&self, a: &mut Asm, f: &Frame) {
        let ring = Ring {
            places: f.tile.stages,
            computing: f.tile.computing(),
            shared: f.shared,
            barriers: f.tile.ring_bytes(),
        };
        let few = self.window.map_or(FEW, |_| FEW_OF_PIXELS);
        let bring = a.label();
        ring.part(a, f.tid, few, &bring);
        self.compute(a, f, &ring);
        op!(a, "ret");
        a.place(&bring);
        op!(a, "setmaxnreg.dec.sync.aligned.u32 {few}");
        self.bring(a, f, &ring);
    }

    /// The warp group that copies.
    fn bring(&self, a: &mut Asm, f: &Frame, ring: &Ring) {
        let turn = Ring::first_to_fill(a);
        let [steps, step, write] = [(); 3].map(|()| a.b32());
        op!(a, "div.u32 {steps}, {}, {}", f.k, f.tile.bk);
        each_tile(a, f, |a| {
            let both = Both::new(self, a, f);
            let (again, more) = (a.label(), a.pred());
            op!(a, "mov.u32 {step}, 0");
            a.place(&again);
            ring.wait_until_empty(a, &turn);
            let stage = f.tile.stage_bytes();
            op!(a, "mul.lo.u32 {write}, {}, {stage}", turn.place);
            both.step(a, write);
            ring.fill(a, &turn);
            ring.next(a, &turn);
            op!(a, "add.u32 {step}, {step}, 1");
            op!(a, "setp.lt.u32 {more}, {step}, {steps}");
            op!(a, "@{more} bra.uni {again}");
        });
        op!(a, "cp.async.wait_all");
    }

    /// The warp groups that compute. A step's product goes on while the next one is waited for.
    fn compute(&self, a: &mut Asm, f: &Frame, ring: &Ring) {
        let operands = Operands::new(a, f);
        let turn = Ring::first_to_take(a);
        let [steps, step, before, lane] = [(); 4].map(|()| a.b32());
        op!(a, "div.u32 {steps}, {}, {}", f.k, f.tile.bk);
        op!(a, "and.b32 {lane}, {}, 31", f.tid);
        // Two places for vectors, in turns: some may still read those of the tile before.
        let vectors = a.b32();
        let at = ring.barriers + barrier_bytes(ring.places);
        let next = f.tile.vector_bytes();
        op!(a, "add.u32 {vectors}, {}, {at}", f.shared);
        let odd = a.pred();
        op!(a, "setp.ne.u32 {odd}, 0, 0");
        each_tile(a, f, |a| {
            let staged = Staged::read(self, a, f);
            let sums = zeros(a, f.tile);
            let (again, more) = (a.label(), a.pred());
            take(a, f, (ring, &turn), &operands, &sums);
            op!(a, "mov.u32 {before}, {}", turn.place);
            ring.next(a, &turn);
            op!(a, "mov.u32 {step}, 1");
            let end = a.label();
            op!(a, "setp.ge.u32 {more}, {step}, {steps}");
            op!(a, "@{more} bra.uni {end}");
            a.place(&again);
            take(a, f, (ring, &turn), &operands, &sums);
            op!(a, "wgmma.wait_group.sync.aligned 1");
            ring.emptied(a, lane, before);
            op!(a, "mov.u32 {before}, {}", turn.place);
            ring.next(a, &turn);
            op!(a, "add.u32 {step}, {step}, 1");
            op!(a, "setp.lt.u32 {more}, {step}, {steps}");
            op!(a, "@{more} bra.uni {again}");
            a.place(&end);
            op!(a, "wgmma.wait_group.sync.aligned 0");
            ring.emptied(a, lane, before);
            let lane = Lane::new(a);
            let staged = staged.put(a, f, lane.of_four, vectors);
            op!(a, "bar.sync {TOGETHER}, {}", f.tile.computing());
            self.epilogue(a, f, (&lane, &staged), &sums);
            op!(a, "@{odd} sub.u32 {vectors}, {vectors}, {next}");
            op!(a, "@!{odd} add.u32 {vectors}, {vectors}, {next}");
            op!(a, "not.pred {odd}, {odd}");
        });
    }
}

/// Waits for the next step, and begins its product.
fn take(
    a: &mut Asm,
    f: &Frame,
    (ring, turn): (&Ring, &Turn),
    operands: &Operands,
    sums: &[Vec<Reg>],
) {
    ring.wait_until_full(a, turn);
    let (at, read) = (a.b32(), a.b64());
    op!(
        a,
        "mul.lo.u32 {at}, {}, {}",
        turn.place,
        f.tile.stage_bytes() / 16
    );
    op!(a, "cvt.u64.u32 {read}, {at}");
    operands.multiply(a, f.tile, read, sums);
}

/// Does the same for every tile of this workgroup.
fn each_tile(a: &mut Asm, f: &Frame, body: impl FnOnce(&mut Asm)) {
    let [number, all] = [(); 2].map(|()| a.b32());
    op!(a, "mov.u32 {number}, %ctaid.x");
    op!(a, "mov.u32 {all}, %nctaid.x");
    let (again, more) = (a.label(), a.pred());
    a.place(&again);
    f.go_to(a, number);
    body(a);
    op!(a, "add.u32 {number}, {number}, {all}");
    op!(a, "setp.lt.u32 {more}, {number}, {}", f.tiles);
    op!(a, "@{more} bra.uni {again}");
}
