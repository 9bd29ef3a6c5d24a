//! TAESD and TAEHV: lists of numbered layers.

use super::{Need, Spec};

const W: usize = 64;

/// `z` latent channels; the 32-channel one for Flux.2 has normalized blocks next to the latent.
pub(in crate::detect) fn taesd(z: usize) -> Spec {
    let mut s = Spec::default();
    let pooled = z == 32;
    s.need(Need::Encoder);
    s.conv2d("encoder.0", W, 3, 3);
    block(&mut s, "encoder.1", false);
    for level in 0..3 {
        let first = 2 + 4 * level;
        s.weight(&format!("encoder.{first}"), &[W, W, 3, 3]);
        for i in 1..4 {
            block(
                &mut s,
                &format!("encoder.{}", first + i),
                pooled && level == 2,
            );
        }
    }
    s.conv2d("encoder.14", z, W, 3);
    s.need(Need::Decoder);
    s.conv2d("decoder.1", W, z, 3);
    for level in 0..3 {
        let first = 3 + 5 * level;
        for i in 0..3 {
            block(
                &mut s,
                &format!("decoder.{}", first + i),
                pooled && level == 0,
            );
        }
        s.weight(&format!("decoder.{}", first + 4), &[W, W, 3, 3]);
    }
    block(&mut s, "decoder.18", false);
    s.conv2d("decoder.19", 3, W, 3);
    s
}

fn block(s: &mut Spec, name: &str, pooled: bool) {
    for i in [0, 2, 4] {
        s.conv2d(&format!("{name}.conv.{i}"), W, W, 3);
    }
    if pooled {
        s.weight(&format!("{name}.pool.0"), &[4 * W, W, 1, 1]);
        s.norm(&format!("{name}.pool.1"), 4 * W);
        s.weight(&format!("{name}.pool.3"), &[W, 4 * W, 1, 1]);
    }
}

/// `z` latent channels, pixels in `patch` x `patch` patches; time is halved twice and doubled twice.
pub(in crate::detect) fn taehv(z: usize, patch: usize) -> Spec {
    let mut s = Spec::default();
    let pixels = 3 * patch * patch;
    s.need(Need::Encoder);
    s.conv2d("encoder.0", W, pixels, 3);
    for (level, stride) in [2, 2, 1].into_iter().enumerate() {
        let first = 2 + 5 * level;
        s.weight(&format!("encoder.{first}.conv"), &[W, W * stride, 1, 1]);
        s.weight(&format!("encoder.{}", first + 1), &[W, W, 3, 3]);
        for i in 2..5 {
            memory(&mut s, &format!("encoder.{}", first + i), W);
        }
    }
    s.conv2d("encoder.17", z, W, 3);
    s.need(Need::Decoder);
    let widths = [256, 128, 64, 64];
    s.conv2d("decoder.1", widths[0], z, 3);
    for (level, stride) in [1, 2, 2].into_iter().enumerate() {
        let (first, w) = (3 + 6 * level, widths[level]);
        for i in 0..3 {
            memory(&mut s, &format!("decoder.{}", first + i), w);
        }
        s.weight(
            &format!("decoder.{}.conv", first + 4),
            &[w * stride, w, 1, 1],
        );
        s.weight(
            &format!("decoder.{}", first + 5),
            &[widths[level + 1], w, 3, 3],
        );
    }
    s.conv2d("decoder.22", pixels, widths[3], 3);
    s
}

/// A block that also sees the frame before.
fn memory(s: &mut Spec, name: &str, w: usize) {
    s.conv2d(&format!("{name}.conv.0"), w, 2 * w, 3);
    s.conv2d(&format!("{name}.conv.2"), w, w, 3);
    s.conv2d(&format!("{name}.conv.4"), w, w, 3);
}
