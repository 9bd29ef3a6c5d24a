//! Commands whose pictures and latents stay the same to the byte, whatever is redesigned behind
//! them.
//!
//! Sums are rounded differently by other vector widths, so the hashes hold for CPUs with AVX-512;
//! on others the test says so and ends.

use sha2::{Digest, Sha256};
use std::path::Path;
use std::process::Command;

/// Arguments, and the first half of the SHA-256 of what they make: compressed pixels of every
/// picture, then the values of the latent.
const COMMANDS: [(&[&str], &str); 9] = [
    (
        &["a smiling sun", "--seed", "7", "--steps", "4"],
        "4ba84acef3ba7539fe4adfcaef2b47d6",
    ),
    (
        &[
            "a red fox",
            "--seed",
            "3",
            "--size",
            "128x192",
            "--steps",
            "5",
            "--sampler",
            "dpmpp_2m",
            "--scheduler",
            "karras",
        ],
        "8c1f38b3901747ab8f0a1fe344d4fcc7",
    ),
    (
        &[
            "(a blue whale:1.3) on [yellow]",
            "--negative",
            "blurry",
            "--seed",
            "11",
            "--size",
            "128x128",
            "--steps",
            "4",
            "--cfg",
            "5",
            "--sampler",
            "euler_ancestral",
        ],
        "d4abe29333851936a430fddfed1bf6e4",
    ),
    (
        &[
            "a castle", "--seed", "1", "--size", "128x128", "--steps", "3", "--batch", "2",
        ],
        "47a238609eeb3d1fac67c605a73d8933",
    ),
    (
        &[
            "a frog",
            "--seed",
            "5",
            "--size",
            "64x64",
            "--steps",
            "3",
            "--hires",
            "2x",
            "--hires-steps",
            "2",
        ],
        "cba15f00064a7f571152654263e050bd",
    ),
    (
        &[
            "a pizza", "--seed", "9", "--size", "128x128", "--steps", "4", "--budget", "120MiB",
        ],
        "a86934a8588cb7e45f73229ebd445c9b",
    ),
    (
        &[
            "an apple",
            "--seed",
            "2",
            "--size",
            "64x64",
            "--steps",
            "4",
            "--sampler",
            "uni_pc",
            "--rng",
            "philox",
        ],
        "57045b8dd7f1ea38a26fc46b6606761c",
    ),
    (
        &[
            "a sun",
            "--seed",
            "4",
            "--size",
            "64x64",
            "--steps",
            "6",
            "--start-at-step",
            "0",
            "--end-at-step",
            "3",
            "--return-with-leftover-noise",
        ],
        "2396949dd140e2b7bbe07e94e1deb064",
    ),
    (
        &[
            "a dragon",
            "--seed",
            "8",
            "--size",
            "64x64",
            "--steps",
            "3",
            "--cfg",
            "1",
            "--sampler",
            "dpmpp_sde",
        ],
        "2a102039457535ba446716985fec0b33",
    ),
];

#[test]
fn pictures_and_latents_are_the_bytes_they_were() {
    if !has_avx512() {
        println!("skipped: the hashes are of a CPU with AVX-512");
        return;
    }
    let mut wrong = Vec::new();
    for (args, expected) in COMMANDS {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new(env!("CARGO_BIN_EXE_nino"))
            .arg("generate")
            .args(args)
            .args(["--device", "cpu", "-q", "-o", "o.png"])
            .args(["--save-latent", "l.safetensors"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{args:?}: {made:?}");
        let found = hash(folder.path());
        if found != expected {
            wrong.push(format!("{args:?}: {found} instead of {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    std::is_x86_feature_detected!("avx512f")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512() -> bool {
    false
}

/// Of the pictures in order of their names, then of the latent.
fn hash(folder: &Path) -> String {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    names.sort_by_key(|path| (path.extension() != Some("png".as_ref()), path.clone()));
    let mut hash = Sha256::new();
    for path in names {
        let bytes = std::fs::read(&path).unwrap();
        if path.extension() == Some("png".as_ref()) {
            hash.update(compressed_pixels(&bytes));
        } else {
            // Behind the header, whose metadata may change.
            let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            hash.update(&bytes[8 + header..]);
        }
    }
    let digest = hash.finalize();
    let hex: Vec<String> = digest.iter().take(16).map(|b| format!("{b:02x}")).collect();
    hex.concat()
}

/// The `IDAT` chunks of a PNG.
fn compressed_pixels(png: &[u8]) -> Vec<u8> {
    let (mut at, mut pixels) = (8, Vec::new());
    while at < png.len() {
        let n = u32::from_be_bytes(png[at..at + 4].try_into().unwrap()) as usize;
        if &png[at + 4..at + 8] == b"IDAT" {
            pixels.extend_from_slice(&png[at + 8..at + 8 + n]);
        }
        at += 12 + n;
    }
    pixels
}
