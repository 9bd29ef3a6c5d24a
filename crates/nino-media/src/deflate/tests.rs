//! Streams are read back by the `png` crate, through the files they are for.

use super::*;
use crate::PictureOptions;
use crate::still::write_png;
use std::io::{Cursor, Write};

fn picture(width: usize, height: usize, pixel: impl Fn(usize, usize) -> [u8; 3]) -> Picture {
    let pixels = (0..width * height).map(|i| pixel(i % width, i / width));
    Picture {
        width,
        height,
        rgb: pixels.flatten().collect(),
    }
}

fn noise(x: usize, y: usize) -> [u8; 3] {
    // The finalizer of SplitMix64: a plain product would repeat.
    let mut z = ((y << 32) + x) as u64;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    [z as u8, (z >> 20) as u8, (z >> 40) as u8]
}

/// Smooth, with the grain of a photo.
fn photo(x: usize, y: usize) -> [u8; 3] {
    let wave = |a: f64, b: f64| 120.0 + 60.0 * ((x as f64 / a).sin() + (y as f64 / b).cos());
    let [r, g, b] = noise(x, y).map(|grain| f64::from(grain % 4));
    [
        (wave(90.0, 70.0) + r) as u8,
        (wave(50.0, 110.0) + g) as u8,
        (wave(130.0, 40.0) + b) as u8,
    ]
}

fn gradient(x: usize, y: usize) -> [u8; 3] {
    [(x * 5) as u8, (y * 7) as u8, 80]
}

fn file(picture: &Picture) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_png(&mut bytes, picture, &PictureOptions::default()).unwrap();
    bytes
}

/// What the `png` crate makes of it by itself.
fn file_of_crate(picture: &Picture) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (width, height) = (picture.width as u32, picture.height as u32);
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_deflate_compression(png::DeflateCompression::Level(4));
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&picture.rgb).unwrap();
    writer.finish().unwrap();
    bytes
}

#[test]
fn every_size_comes_back() {
    for (width, height) in [(1, 1), (1, 7), (5, 3), (300, 200), (2000, 700), (50_000, 3)] {
        for kind in [gradient, noise, photo] {
            let picture = picture(width, height, kind);
            let bytes = file(&picture);
            let mut strict = png::DecodeOptions::default();
            strict.set_ignore_adler32(false);
            let decoder = png::Decoder::new_with_options(Cursor::new(&bytes), strict);
            let mut reader = decoder.read_info().unwrap();
            let mut back = vec![0; reader.output_buffer_size().unwrap()];
            reader.next_frame(&mut back).unwrap();
            reader.finish().unwrap();
            assert!(back == picture.rgb, "{width} x {height}");
        }
    }
}

#[test]
fn no_larger_than_with_the_png_crate() {
    let lines = |x: usize, y: usize| {
        [if (x * x / 90 + y / 3).is_multiple_of(7) {
            0
        } else {
            255
        }; 3]
    };
    for (name, picture) in [
        ("photo", picture(700, 500, photo)),
        ("noise", picture(700, 500, noise)),
        ("lines", picture(700, 500, lines)),
    ] {
        let (found, most) = (file(&picture).len(), file_of_crate(&picture).len());
        assert!(found * 100 <= most * 101, "{name}: {found} of {most}");
    }
}

#[test]
fn the_same_whatever_the_number_of_threads() {
    let picture = picture(2000, 700, photo);
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(|| file(&picture))
    };
    assert!(on(1) == on(3));
}

/// A disk that is full after so many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(self.0);
        self.0 -= n;
        if n == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_fails_is_said() {
    let whole = picture(700, 500, noise);
    let n = file(&whole).len();
    for room in [0, 20, 60, n / 2, n - 1] {
        let error = write_png(Full(room), &whole, &PictureOptions::default()).unwrap_err();
        let png::EncodingError::IoError(error) = error else {
            panic!("{room}: {error}");
        };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{room}");
    }
    write_png(Full(n), &whole, &PictureOptions::default()).unwrap();
    let part = Picture {
        rgb: vec![0; 17],
        ..picture(3, 2, noise)
    };
    let error = write_png(Vec::new(), &part, &PictureOptions::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("3 x 2") && error.contains("17"), "{error}");
    assert!(write_png(Vec::new(), &Picture::new(0, 5), &PictureOptions::default()).is_err());
}
