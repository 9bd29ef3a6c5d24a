//! Turning, narrowing and gray against the `image` crate, which does the same with more memory.

use super::{Raw, luma, narrow};
use crate::Limits;
use crate::limits::Guard;
use image::metadata::Orientation;
use image::{DynamicImage, RgbImage};
use std::path::Path;

#[test]
fn turned_as_the_image_crate_turns() {
    let values: Vec<u8> = (0..5 * 3 * 3).collect();
    let limits = Limits::default();
    let guard = Guard {
        path: Path::new("a"),
        format: "PNG",
        file_bytes: 1,
        limits: &limits,
    };
    for exif in 1..=8 {
        let orientation = Orientation::from_exif(exif).unwrap();
        let raw = Raw {
            width: 5,
            height: 3,
            channels: 3,
            values: values.clone(),
        };
        let found = raw.turned(orientation, guard).unwrap();
        let image = RgbImage::from_raw(5, 3, values.clone()).unwrap();
        let mut image = DynamicImage::ImageRgb8(image);
        image.apply_orientation(orientation);
        let size = (image.width() as usize, image.height() as usize);
        assert_eq!((found.width, found.height), size, "{exif}");
        assert_eq!(found.values, image.as_bytes(), "{exif}");
    }
}

#[test]
fn narrowed_and_grayed_as_the_image_crate_does() {
    let wide: Vec<u16> = (0..=u16::MAX).collect();
    let mut bytes: Vec<u8> = wide.iter().flat_map(|v| v.to_ne_bytes()).collect();
    narrow(&mut bytes);
    let image = image::ImageBuffer::<image::Luma<u16>, _>::from_raw(256, 256, wide).unwrap();
    assert_eq!(
        bytes,
        DynamicImage::ImageLuma16(image).into_luma8().into_raw()
    );
    for i in 0..4096u32 {
        let rgb = [(i * 37) as u8, (i * 101) as u8, (i >> 4) as u8];
        let image = RgbImage::from_raw(1, 1, rgb.to_vec()).unwrap();
        let gray = DynamicImage::ImageRgb8(image).into_luma8();
        // Halves are rounded either way.
        assert!(luma(rgb).abs_diff(gray.into_raw()[0]) <= 1, "{rgb:?}");
    }
}
