//! Packs of pairs bit by bit, and their products (by tiles where the CPU has them) against f64.

#![allow(clippy::print_stdout)] // a test that is skipped says so

use half::bf16;

use super::{copy, exists, interleave_bf16, interleave_f16, interleave_f32, narrow, pair_rows};
#[cfg(target_arch = "x86_64")]
use super::{copy_rows, pair_up, portable, unpair};
use crate::gemm::micro::{self, Block, LDA, PANEL, SEG};
use crate::gemm::slot::Slot;
use crate::simd::Level;
use crate::testing::Random;

/// Says whether this CPU can run these tests.
fn has_pairs() -> bool {
    let has = exists(Level::best());
    if !has {
        println!("skipped: this CPU has no bf16 products");
    }
    has
}

fn halves(slot: f32) -> [u16; 2] {
    let bits = slot.to_bits();
    [bits as u16, (bits >> 16) as u16]
}

fn brain(value: f32) -> u16 {
    bf16::from_f32(value).to_bits()
}

#[test]
fn rows_hold_every_value_and_end_with_a_zero() {
    if !has_pairs() {
        return;
    }
    for n in [1, 2, 15, 16, 17, 31, 32, 33, 100, 128] {
        let values = Random::new(n).values(n);
        let stored: Vec<u16> = values.iter().map(|&v| brain(v)).collect();
        let mut narrowed = [f32::NAN; SEG];
        let mut copied = [f32::NAN; SEG];
        // SAFETY: both rows have room, and the CPU has the instructions.
        unsafe {
            narrow(values.as_ptr(), n, narrowed.as_mut_ptr());
            copy(stored.as_ptr(), n, copied.as_mut_ptr());
        }
        for found in [&narrowed, &copied] {
            let found: Vec<u16> = found.iter().flat_map(|&s| halves(s)).collect();
            assert_eq!(found[..n], stored, "{n} values");
            assert!(n % 2 == 0 || found[n] == 0, "{n} values");
            let untouched = halves(f32::NAN);
            let rest = found[n.next_multiple_of(2)..].chunks(2);
            assert!(rest.into_iter().all(|s| s == untouched), "{n} values");
        }
    }
}

#[test]
fn panels_pair_neighboring_rows() {
    if !has_pairs() {
        return;
    }
    for n in [1, 2, 3, 8, 13] {
        let values = Random::new(n).values(n * PANEL);
        let brains: Vec<u16> = values.iter().map(|&v| brain(v)).collect();
        let f16: Vec<u16> = values.iter().map(|&v| nino_dtype::f32_to_f16(v)).collect();
        let from_f16 = |i: usize| brain(nino_dtype::f16_to_f32(f16[i]));
        let mut panels = [[f32::NAN; 7 * PANEL]; 4];
        // SAFETY: the panels have room, and the CPU has the instructions.
        unsafe {
            interleave_f32(values.as_ptr(), PANEL, n, panels[0].as_mut_ptr());
            interleave_bf16(brains.as_ptr(), PANEL, n, panels[1].as_mut_ptr());
            interleave_f16(f16.as_ptr(), PANEL, n, panels[2].as_mut_ptr());
            for i in (0..n).step_by(2) {
                let next = if i + 1 < n {
                    brains[(i + 1) * PANEL..].as_ptr()
                } else {
                    std::ptr::null()
                };
                let dst = panels[3][i / 2 * PANEL..].as_mut_ptr();
                pair_rows(brains[i * PANEL..].as_ptr(), next, PANEL, dst);
            }
        }
        for (kind, panel) in panels.iter().enumerate() {
            for (k, j) in (0..n.next_multiple_of(2)).flat_map(|k| (0..PANEL).map(move |j| (k, j))) {
                let i = k * PANEL + j;
                let wanted = match kind {
                    _ if k >= n => 0,
                    2 => from_f16(i),
                    _ => brains[i],
                };
                let found = halves(panel[k / 2 * PANEL + j])[k % 2];
                assert_eq!(
                    found, wanted,
                    "panel {kind} of {n} rows, row {k}, column {j}"
                );
            }
        }
    }
}

#[test]
fn products_match_f64() {
    if !has_pairs() {
        return;
    }
    for rows in [1, 5, 14, 16, 17, 31, 32, 40, 65] {
        for slots in [1, 7, 16, 20, 128, 150] {
            for (cols, accumulate) in [(PANEL, false), (PANEL, true), (9, true)] {
                check(rows, slots, cols, accumulate);
            }
        }
    }
}

