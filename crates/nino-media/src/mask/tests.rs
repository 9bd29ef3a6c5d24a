//! Against ComfyUI's masks.

use super::{Mask, Sides, outpaint};
use crate::Picture;
use crate::tests::{apart, golden};

fn mask(name: &str) -> Mask {
    let (shape, values) = golden(name);
    let [.., height, width] = shape[..] else {
        panic!("{name}: {shape:?}")
    };
    Mask {
        width,
        height,
        values,
    }
}

#[test]
fn masks_are_stretched_as_comfyui_does() {
    let whole = mask("mask");
    for (h, w) in [(4, 5), (26, 20)] {
        let error = apart(
            &whole.resized(w, h).values,
            &mask(&format!("mask/{h}x{w}")).values,
        );
        assert!(error < 1e-6, "{h}x{w}: {error}");
    }
}

#[test]
fn masks_grow_as_comfyui_grows_them() {
    let spots = mask("pixels/mask");
    for by in [1, 5, 6] {
        assert_eq!(
            spots.clone().grown(by),
            mask(&format!("grown/{by}")),
            "by {by}"
        );
    }
    assert_eq!(spots.clone().grown(0), spots);
    assert_eq!(spots.rounded(), mask("grown/0"));
}

#[test]
fn outpainting_pads_and_feathers_as_comfyui_does() {
    let (shape, values) = golden("pixels");
    let picture = Picture::from_unit(shape[2], shape[1], &values);
    let add = Sides {
        left: 8,
        top: 0,
        right: 16,
        bottom: 8,
    };
    let (padded, found) = outpaint(&picture, add, 5);
    let expected = mask("outpaint/mask");
    assert!(apart(&found.values, &expected.values) < 1e-6);
    let (_, values) = golden("outpaint/picture");
    let expected = Picture::from_unit(40, 32, &values);
    assert_eq!((padded.width, padded.height), (40, 32));
    let pairs = padded.rgb.iter().zip(&expected.rgb);
    let most = pairs.map(|(a, b)| a.abs_diff(*b)).max();
    // The gray is 127.5, a byte either side.
    assert!(most <= Some(1), "{most:?}");
}

#[test]
fn a_feathered_border_is_soft_and_the_inside_stays() {
    let mut hard = Mask {
        width: 40,
        height: 40,
        values: vec![0.0; 1600],
    };
    for y in 0..40 {
        hard.values[y * 40 + 20..(y + 1) * 40].fill(1.0);
    }
    let soft = hard.clone().feathered(4);
    let row = &soft.values[..40];
    assert!(row.windows(2).all(|w| w[0] <= w[1] + 1e-6));
    assert!((row[19] + row[20] - 1.0).abs() < 1e-5);
    assert!(row[0] == 0.0 && row[39] > 0.9999 && row[19] > 0.2 && row[20] < 0.8);
    assert!(hard.feathered(0).values[19] == 0.0);
}

/// A frame of a clip is as bright a mask as the same picture in a file.
#[test]
fn colors_of_a_frame_count_by_their_brightness() {
    let frame = Picture {
        width: 4,
        height: 1,
        rgb: vec![255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255],
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mask.png");
    let image = image::RgbImage::from_raw(4, 1, frame.rgb.clone()).unwrap();
    image.save(&path).unwrap();
    let file = crate::load_mask(&path, &crate::Limits::default()).unwrap();
    let found = frame.bright();
    assert_eq!(found.values, file.values);
    assert!(found.values[1] > found.values[0] && found.values[3] > 0.999);
}
