//! Which layer is read.

use crate::{Family, clip};

#[test]
fn clip_skip_counts_layers_the_file_may_lack() {
    let layer = |family: Family, n_layers, skip| {
        let c = clip::Config {
            n_layers,
            ..clip::Config::clip_h()
        };
        family.want(&c, skip).skip
    };
    assert_eq!(layer(Family::Sd2, 24, None), 2);
    assert_eq!(layer(Family::Sd2, 23, None), 1);
    assert_eq!(layer(Family::Sd2, 23, Some(3)), 2);
    assert_eq!(layer(Family::Sd2, 23, Some(24)), 23);
    assert_eq!(layer(Family::Sd1, 12, Some(13)), 1);
    assert_eq!(layer(Family::Sdxl, 12, Some(13)), 2);
}
