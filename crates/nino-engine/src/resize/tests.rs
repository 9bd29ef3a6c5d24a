//! Against torch's and ComfyUI's numbers.

use super::Upscale;
use crate::Latent;
use crate::tests::{close, golden};

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
