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
