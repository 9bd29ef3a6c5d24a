//! What an inpaint model sees, against ComfyUI.

use super::unit;
use crate::conditioning::{BLANK, interleaved};
use crate::tests::{close, golden};
use crate::{Latent, Mask, Picture, Upscale};
use std::path::Path;

/// The golden's stand-in for a VAE: the mean of every square of eight, and the first channel
/// doubled.
fn encode(values: &[f32], width: usize, height: usize) -> Latent {
    let (w, h) = (width / 8, height / 8);
    let mut planes = vec![0.0; 4 * w * h];
    for (at, &v) in values.iter().enumerate() {
        let (c, x, y) = (at % 3, at / 3 % width, at / 3 / width);
        planes[(c * h + y / 8) * w + x / 8] += v / 64.0;
    }
    for i in 0..w * h {
        planes[3 * w * h + i] = planes[i] * 2.0;
    }
    Latent::from_planes(&[1, 4, h, w], &planes, Path::new("made up")).unwrap()
}

fn inputs() -> (Picture, Mask) {
    let nodes = golden("image/nodes");
    let (_, pixels) = nodes.tensor("pixels");
    let (_, values) = nodes.tensor("pixels/mask");
    let mask = Mask {
        width: 16,
        height: 24,
        values,
    };
    (Picture::from_unit(16, 24, &pixels), mask)
}

#[test]
fn the_masked_part_is_grayed_as_comfyui_does() {
    let (picture, mask) = inputs();
    let found = unit(&picture, Some(&mask.rounded()));
    let (_, expected) = golden("image/nodes").tensor("blank/pixels");
    // The picture has bytes where the golden has floats.
    assert!(close(&found, &expected) <= 1.0 / 255.0);
    let gray = |v: &[f32]| v.iter().filter(|v| (*v - 0.5).abs() < 1e-7).count();
    assert_eq!(gray(&found), gray(&expected));
}

#[test]
fn an_inpaint_unet_is_told_what_comfyui_tells_it() {
    let (picture, mask) = inputs();
    let masked = encode(&unit(&picture, Some(&mask.clone().rounded())), 16, 24);
    let found = interleaved(&mask.resized(2, 3).rounded(), &masked);
    let expected = golden("image/nodes").latent("concat");
    assert!(
        close(&found, &expected.values) <= 2.0 / 255.0,
        "{found:?} {expected:?}"
    );
    let none = golden("image/nodes").latent("concat/none");
    assert_eq!(
        none.values[..5],
        [1.0, BLANK[0], BLANK[1], BLANK[2], BLANK[3]]
    );
}

#[test]
fn latents_are_enlarged_as_comfyui_does() {
    let nodes = golden("image/nodes");
    let latent = nodes.latent("latent");
    let mut worst = Vec::new();
    for how in Upscale::ALL {
        for (h, w) in [(10, 12), (8, 9), (3, 4), (7, 6)] {
            let expected: Latent = nodes.latent(&format!("upscale/{}/{h}x{w}", how.name()));
            let found = latent.resized(h, w, how);
            assert_eq!(
                (found.height, found.width),
                (expected.height, expected.width)
            );
            let error = close(&found.values, &expected.values);
            if error > 2e-6 {
                worst.push(format!("{} {h}x{w}: {error:.1e}", how.name()));
            }
        }
    }
    assert!(worst.is_empty(), "{worst:?}");
}
