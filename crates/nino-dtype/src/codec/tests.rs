//! Codecs against the goldens (ggml's reference, torch) and against each other.

use super::*;
use crate::simd::Level;
use std::path::PathBuf;

fn golden(name: &str) -> Vec<u8> {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../goldens/dtype/{name}.bin"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect()
}

/// Equal bits, or both NaN.
#[track_caller]
fn check_same(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!(
            f.to_bits() == e.to_bits() || (f.is_nan() && e.is_nan()),
            "{what}: value {i} is {f:?} ({:#x}), expected {e:?} ({:#x})",
            f.to_bits(),
            e.to_bits()
        );
    }
}

#[test]
fn decodes_as_the_reference() {
    for dtype in DType::ALL {
        if !dtype.is_block() && !matches!(dtype, DType::F8E4M3 | DType::F8E5M2) {
            continue;
        }
        let data = golden(&format!("decode_{dtype}"));
        let n_blocks = data.len() / (dtype.block_bytes() + 4 * dtype.block_len());
        assert!(n_blocks >= 12, "{dtype}");
        let (bytes, values) = data.split_at(n_blocks * dtype.block_bytes());
        let mut out = vec![0.0; n_blocks * dtype.block_len()];
        decode(dtype, bytes, &mut out).unwrap();
        check_same(dtype.name(), &out, &floats(values));
    }
}

#[test]
fn narrows_as_torch() {
    for dtype in [DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2] {
        let data = golden(&format!("encode_{dtype}"));
        let n = data.len() / (4 + dtype.block_bytes());
        let (values, codes) = data.split_at(4 * n);
        let values = floats(values);
        let mut out = vec![0; codes.len()];
        encode(dtype, &values, &mut out).unwrap();
        let (mut found, mut expected) = (vec![0.0; n], vec![0.0; n]);
        decode(dtype, &out, &mut found).unwrap();
        decode(dtype, codes, &mut expected).unwrap();
        check_same(dtype.name(), &found, &expected);
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }

    fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 24) as f32
    }

    fn gaussian(&mut self, n: usize, scale: f32) -> Vec<f32> {
        let mut one = || (0..12).map(|_| self.uniform()).sum::<f32>() - 6.0;
        (0..n).map(|_| scale * one()).collect()
    }

    /// Any f32 at all, most of them of absurd size, some NaN or infinite.
    fn wild(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| f32::from_bits(self.next() as u32)).collect()
    }
}

fn encoded(level: Level, dtype: DType, values: &[f32]) -> Vec<u8> {
    let mut out = vec![0; dtype.bytes_for(values.len()).unwrap()];
    encode::encode(level, dtype, values, &mut out);
    out
}

fn decoded(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    let mut out = vec![0.0; bytes.len() / dtype.block_bytes() * dtype.block_len()];
    decode(dtype, bytes, &mut out).unwrap();
    out
}

fn round_trip(dtype: DType, values: &[f32]) -> Vec<f32> {
    decoded(dtype, &encoded(Level::detect(), dtype, values))
}

fn encodable(blocks_only: bool) -> impl Iterator<Item = DType> {
    DType::ALL
        .into_iter()
        .filter(move |d| has_encoder(*d) && (d.is_block() || !blocks_only))
}

/// RMS of the difference over the RMS of the values.
fn relative_rmse(found: &[f32], expected: &[f32]) -> f64 {
    let square = |x: f32| x as f64 * x as f64;
    let error: f64 = found.iter().zip(expected).map(|(f, e)| square(f - e)).sum();
    (error / expected.iter().map(|e| square(*e)).sum::<f64>()).sqrt()
}

#[test]
fn every_level_decodes_the_same_bits() {
    let mut random = Random(1);
    for dtype in DType::ALL {
        for n_blocks in [1, 2, 3, 37] {
            let bytes = random.bytes(n_blocks * dtype.block_bytes());
            let mut plain = vec![0.0; n_blocks * dtype.block_len()];
            decode::decode(Level::Plain, dtype, &bytes, &mut plain);
            for level in Level::available() {
                let mut out = vec![f32::NAN; plain.len()];
                decode::decode(level, dtype, &bytes, &mut out);
                check_same(&format!("{dtype} {level:?}"), &out, &plain);
            }
        }
    }
}

/// Integers, scales and offsets of any bytes.
fn integers(level: Level, dtype: DType, bytes: &[u8]) -> (Vec<i8>, Vec<f32>, Vec<f32>) {
    let n = bytes.len() / dtype.block_bytes() * dtype.block_len();
    let groups = n / int8_group(dtype).unwrap();
    let (mut values, mut scales, mut offsets) = (vec![7; n], vec![7.0; groups], vec![0.0; groups]);
    let out = Int8Groups {
        values: &mut values,
        scales: &mut scales,
        offsets: &mut offsets,
    };
    int8::run(level, dtype, bytes, out);
    (values, scales, offsets)
}

