//! Linear layers against sums in f64.

#![allow(clippy::print_stdout)] // a test that is skipped says so

use nino_dtype::DType;
use nino_graph::Act;

use super::epilogue::Epilogue;
use super::int8;
use super::linear::{self, Factor, Linear};
use super::prologue::{Prologue, Source};
use super::slot::Slot;
use super::weights::{Packed, PackedLayout, WeightUse};
use crate::memory::{Buffer, View};
use crate::simd::Level;
use crate::testing::{Close, Crew, Random, levels};

fn packed(level: Level, dtype: DType, shape: [usize; 3], values: &[f32]) -> (Packed, Vec<f32>) {
    let bytes = dtype.bytes_for(values.len()).unwrap();
    let mut stored = Buffer::new(bytes, "test").unwrap();
    nino_dtype::encode(dtype, values, stored.as_mut_slice()).unwrap();
    let mut decoded = vec![0.0; values.len()];
    nino_dtype::decode(dtype, stored.as_slice(), &mut decoded).unwrap();
    let wanted = WeightUse {
        shape,
        brain: false,
    };
    (
        Packed::new(level, dtype, wanted, stored, "test").unwrap(),
        decoded,
    )
}

/// Weights that are stored as pairs are the pairs that others become on the way to the pack, and
/// can be read as f32, too.
#[test]
fn weights_stored_as_pairs_are_the_same_pairs() {
    let level = Level::best();
    for (dtype, shape) in [
        (DType::F16, [40, 1, 70]),
        (DType::BF16, [32, 1, 300]),
        (DType::F16, [33, 9, 130]),
    ] {
        let [n, taps, cin] = shape;
        let values = Random::new(n + cin).values(n * taps * cin);
        let (plain, _) = packed(level, dtype, shape, &values);
        let mut stored = Buffer::new(2 * values.len(), "test").unwrap();
        nino_dtype::encode(dtype, &values, stored.as_mut_slice()).unwrap();
        let wanted = WeightUse { shape, brain: true };
        let paired = Packed::new(level, dtype, wanted, stored, "test").unwrap();
        if paired.layout != PackedLayout::Pairs {
            println!("skipped: {dtype} {shape:?} is not stored as pairs here");
            continue;
        }
        assert_eq!(paired.stored_bytes(), plain.stored_bytes());
        let room = plain.pair_floats(cin.min(128)) + plain.pack_floats(taps * 128);
        let (mut pack, mut other) = (vec![0f32; room], vec![0f32; room]);
        for (panel, c0) in [(0, 0), ((n - 1) / 32, 0), (0, 128)] {
            let len = cin.saturating_sub(c0).min(128);
            let rows = taps * len * 32;
            // SAFETY: the packs have room for a block of 128 channels.
            unsafe {
                let bits = |p: *const f32, n| {
                    let floats = std::slice::from_raw_parts(p, n).iter();
                    floats.map(|v| v.to_bits()).collect::<Vec<_>>()
                };
                let a = paired.pair_panel(level, panel, c0, len, pack.as_mut_ptr());
                let b = plain.pair_panel(level, panel, c0, len, other.as_mut_ptr());
                assert_eq!(bits(a, rows / 2), bits(b, rows / 2), "{dtype} {shape:?}");
                let a = bits(paired.panel(level, panel, c0, len, pack.as_mut_ptr()), rows);
                let b = plain.panel(level, panel, c0, len, other.as_mut_ptr());
                for (i, found) in a.into_iter().enumerate() {
                    let wanted = half::bf16::from_f32(*b.add(i)).to_f32();
                    assert_eq!(found, wanted.to_bits(), "{dtype} {shape:?} {i}");
                }
            }
        }
    }
}

