//! Attention against plain loops in f64.

use super::{Attention, Mask, Part};
use crate::memory::View;
use crate::simd::Level;
use crate::testing::{Close, Crew, Random, levels};

struct Case {
    b: usize,
    n: usize,
    m: usize,
    heads: usize,
    hd: usize,
    /// `[b, heads, n]` of the mask, each full or 1.
    mask: Option<[usize; 3]>,
}

fn check(level: Level, case: &Case) {
    let &Case {
        b,
        n,
        m,
        heads,
        hd,
        mask,
    } = case;
    let mut r = Random::new(n * 13 + m + hd);
    let scale = 1.0 / (hd as f32).sqrt() * 3.0;
    let (mut q, mut k, mut v) = (
        r.values(b * n * heads * hd),
        r.values(b * m * heads * hd),
        r.values(b * m * heads * hd),
    );
    let mut mask_values = mask.map(|s| {
        let mut values = r.values(s.iter().product::<usize>() * m);
        values
            .iter_mut()
            .step_by(3)
            .for_each(|v| *v = f32::NEG_INFINITY);
        values
    });
    let strides = mask.map(|[mb, mh, mn]| {
        let one = |size: usize, stride: usize| if size == 1 { 0 } else { stride };
        [one(mb, mh * mn * m), one(mh, mn * m), one(mn, m)]
    });
    let mut out = vec![f32::NAN; q.len()];
    let attention = Attention {
        q: View::of(&mut q),
        k: View::of(&mut k),
        v: View::of(&mut v),
        mask: mask_values.as_mut().zip(strides).map(|(m, strides)| Mask {
            view: View::of(m),
            strides,
        }),
        out: View::of(&mut out),
        n,
        m,
        heads,
        hd,
        scale,
    };
    let crew = Crew::new(2, attention.scratch_bytes(level));
    let cuts = if b * n > 2 {
        vec![0, 1, b * n / 2, b * n]
    } else {
        vec![0, b * n]
    };
    // By keys, 64 queries of a batch element at a time, with the same bits.
    let keys: Vec<usize> = (0..m).step_by(128).chain([m]).collect();
    let mut state = vec![f32::NAN; 64 * heads * (hd + 2)];
    let mut by_keys = vec![];
    let part = |keys: &[usize]| Part {
        keys: keys[0]..keys[1],
        state: state.as_mut_ptr(),
    };
    let parts: Vec<Part> = keys.windows(2).map(part).collect();
    for batch in 0..b {
        for first in (0..n).step_by(64) {
            let rows = batch * n + first..batch * n + n.min(first + 64);
            for part in &parts {
                // SAFETY: all views cover the shapes given.
                unsafe { attention.run(&crew.team(level), rows.clone(), Some(part)) };
            }
            by_keys.extend_from_slice(&out[rows.start * heads * hd..rows.end * heads * hd]);
        }
    }
    out.fill(f32::NAN);
    for pair in cuts.windows(2) {
        // SAFETY: all views cover the shapes given.
        unsafe { attention.run(&crew.team(level), pair[0]..pair[1], None) };
    }
    assert!(out == by_keys, "{level} b{b} n{n} m{m} heads{heads} hd{hd}");
    for (i, h) in (0..b * n * heads).map(|i| (i / heads, i % heads)) {
        let (batch, row) = (i / n, i % n);
        let scores: Vec<f64> = (0..m)
            .map(|j| {
                let (q, k) = (
                    &q[(i * heads + h) * hd..][..hd],
                    &k[((batch * m + j) * heads + h) * hd..][..hd],
                );
                let dot: f64 = q
                    .iter()
                    .zip(k)
                    .map(|(&a, &b)| f64::from(a) * f64::from(b))
                    .sum();
                let add = mask_values
                    .as_ref()
                    .zip(strides)
                    .map_or(0.0, |(values, [sb, sh, sn])| {
                        f64::from(values[batch * sb + h * sh + row * sn + j])
                    });
                dot * f64::from(scale) + add
            })
            .collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        for c in 0..hd {
            let want: f64 = (0..m)
                .map(|j| weights[j] * f64::from(v[((batch * m + j) * heads + h) * hd + c]))
                .sum::<f64>()
                / total;
            let what = format!("{level} b{b} n{n} m{m} heads{heads} hd{hd} [{i},{h},{c}]");
            Close::F32.check(out[(i * heads + h) * hd + c], want, 4, &what);
        }
    }
}

#[test]
fn attention_matches_f64() {
    let cases = [
        Case {
            b: 1,
            n: 1,
            m: 1,
            heads: 1,
            hd: 1,
            mask: None,
        },
        Case {
            b: 2,
            n: 5,
            m: 7,
            heads: 3,
            hd: 4,
            mask: None,
        },
        Case {
            b: 1,
            n: 200,
            m: 300,
            heads: 2,
            hd: 40,
            mask: None,
        },
        Case {
            b: 2,
            n: 33,
            m: 77,
            heads: 2,
            hd: 64,
            mask: Some([1, 1, 33]),
        },
        Case {
            b: 2,
            n: 9,
            m: 290,
            heads: 2,
            hd: 24,
            mask: Some([2, 1, 1]),
        },
        Case {
            b: 1,
            n: 20,
            m: 270,
            heads: 2,
            hd: 130,
            mask: Some([1, 2, 20]),
        },
    ];
    for level in levels() {
        for case in &cases {
            check(level, case);
        }
    }
}

/// Weights in pairs are powers of two of scores less the largest, and 0 far below it.
#[cfg(target_arch = "x86_64")]
#[test]
fn weights_in_pairs_are_powers_of_two() {
    use super::columns::Softmax;
    use crate::gemm::micro::PANEL;

    const KEYS: usize = 201;
    if !crate::gemm::pairs::exists(Level::best()) {
        return;
    }
    let score = |key: usize| match key {
        0 => f32::NEG_INFINITY,
        1 => -1e30,
        _ => 3.0 - (KEYS - 1 - key) as f32 * 0.71,
    };
    let mut scores: Vec<f32> = (0..KEYS).flat_map(|key| [score(key); PANEL]).collect();
    scores.resize((KEYS + 1) * PANEL, 0.0);
    let (mut largest, mut total) = ([f32::NEG_INFINITY; PANEL], [0.0; PANEL]);
    let softmax = Softmax {
        scores: scores.as_mut_ptr(),
        keys: KEYS,
        largest: largest.as_mut_ptr(),
        total: total.as_mut_ptr(),
        out: std::ptr::null_mut(),
        hd: 0,
    };
    // SAFETY: the vectors have these sizes, and the CPU has the instructions.
    unsafe { super::pairs::weigh(&softmax, 1.0) };
    assert_eq!(largest.map(f32::to_bits), [3.0f32.to_bits(); PANEL]);
    let want = |key: usize| (f64::from(score(key)) - 3.0).exp2();
    let sum: f64 = (0..KEYS).map(want).sum();
    assert!(
        total
            .iter()
            .all(|&t| (f64::from(t) / sum - 1.0).abs() < 1e-4)
    );
    for key in 0..KEYS {
        let slot = scores[key / 2 * PANEL].to_bits();
        let bits = if key % 2 == 0 {
            slot << 16
        } else {
            slot & 0xffff_0000
        };
        let (found, want) = (f64::from(f32::from_bits(bits)), want(key));
        let error = (found - want).abs();
        assert!(
            error <= want * 0.0041 + 1e-37,
            "{key}: {found}, want {want}"
        );
    }
}
