//! What CLIP is given of a picture.

use super::{Square, normalized};
use crate::Image;
use nino_models::clip_vision::{MEAN, STD, Tower};

#[test]
fn a_picture_is_scaled_cut_and_rounded_to_bytes() {
    let image = Image {
        width: 8,
        height: 4,
        values: (0..8 * 4 * 3).map(|i| (i / 3 % 8) as f32 / 7.0).collect(),
    };
    let cut = normalized(&image, 4, Square::Cut, Tower::Clip);
    assert_eq!(cut.len(), 4 * 4 * 3);
    // Columns 2 to 5 are the middle, and are not resized.
    for (i, v) in cut.iter().enumerate() {
        let (column, c) = (i / 3 % 4 + 2, i % 3);
        let byte = (column as f32 / 7.0 * 255.0).round_ties_even() / 255.0;
        assert!((v - (byte - MEAN[c]) / STD[c]).abs() < 1e-6, "{i}");
    }
    let whole = normalized(&image, 4, Square::Stretch, Tower::Clip);
    assert!(whole[0] < cut[0] && whole[9] > cut[9]);
}

/// Torch's antialiased bicubic filter.
#[test]
fn a_picture_is_scaled_as_in_comfyui() {
    let path = crate::tests::made::goldens().join("tiny_wan.safetensors");
    let golden = nino_weights::open(path).unwrap();
    let read = |name: &str| {
        let entry = golden.entry(name).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        golden.read_f32(entry, &mut values).unwrap();
        values
    };
    let image = Image {
        width: 56,
        height: 40,
        values: read("image/start"),
    };
    let pixels = normalized(&image, 224, Square::Cut, Tower::Clip);
    let wanted = read("pixels");
    let found: Vec<f32> = pixels.into_iter().step_by(13).collect();
    assert_eq!(found.len(), wanted.len());
    // A value between two bytes may be rounded to the other one.
    let byte = 1.0 / 255.0 / 0.26;
    let other = found
        .iter()
        .zip(&wanted)
        .filter(|(f, w)| (*f - *w).abs() > 1e-5);
    let other: Vec<f32> = other.map(|(f, w)| (f - w).abs()).collect();
    assert!(
        other.len() < 10 && other.iter().all(|&d| d < 1.01 * byte),
        "{other:?}"
    );
}