fn check(
    level: Level,
    threads: usize,
    [m, k, n]: [usize; 3],
    dtype: DType,
    fused: bool,
) -> Vec<f32> {
    let mut random = Random::new(m * 31 + k * 7 + n);
    let (mut x, w) = (random.values(m * k), random.values(n * k));
    let (bias, mut residual) = (random.values(n), random.values(m * n));
    let (gain, shift, stats) = (random.values(k), random.values(k), random.values(2 * m));
    let (packed, w) = packed(level, dtype, [n, 1, k], &w);
    let mut out = vec![f32::NAN; m * n];
    let pre = Prologue {
        stats: stats.as_ptr(),
        groups: None,
        weight: gain.as_ptr(),
        bias: shift.as_ptr(),
        act: Some(Act::Silu),
        channels: k,
    };
    let l = Linear {
        source: Source {
            x: View::of(&mut x),
            pre: fused.then_some(pre),
        },
        b: Factor::Weights(&packed),
        epilogue: Epilogue {
            scale: std::ptr::null(),
            bias: bias.as_ptr(),
            gate: None,
            act: fused.then_some(Act::GeluTanh),
            residual: fused.then(|| View::of(&mut residual)),
            post: None,
            out: View::of(&mut out),
            ld: n,
        },
        rows_per_batch: m,
    };
    let crew = Crew::new(threads, linear::scratch_bytes(level, Slot::F32, &l.b));
    // SAFETY: all views cover the shapes given.
    unsafe { linear::run(&crew.team(level), &l, 0..m) };
    let close = if int8::takes(level, &packed) {
        Close::Int8
    } else {
        Close::F32
    };
    for i in 0..m {
        let a: Vec<f64> = (0..k)
            .map(|c| {
                let x = f64::from(x[i * k + c]);
                if !fused {
                    return x;
                }
                let norm = (x - f64::from(stats[2 * i])) * f64::from(stats[2 * i + 1]);
                let y = norm * f64::from(gain[c]) + f64::from(shift[c]);
                y / (1.0 + (-y).exp())
            })
            .collect();
        for j in 0..n {
            let dot: f64 = (0..k).map(|c| a[c] * f64::from(w[j * k + c])).sum();
            let mut want = dot + f64::from(bias[j]);
            if fused {
                let inner = 0.797_884_560_8 * (want + 0.044_715 * want.powi(3));
                want = want / 2.0 * (1.0 + inner.tanh()) + f64::from(residual[i * n + j]);
            }
            close.check(
                out[i * n + j],
                want,
                k,
                &format!("{level} {dtype} {m}x{k}x{n} [{i},{j}]"),
            );
        }
    }
    out
}

#[test]
fn linear_matches_f64() {
    for level in levels() {
        for shape in [
            [1, 1, 1],
            [3, 5, 7],
            [14, 128, 32],
            [15, 129, 33],
            [29, 640, 65],
            [170, 300, 40],
            [9, 1100, 70],
        ] {
            check(level, 2, shape, DType::F32, false);
            check(level, 2, shape, DType::F32, true);
        }
    }
}

#[test]
fn linear_takes_every_encoding() {
    for level in levels() {
        for dtype in [
            DType::F16,
            DType::BF16,
            DType::F8E4M3,
            DType::F8E5M2,
            DType::Q8_0,
        ] {
            for shape in [[1, 32, 3], [7, 288, 33], [40, 544, 70], [31, 1056, 31]] {
                check(level, 2, shape, dtype, false);
            }
        }
        for dtype in [
            DType::Q4_0,
            DType::Q5_1,
            DType::Q2_K,
            DType::Q4_K,
            DType::Q6_K,
        ] {
            for shape in [[1, 256, 3], [7, 512, 33], [40, 768, 70], [31, 1280, 31]] {
                check(level, 2, shape, dtype, false);
            }
        }
    }
}

#[test]
fn threads_do_not_change_the_result() {
    for dtype in [DType::F32, DType::Q8_0, DType::Q4_K, DType::Q6_K] {
        let k = if dtype.block_len() == 256 { 1280 } else { 1088 };
        let one = check(Level::best(), 1, [113, k, 130], dtype, true);
        let five = check(Level::best(), 5, [113, k, 130], dtype, true);
        assert_eq!(one, five);
    }
}

#[test]
fn q8_panels_of_int8_decode_to_the_files_values() {
    let level = Level::best();
    if !super::q8::supported(level) {
        return;
    }
    let [n, k] = [70, 96];
    let (packed, values) = packed(level, DType::Q8_0, [n, 1, k], &Random::new(5).values(n * k));
    for panel in 0..packed.panels() {
        let mut found = vec![f32::NAN; 64 * 32];
        // SAFETY: there is room for 64 values of each of 32 columns.
        unsafe { super::q8::unpack(level, packed.bytes(), k, panel, 32, 64, found.as_mut_ptr()) };
        for (j, c) in (0..packed.cols(panel)).flat_map(|j| (0..64).map(move |c| (j, c))) {
            let wanted = values[(panel * 32 + j) * k + 32 + c];
            assert_eq!(
                found[c * 32 + j].to_bits(),
                wanted.to_bits(),
                "{panel} {j} {c}"
            );
        }
    }
}
