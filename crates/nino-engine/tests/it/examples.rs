//! The examples run: what they show a reader is what the engine does.

#![allow(dead_code, unreachable_pub)] // their `main`s, and what those call

use super::{cpu, store, with_control};
use nino_engine::media::{Limits, load_picture};
use nino_engine::{DecodeOptions, Image, Latent, LatentSize, VaeFile, decode_images};

#[path = "../../examples/decode_from_memory.rs"]
mod decode_from_memory;
#[path = "../../examples/text_to_image.rs"]
mod text_to_image;
#[path = "../../examples/two_requests.rs"]
mod two_requests;

#[test]
fn text_to_image_by_stages_makes_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sun.png");
    text_to_image::text_to_image(
        "a smiling sun",
        &super::root().join("models/nino-emoji.gguf"),
        &path,
    )
    .unwrap();
    let picture = load_picture(&path, &Limits::default()).unwrap();
    assert_eq!((picture.width, picture.height), (256, 256));
    let (least, most) = (picture.rgb.iter().min(), picture.rgb.iter().max());
    assert!(least < Some(&64) && most > Some(&192), "{least:?} {most:?}");
}

#[test]
fn two_requests_share_a_model_and_a_third_is_stopped() {
    let (pictures, stopped_at) = two_requests::two_requests().unwrap();
    assert_eq!(pictures.len(), 2);
    assert_ne!(pictures[0], pictures[1]);
    assert_eq!(stopped_at, 2);
}

/// The built-in model's VAE, out of memory and out of its file: the same values.
#[test]
fn a_vae_in_memory_decodes_like_its_file() {
    let path = super::root().join("models/nino-emoji.gguf");
    let values = (0..4 * 8 * 8).map(|i| (i as f32 * 0.7).sin()).collect();
    let latent = Latent {
        values,
        ..Latent::empty(1, 4, LatentSize::picture(8, 8))
    };
    let tensors = decode_from_memory::tensors_of(&path).unwrap();
    let found = decode_from_memory::decode_from_memory("nino-emoji", tensors, &latent).unwrap();
    let vae = VaeFile::open(&path).unwrap();
    let (expected, _) = with_control(|c| {
        let options = DecodeOptions::default();
        decode_images(&store(cpu()), &vae, &latent, &options, c)
    });
    let expected: Vec<Image> = expected.unwrap().0;
    assert!(expected == [found], "other values");
}
