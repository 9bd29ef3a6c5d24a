//! Against torch's and ComfyUI's numbers.

use super::{Upscale, resize};
use crate::tests::{apart, golden};

/// The first of a batch of planes, `[b, c, h, w]`, as `[h, w, c]`.
fn image(name: &str) -> ((usize, usize, usize), Vec<f32>) {
    let (shape, planes) = golden(name);
    let [_, c, h, w] = shape[..] else {
        panic!("{name}: {shape:?}")
    };
    let value = |i: usize| planes[i % c * h * w + i / c];
    ((h, w, c), (0..h * w * c).map(value).collect())
}

#[test]
fn every_way_of_resizing_is_comfyuis() {
    let (size, values) = image("latent");
    let mut worst = Vec::new();
    for how in Upscale::ALL {
        for (h, w) in [(10, 12), (8, 9), (3, 4), (7, 6)] {
            let name = format!("upscale/{}/{h}x{w}", how.name());
            let error = apart(&resize(&values, size, (h, w), how), &image(&name).1);
            if error > 2e-6 {
                worst.push(format!("{name}: {error:.1e}"));
            }
        }
    }
    assert!(worst.is_empty(), "{worst:?}");
}
