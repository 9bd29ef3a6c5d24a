//! What SDXL is told of sizes, and which layer is read.

use super::{Family, Told, sizes, wanted};
use nino_models::clip;

#[test]
fn sizes_are_told_in_their_order() {
    let told = Told {
        original: Some((1, 2)),
        crop: (3, 4),
        target: Some((5, 6)),
    };
    let check = |family, told: &Told, expected: &[f32]| {
        let found = sizes(family, told, (7, 8), true);
        assert_eq!(found.len(), 256 * expected.len());
        // The first of a number's 256 is its cosine.
        for (found, expected) in found.chunks_exact(256).zip(expected) {
            assert!((found[0] - expected.cos()).abs() < 1e-6, "{expected}");
        }
    };
    check(Family::Sdxl, &told, &[2.0, 1.0, 4.0, 3.0, 6.0, 5.0]);
    check(Family::SdxlRefiner, &told, &[2.0, 1.0, 4.0, 3.0, 2.5]);
    let plain = Told::default();
    check(Family::Sdxl, &plain, &[8.0, 7.0, 0.0, 0.0, 8.0, 7.0]);
    check(Family::Sd1, &plain, &[]);
}

#[test]
fn clip_skip_counts_layers_the_file_may_lack() {
    let layer = |family, n_layers, skip| {
        let c = clip::Config {
            n_layers,
            ..clip::Config::clip_h()
        };
        wanted(family, &c, skip).skip
    };
    assert_eq!(layer(Family::Sd2, 24, None), 2);
    assert_eq!(layer(Family::Sd2, 23, None), 1);
    assert_eq!(layer(Family::Sd2, 23, Some(3)), 2);
    assert_eq!(layer(Family::Sd2, 23, Some(24)), 23);
    assert_eq!(layer(Family::Sd1, 12, Some(13)), 1);
    assert_eq!(layer(Family::Sdxl, 12, Some(13)), 2);
}