#[test]
fn integers_with_scales_and_offsets_are_the_decoded_values() {
    let mut random = Random(4);
    let kinds = DType::ALL.into_iter().filter(|d| int8_group(*d).is_some());
    for dtype in kinds {
        let bytes = random.bytes(37 * dtype.block_bytes());
        let expected = decoded(dtype, &bytes);
        let group = int8_group(dtype).unwrap();
        for level in Level::available() {
            let (values, scales, offsets) = integers(level, dtype, &bytes);
            assert!(int8_has_offset(dtype) || offsets.iter().all(|&o| o == 0.0));
            let found = values.iter().enumerate().map(|(i, &q)| {
                let value = scales[i / group] * q as f32;
                if int8_has_offset(dtype) {
                    value + offsets[i / group]
                } else {
                    value
                }
            });
            let found: Vec<f32> = found.collect();
            check_same(&format!("{dtype} {level:?}"), &found, &expected);
        }
    }
}

#[test]
fn integers_of_other_types_and_lengths_are_errors() {
    let mut values = [0; 256];
    let [mut scales, mut offsets] = [[0.0; 16]; 2];
    let mut tried = |dtype: DType, groups: usize| {
        let bytes = vec![0; dtype.bytes_for(256).unwrap()];
        let out = Int8Groups {
            values: &mut values,
            scales: &mut scales[..groups],
            offsets: &mut offsets[..groups],
        };
        decode_int8(dtype, &bytes, out).is_ok()
    };
    assert!(tried(DType::Q4_K, 8) && tried(DType::Q6_K, 16));
    assert!(!tried(DType::Q4_K, 16) && !tried(DType::Q6_K, 8));
    assert!(!tried(DType::NF4, 8) && !tried(DType::F16, 8));
}

#[test]
fn every_level_encodes_the_same_bytes() {
    let mut random = Random(2);
    for dtype in encodable(false) {
        for n_blocks in [1, 3, 37] {
            let n = n_blocks * dtype.block_len();
            for values in [random.gaussian(n, 0.02), random.wild(n)] {
                let plain = encoded(Level::Plain, dtype, &values);
                for level in Level::available() {
                    assert!(encoded(level, dtype, &values) == plain, "{dtype} {level:?}");
                }
            }
        }
    }
}

#[test]
fn a_block_encodes_alone_as_among_others() {
    let mut random = Random(3);
    for dtype in encodable(true) {
        let values = random.gaussian(19 * dtype.block_len(), 1.0);
        let together = encoded(Level::detect(), dtype, &values);
        let alone: Vec<u8> = values
            .chunks(dtype.block_len())
            .flat_map(|block| encoded(Level::detect(), dtype, block))
            .collect();
        assert!(alone == together, "{dtype}");
    }
}

#[test]
fn halves_agree_with_the_half_crate() {
    for bits in 0..=u16::MAX {
        let (f, b) = (half::f16::from_bits(bits), half::bf16::from_bits(bits));
        check_same("f16", &[crate::f16_to_f32(bits)], &[f.to_f32()]);
        check_same("bf16", &[crate::bf16_to_f32(bits)], &[b.to_f32()]);
        // Every value, every midpoint to the next, and the floats beside it.
        for wide in [f.to_f32(), b.to_f32()] {
            for step in [0, 0x7fff, 0x8000, 0x8001, 0x0fff, 0x1000, 0x1001] {
                let x = f32::from_bits(wide.to_bits().wrapping_add(step));
                let (f, b) = (half::f16::from_f32(x), half::bf16::from_f32(x));
                let ours = (crate::f32_to_f16(x), crate::f32_to_bf16(x));
                if x.is_nan() {
                    assert!(half::f16::from_bits(ours.0).is_nan(), "{x:?}");
                    assert!(half::bf16::from_bits(ours.1).is_nan(), "{x:?}");
                } else {
                    assert_eq!(ours, (f.to_bits(), b.to_bits()), "{x:?}");
                }
            }
        }
    }
}

#[test]
fn fp8_saturates_what_is_finite() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    for (x, e4m3, e5m2) in [
        (449.0, 0x7e, 0x5f),
        (480.0, 0x7e, 0x60),
        (60000.0, 0x7e, 0x7b),
        (f32::MAX, 0x7e, 0x7b),
        (-f32::MAX, 0xfe, 0xfb),
        (inf, 0x7f, 0x7c),
        (-inf, 0xff, 0xfc),
        (nan, 0x7f, 0x7f),
        (-0.0, 0x80, 0x80),
    ] {
        assert_eq!(crate::f32_to_e4m3(x), e4m3, "{x}");
        assert_eq!(crate::f32_to_e5m2(x), e5m2, "{x}");
    }
}

#[test]
fn plain_types_survive_a_round_trip() {
    let mut random = Random(4);
    for dtype in encodable(false).filter(|d| !d.is_block()) {
        let bytes = random.bytes(4096 * dtype.block_bytes());
        let values = decoded(dtype, &bytes);
        check_same(dtype.name(), &round_trip(dtype, &values), &values);
    }
}

