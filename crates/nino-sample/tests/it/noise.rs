//! Noise: torch's bits, torchsde's paths, Philox's published vector.

use nino_sample::noise::{initial, initial_at};
use nino_sample::rng::{Philox, TorchCpu};
use nino_sample::{BrownianTree, Error, Rng, Seed};

use crate::golden::{error, read};

fn bits(v: &[f32]) -> Vec<u32> {
    v.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn randn_is_torch_bit_for_bit() {
    let golden = read("noise");
    let mut bad = Vec::new();
    for (name, expected) in &golden {
        let seed = match name.split_once('/') {
            Some(("randn", _)) => 42,
            Some(("seed", seed)) => seed.parse().unwrap(),
            _ => continue,
        };
        if bits(&initial(Seed::new(seed), expected.len())) != bits(expected) {
            bad.push(name);
        }
    }
    assert!(bad.is_empty(), "differ: {bad:?}");
}

#[test]
fn a_million_values_have_torchs_checksum() {
    let values = initial(Seed::new(99), 1 << 20);
    let sum = values
        .iter()
        .zip(1u32..)
        .fold(0, |sum, (v, i)| sum ^ v.to_bits().wrapping_mul(i));
    let expected = &read("noise")["million"];
    assert_eq!(
        [(sum & 0x00ff_ffff) as f32, (sum >> 24) as f32],
        expected[..]
    );
}

#[test]
fn calls_share_a_stream_as_torchs_do() {
    let mut generator = TorchCpu::new(7);
    let mut found = Vec::new();
    for n in [3, 20, 2, 16, 1] {
        let mut part = vec![0.0; n];
        generator.randn(&mut part);
        found.extend(part);
    }
    assert_eq!(bits(&found), bits(&read("noise")["calls"]));
}

#[test]
fn batches_and_their_indices_follow_comfyui() {
    let golden = read("noise");
    assert_eq!(bits(&initial(Seed::new(5), 36)), bits(&golden["batch"]));
    let picked = initial_at(Seed::new(5), 18, &[3, 1, 3]).unwrap();
    assert_eq!(bits(&picked), bits(&golden["batch_index"]));
    assert!(matches!(
        initial_at(Seed::new(5), 18, &[1 << 40]),
        Err(Error::BatchIndex { index, .. }) if index == 1 << 40
    ));
    assert!(initial_at(Seed::new(5), 18, &[]).unwrap().is_empty());
}

#[test]
fn brownian_paths_are_torchsdes() {
    let golden = read("noise");
    let spans = [
        (14.6146, 9.1),
        (14.6146, 4.77),
        (9.1, 4.77),
        (4.77, 0.5),
        (0.5, 0.0292),
        (0.03, 0.0292),
    ];
    for (name, n) in [("small", 8), ("large", 40)] {
        let expected = &golden[&format!("brownian/{name}")];
        // In either order: a path does not depend on what was asked before.
        for reversed in [false, true] {
            let mut tree = BrownianTree::new((1 << 40) + 3, Rng::Torch, 0.0292, 14.6146, n);
            let mut order: Vec<usize> = (0..spans.len()).collect();
            if reversed {
                order.reverse();
            }
            for i in order {
                let mut found = vec![0.0; n];
                tree.noise(spans[i].0, spans[i].1, &mut found);
                let e = error(&found, &expected[i * n..][..n]);
                assert!(e < 1e-6, "{name}, span {:?}: {e:e}", spans[i]);
            }
        }
    }
}

/// Known answers of Random123 (counter and key zero), turned into normals as cuRAND does, and the
/// layout of CUDA's grid: counter word 2 is the thread, word 0 the call.
#[test]
fn philox_follows_random123_and_cudas_grid() {
    let normal = |x: u32, y: u32| {
        let u = f64::from(x) / 4_294_967_296.0 + 0.5 / 4_294_967_296.0;
        let v = (f64::from(y) + 0.5) / 4_294_967_296.0 * std::f64::consts::TAU;
        let radius = (-2.0 * u.ln()).sqrt();
        ((radius * v.sin()) as f32, (radius * v.cos()) as f32)
    };
    let zero = [0x6627_e8d5_u32, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8];
    let mut one = [0.0];
    Philox::new(0).randn(&mut one);
    assert!((one[0] - normal(zero[0], zero[1]).0).abs() < 2e-6);

    // On a grid of 256 threads, one thread's four lanes lie 256 apart.
    let mut four = vec![0.0; 1024];
    Philox::with_threads(0, 256).randn(&mut four);
    let (a, b) = (normal(zero[0], zero[1]), normal(zero[2], zero[3]));
    for (i, expected) in [a.0, a.1, b.0, b.1].into_iter().enumerate() {
        assert!((four[i * 256] - expected).abs() < 2e-6, "lane {i}");
    }

    // The second call starts one counter later, so a thread's fifth value equals it.
    let mut generator = Philox::with_threads(0, 256);
    let (mut first, mut second, mut long) = (vec![0.0; 256], vec![0.0; 256], vec![0.0; 1280]);
    generator.randn(&mut first);
    generator.randn(&mut second);
    Philox::with_threads(0, 256).randn(&mut long);
    assert_eq!(second, long[1024..]);
}

/// The values A1111's implementation documents for `torch.randn((3, 4))` on CUDA with seed 0.
#[test]
fn philox_gives_the_published_normals() {
    let published = [
        -0.924_662_6,
        -0.425_344_15,
        -2.643_845_7,
        0.145_183_88,
        -0.120_866_47,
        -0.579_725_6,
        -0.622_851_2,
        -0.328_387_1,
        -1.074_542_3,
        -0.363_144_07,
        -1.671_050_7,
        2.265_505,
    ];
    let found = initial(
        Seed {
            value: 0,
            rng: Rng::Philox,
        },
        12,
    );
    let e = error(&found, &published);
    assert!(e < 1e-7, "{e:e}: {found:?}");
}

#[test]
fn normals_look_normal() {
    for rng in [Rng::Torch, Rng::Philox] {
        let n = 100_000;
        let v = initial(Seed { value: 11, rng }, n);
        let mean = v.iter().map(|&v| f64::from(v)).sum::<f64>() / n as f64;
        let var = v.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / n as f64;
        assert!(
            mean.abs() < 0.02 && (var - 1.0).abs() < 0.03,
            "{rng:?}: {mean} {var}"
        );
        assert_eq!(Rng::parse(rng.name()), Some(rng));
    }
}

/// Written by `goldens/sample/philox.py` on a card.
#[test]
fn philox_gives_what_a_card_gives() {
    let golden = include_str!("../../../../goldens/sample/philox.txt");
    let mut generator = Philox::new(0);
    for line in golden.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let n = match words[0] {
            "then" => words[1].parse().unwrap(),
            n => {
                generator = Philox::new(words[1].parse().unwrap());
                n.parse().unwrap()
            }
        };
        let mut drawn = vec![0.0f32; n];
        generator.randn(&mut drawn);
        let at: usize = words[2].parse().unwrap();
        for (i, word) in words[3..].iter().enumerate() {
            let (want, got): (f32, f32) = (word.parse().unwrap(), drawn[at + i]);
            assert!((got - want).abs() < 3e-6, "{line}: value {i} is {got}");
        }
    }
}