fn check(rows: usize, slots: usize, cols: usize, accumulate: bool) {
    let k = 2 * slots;
    let mut random = Random::new(rows * 1000 + slots);
    let round = |v: &f32| bf16::from_f32(*v);
    let a: Vec<bf16> = random.values(rows * k).iter().map(round).collect();
    let b: Vec<bf16> = random.values(k * PANEL).iter().map(round).collect();
    let before = random.values(rows * PANEL);
    let segments: Vec<usize> = (0..slots.div_ceil(SEG)).map(|s| s * rows * LDA).collect();
    let mut a_pack = vec![f32::NAN; segments.len() * rows * LDA];
    let mut b_pack = vec![f32::NAN; slots * PANEL];
    for (row, s) in (0..rows).flat_map(|r| (0..segments.len()).map(move |s| (r, s))) {
        let first = s * 2 * SEG;
        let n = (k - first).min(2 * SEG);
        let dst = a_pack[segments[s] + row * LDA..].as_mut_ptr();
        // SAFETY: `bf16` is its bits, the pack has room, and the CPU has the instructions.
        unsafe { copy(a[row * k + first..].as_ptr().cast(), n, dst) };
    }
    let mut c = before.clone();
    // SAFETY: as above, and the packs have the sizes of the block.
    unsafe {
        interleave_bf16(b.as_ptr().cast(), PANEL, k, b_pack.as_mut_ptr());
        let block = Block {
            slot: Slot::Pair,
            a: a_pack.as_ptr(),
            segments: &segments,
            segment_len: SEG,
            k: slots,
            b: b_pack.as_ptr(),
            c: c.as_mut_ptr(),
            ldc: PANEL,
            rows,
            cols,
            accumulate,
        };
        micro::block(Level::best(), &block);
    }
    for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
        let dot: f64 = (0..k)
            .map(|k_| a[i * k + k_].to_f64() * b[k_ * PANEL + j].to_f64())
            .sum();
        let start = if accumulate {
            f64::from(before[i * PANEL + j])
        } else {
            0.0
        };
        let (found, wanted) = (f64::from(c[i * PANEL + j]), start + dot);
        let limit = 1e-5 * (k as f64).sqrt();
        assert!(
            (found - wanted).abs() < limit,
            "{rows}x{slots}x{cols} {accumulate} [{i},{j}]: {found}, not {wanted}"
        );
    }
}

#[cfg(target_arch = "x86_64")]
type Pack = unsafe fn(*const u16, usize, usize, *mut f32);

#[cfg(target_arch = "x86_64")]
#[test]
fn vectors_and_portable_code_make_the_same_pairs() {
    if !has_pairs() {
        return;
    }
    let values = Random::new(9).values(7 * PANEL);
    let halves: Vec<u16> = values
        .iter()
        .map(|&v| half::f16::from_f32(v).to_bits())
        .collect();
    let brains: Vec<u16> = values.iter().map(|&v| brain(v)).collect();
    let bits = |slots: &[f32]| slots.iter().map(|s| s.to_bits()).collect::<Vec<_>>();
    let packs: [(Pack, Pack, &[u16]); 2] = [
        (interleave_f16, portable::interleave_f16, &halves),
        (interleave_bf16, portable::interleave_bf16, &brains),
    ];
    // SAFETY: every buffer has room for what is written, and the CPU has the instructions.
    unsafe {
        for n in 1..=7 {
            let mut found = [[0.0f32; 4 * PANEL]; 2];
            interleave_f32(values.as_ptr(), PANEL, n, found[0].as_mut_ptr());
            portable::interleave_f32(values.as_ptr(), PANEL, n, found[1].as_mut_ptr());
            assert_eq!(bits(&found[0]), bits(&found[1]), "{n} rows of f32");
            for (vectors, plain, from) in packs {
                let mut found = [[0.0f32; 4 * PANEL]; 2];
                vectors(from.as_ptr(), PANEL, n, found[0].as_mut_ptr());
                plain(from.as_ptr(), PANEL, n, found[1].as_mut_ptr());
                assert_eq!(bits(&found[0]), bits(&found[1]), "{n} rows");
            }
            let mut found = [[0.0f32; 7 * PANEL]; 2];
            narrow(values.as_ptr(), n * 9, found[0].as_mut_ptr());
            portable::narrow(values.as_ptr(), n * 9, found[1].as_mut_ptr());
            assert_eq!(bits(&found[0]), bits(&found[1]), "{n} narrowed");
            let mut found = [[0.0f32; 7 * PANEL]; 2];
            for hi in [brains.as_ptr().add(PANEL), std::ptr::null()] {
                pair_rows(brains.as_ptr(), hi, n * 3, found[0].as_mut_ptr());
                portable::pair_rows(brains.as_ptr(), hi, n * 3, found[1].as_mut_ptr());
                assert_eq!(bits(&found[0]), bits(&found[1]), "{n} pair rows");
            }
            let mut found = [[0.0f32; 2 * LDA]; 2];
            copy_rows(brains.as_ptr(), n * 9, n * 7, 2, found[0].as_mut_ptr());
            portable::copy_rows(brains.as_ptr(), n * 9, n * 7, 2, found[1].as_mut_ptr());
            assert_eq!(bits(&found[0]), bits(&found[1]), "{n} copied rows");
        }
        for (dtype, from) in [
            (nino_dtype::DType::F16, &halves),
            (nino_dtype::DType::BF16, &brains),
        ] {
            let mut found = [from[..6 * PANEL].to_vec(), from[..6 * PANEL].to_vec()];
            pair_up(dtype, found[0].as_mut_ptr(), 6);
            portable::pair_up(dtype, found[1].as_mut_ptr(), 6);
            assert_eq!(found[0], found[1], "{dtype}");
            let mut back = [[0.0f32; 6 * PANEL]; 2];
            unpair(found[0].as_ptr().cast(), 6, back[0].as_mut_ptr());
            portable::unpair(found[0].as_ptr().cast(), 6, back[1].as_mut_ptr());
            assert_eq!(bits(&back[0]), bits(&back[1]), "{dtype}");
        }
    }
}