/// Relative RMSE on gaussian rows may not pass the second column. ggml's own encoders give the
/// third, on the same distribution.
#[test]
fn block_encoders_are_as_good_as_they_were() {
    let bounds = [
        (DType::Q8_0, 0.00540, 0.00535),
        (DType::Q4_0, 0.0815, 0.0859),
        (DType::Q4_1, 0.0705, 0.0782),
        (DType::Q5_0, 0.0405, 0.0427),
        (DType::Q5_1, 0.0345, 0.0379),
        (DType::Q2_K, 0.262, 0.296),
        (DType::Q3_K, 0.145, 0.151),
        (DType::Q4_K, 0.0708, 0.0714),
        (DType::Q5_K, 0.0350, 0.0361),
        (DType::Q6_K, 0.0174, 0.0178),
    ];
    for scale in [1.0, 0.02, 1e-4, 1e4] {
        let values = Random(5).gaussian(1 << 15, scale);
        for (dtype, bound, _) in bounds {
            let error = relative_rmse(&round_trip(dtype, &values), &values);
            assert!(
                error < bound,
                "{dtype} at scale {scale}: {error:.5}, bound {bound}"
            );
        }
    }
}

/// What a type can hold exactly comes back nearly so.
#[test]
fn block_types_survive_a_round_trip() {
    for dtype in encodable(true) {
        let values = round_trip(dtype, &Random(6).gaussian(1 << 13, 0.05));
        let again = round_trip(dtype, &values);
        let error = relative_rmse(&again, &values);
        let noise = relative_rmse(&values, &Random(6).gaussian(1 << 13, 0.05));
        assert!(
            error < 0.6 * noise,
            "{dtype}: {error:.5}, first time {noise:.5}"
        );
    }
}

#[test]
fn nan_counts_as_zero_and_infinity_as_the_largest() {
    for dtype in encodable(true) {
        let mut values = Random(7).gaussian(512, 1.0);
        values[3] = 0.0;
        values[300] = 0.0;
        let clean = encoded(Level::detect(), dtype, &values);
        values[3] = f32::NAN;
        values[300] = -f32::NAN;
        assert!(encoded(Level::detect(), dtype, &values) == clean, "{dtype}");

        values[5] = f32::INFINITY;
        values[305] = f32::NEG_INFINITY;
        let out = round_trip(dtype, &values);
        assert!(out.iter().all(|v| v.is_finite()), "{dtype}");
        assert!(
            out[5] > 6e4 && out[305] < -6e4,
            "{dtype}: {} {}",
            out[5],
            out[305]
        );
    }
}

#[test]
fn any_values_encode_to_finite_blocks() {
    let mut random = Random(8);
    for dtype in encodable(true) {
        for exponent in [-45, -30, -20, -10, 0, 10, 20, 30, 38] {
            let mut values = random.gaussian(1024, 10f32.powi(exponent));
            values[..512].fill(10f32.powi(exponent));
            let out = round_trip(dtype, &values);
            assert!(out.iter().all(|v| v.is_finite()), "{dtype} 1e{exponent}");
        }
        let out = round_trip(dtype, &random.wild(4096));
        assert!(out.iter().all(|v| v.is_finite()), "{dtype}");
    }
}

#[test]
fn zeros_and_constants_are_kept() {
    for dtype in encodable(true) {
        assert!(
            round_trip(dtype, &[0.0; 256]).iter().all(|v| *v == 0.0),
            "{dtype}"
        );
        for x in [1.0f32, -1.0, 0.3, -250.0] {
            let out = round_trip(dtype, &[x; 256]);
            let worst = out.iter().map(|v| (v - x).abs()).fold(0.0, f32::max);
            assert!(
                worst <= 0.004 * x.abs(),
                "{dtype}: {x} came back off by {worst}"
            );
        }
    }
}

#[test]
fn wrong_lengths_are_errors_with_numbers() {
    let mut out = [0.0; 48];
    let error = decode(DType::Q4_0, &[0; 27], &mut out).unwrap_err();
    assert_eq!(
        error.to_string(),
        "q4_0: 48 values are not whole blocks of 32"
    );
    let error = decode(DType::Q8_0, &[0; 33], &mut out[..32]).unwrap_err();
    assert_eq!(error.to_string(), "q8_0: 32 values take 34 bytes, found 33");
    let error = encode(DType::F16, &out, &mut [0; 95]).unwrap_err();
    assert_eq!(error.to_string(), "f16: 48 values take 96 bytes, found 95");
    let error = encode(DType::IQ4_NL, &out[..32], &mut [0; 18]).unwrap_err();
    assert_eq!(error.to_string(), "iq4_nl can be read but not written");
    assert_eq!(decode(DType::Q6_K, &[], &mut []), Ok(()));
    assert_eq!(encode(DType::Q6_K, &[], &mut []), Ok(()));
}
