//! Shapes of the graphs of every built-in autoencoder, and the sizes it refuses.

use super::*;
use crate::{Network, describe};
use nino_graph::{Limits, Plan, Rewrites, rewrite};

const F16: Storage = Storage {
    activations: DType::F16,
    weights: &|_| DType::F16,
    scale: kl::Scale { shift: 0 },
};

fn chunk(frames: usize, height: usize, width: usize, first: bool) -> Chunk {
    Chunk {
        batch: 1,
        frames,
        height,
        width,
        first,
        at_once: Frames::Apart,
    }
}

#[test]
fn every_spec_records_both_ways() {
    for name in SPECS {
        let vae = Vae::spec(name).unwrap();
        let (s, z) = (vae.scale(), vae.latent_channels());
        let firsts = if vae.time_scale().is_some() {
            vec![(true, 2), (false, 2)]
        } else {
            vec![(true, 1)]
        };
        for (first, t) in firsts {
            let r = vae.decode(chunk(t, 2, 3, first), &F16).unwrap();
            let out = r.graph.shape(r.output);
            assert_eq!(out[out.rank() - 3..], [2 * s, 3 * s, 3], "{name}");
            let frames = match vae.time_scale() {
                Some(n) => n * t - if first { n - 1 } else { 0 },
                None => 1,
            };
            if vae.time_scale().is_some() {
                assert_eq!(out[1], frames, "{name}");
            }
            if first {
                assert_eq!(vae.n_frames(t), frames, "{name}");
            }
            let frames = match vae {
                Vae::Taehv(_) => 8,
                _ => frames,
            };
            let r = vae
                .encode(chunk(frames, 2 * s, 3 * s, first), &F16)
                .unwrap();
            let out = r.graph.shape(r.output);
            assert_eq!(out[out.rank() - 3..], [2, 3, z], "{name}");
        }
    }
    assert!(Vae::spec("sd-vea").is_none());
}

#[test]
fn a_described_spec_is_detected_again() {
    for name in SPECS {
        let vae = Vae::spec(name).unwrap();
        let tensors = describe::tensors(&Network::Vae(vae.clone())).unwrap();
        let find = |name: &str| {
            let tensor = tensors.iter().find(|t| t.name == name)?;
            Some((Shape::new(&tensor.shape), DType::F16))
        };
        assert_eq!(Vae::detect(&find).as_ref(), Some(&vae), "{name}");
    }
}

#[test]
fn bad_sizes_are_errors() {
    let sd = Vae::spec("sd-vae").unwrap();
    let wan = Vae::spec("wan21-vae").unwrap();
    let text = |r: Result<Recording, VaeError>| r.map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        text(sd.encode(chunk(1, 63, 64, true), &F16)),
        "height is 63; it must be a positive multiple of 8"
    );
    assert_eq!(
        text(sd.decode(chunk(1, 0, 64, true), &F16)),
        "height is 0; it must be a positive multiple of 1"
    );
    assert_eq!(
        text(sd.decode(chunk(2, 8, 8, true), &F16)),
        "2 frames given; an image has one"
    );
    assert_eq!(
        text(wan.decode(chunk(0, 8, 8, true), &F16)),
        "0 frames given; at least one is needed"
    );
    assert_eq!(
        text(wan.encode(chunk(4, 64, 64, true), &F16)),
        "4 frames given; this chunk takes a multiple of 4 and 1 more"
    );
    let huge = chunk(1, 1 << 40, 1 << 40, true);
    assert!(matches!(sd.decode(huge, &F16), Err(VaeError::Graph(_))));
}

#[test]
fn plans_of_full_size() {
    // SD at 1024² in f16 fits 1.25 GiB with its weights; Wan by frame needs the same for any clip.
    let peak = |r: Recording| {
        let plan = Plan::new(rewrite(&r.graph, Rewrites::ALL), &Limits::default()).unwrap();
        (plan.arena_bytes() + plan.weight_bytes()) as f64 / f64::from(1 << 30)
    };
    let sd = Vae::spec("sd-vae").unwrap();
    let sd = peak(sd.decode(chunk(1, 128, 128, true), &F16).unwrap());
    println!("SD 1024² f16: {sd:.2} GiB");
    assert!(sd < 1.25, "{sd:.2} GiB");
    let wan = Vae::spec("wan21-vae").unwrap();
    let wan = peak(wan.decode(chunk(1, 60, 104, false), &F16).unwrap());
    println!("Wan 2.1 480x832 f16, one latent frame: {wan:.2} GiB");
    assert!(wan < 3.0, "{wan:.2} GiB");
}
