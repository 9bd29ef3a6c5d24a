//! What models are told of sizes, and conditioning that does not fit.

use super::{Conditioning, SizeHint};
use nino_models::Family;
use std::sync::Arc;

#[test]
fn sizes_are_told_in_their_order() {
    let hint = SizeHint {
        original: Some((1, 2)),
        crop: (3, 4),
        target: Some((5, 6)),
        score: None,
    };
    let check = |family, size: SizeHint, expected: &[f32]| {
        let prompt = Conditioning::default().with_size(size);
        let found = prompt.label(family, (7, 8), true, nino_sample::Seed::new(0));
        assert_eq!(found.len(), 256 * expected.len());
        // The first of a number's 256 is its cosine.
        for (found, expected) in found.chunks_exact(256).zip(expected) {
            assert!((found[0] - expected.cos()).abs() < 1e-6, "{expected}");
        }
    };
    check(Family::Sdxl, hint, &[2.0, 1.0, 4.0, 3.0, 6.0, 5.0]);
    check(Family::SdxlRefiner, hint, &[2.0, 1.0, 4.0, 3.0, 2.5]);
    let plain = SizeHint::default();
    check(Family::Sdxl, plain, &[8.0, 7.0, 0.0, 0.0, 8.0, 7.0]);
    check(Family::Sd1, plain, &[]);
}

#[test]
fn conditioning_of_another_width_is_refused_with_the_numbers() {
    let prompt = Conditioning {
        context: Arc::new(vec![0.0; 2 * 768]),
        width: 768,
        ..Conditioning::default()
    };
    prompt.check(Family::Sd1, 768, None).unwrap();
    let error = prompt
        .check(Family::Sd2, 1024, None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("1024") && error.contains("768"), "{error}");
    let mut bad = prompt.clone();
    Arc::make_mut(&mut bad.context)[3] = f32::NAN;
    let error = bad.check(Family::Sd1, 768, None).unwrap_err().to_string();
    assert!(error.contains("1 of 1536"), "{error}");
}
