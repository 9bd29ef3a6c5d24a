//! Pictures as bytes in the formats that clients ask for.

use crate::folders::Folders;
use nino_engine::media::{
    Limits, MediaError, PictureOptions, Upscale, encode_picture, load_with_alpha, resize,
};
use nino_engine::{Mask, Picture};
use nino_files::AtomicFile;
use std::path::Path;

/// A picture that came in a request, and where it is clear. Pictures are read from files, whose
/// formats are told by their bytes, so that it is one for a moment.
pub(crate) fn unpacked(
    folders: &Folders,
    bytes: &[u8],
) -> Result<(Picture, Option<Mask>), MediaError> {
    let path = folders
        .temp
        .join(format!("brought-{}", uuid::Uuid::new_v4()));
    AtomicFile::replace(&path, bytes)?;
    let read = load_with_alpha(&path, &Limits::default());
    let _ = std::fs::remove_file(&path);
    read
}

/// A picture in a format by its extension.
pub(crate) fn encode(
    picture: &Picture,
    extension: &str,
    quality: u8,
) -> Result<Vec<u8>, MediaError> {
    let options = PictureOptions {
        quality,
        ..PictureOptions::default()
    };
    encode_with(picture, extension, &options)
}

/// The same with all that a file may have.
pub(crate) fn encode_with(
    picture: &Picture,
    extension: &str,
    options: &PictureOptions<'_>,
) -> Result<Vec<u8>, MediaError> {
    let mut bytes = Vec::new();
    let name = format!("picture.{extension}");
    encode_picture(&mut bytes, Path::new(&name), picture, options)?;
    Ok(bytes)
}

/// The picture with its longer side of `side` pixels, also where it is smaller: previews have a
/// pixel per latent pixel.
pub(crate) fn fitted(picture: &Picture, side: usize) -> Picture {
    let longer = picture.width.max(picture.height).max(1);
    let scaled = |n: usize| (n * side / longer).max(1);
    resized(picture, scaled(picture.width), scaled(picture.height))
}

/// The picture in this size. Growing wants smooth edges, shrinking wants every pixel to count.
fn resized(picture: &Picture, width: usize, height: usize) -> Picture {
    if width <= picture.width && height <= picture.height {
        return shrunk(picture, width, height);
    }
    let values: Vec<f32> = picture.rgb.iter().map(|&v| f32::from(v) / 255.0).collect();
    let size = (picture.height, picture.width, 3);
    let unit = resize(&values, size, (height, width), Upscale::Bilinear);
    Picture::from_unit(width, height, &unit)
}

/// The picture in a smaller size, each pixel the mean of those that it covers. Nothing of the
/// large one's size is made on the way.
fn shrunk(picture: &Picture, width: usize, height: usize) -> Picture {
    let covered = |i: usize, n: usize, of: usize| i * of / n..((i + 1) * of).div_ceil(n);
    let mut small = Picture::new(width, height);
    for (at, pixel) in small.rgb.chunks_exact_mut(3).enumerate() {
        let columns = covered(at % width, width, picture.width);
        let rows = covered(at / width, height, picture.height);
        let count = (columns.len() * rows.len()) as u64;
        let mut sums = [0_u64; 3];
        for row in rows {
            let row = &picture.rgb[row * picture.width * 3..][..picture.width * 3];
            for large in row[columns.start * 3..columns.end * 3].chunks_exact(3) {
                let each = sums.iter_mut().zip(large);
                each.for_each(|(sum, &v)| *sum += u64::from(v));
            }
        }
        let each = pixel.iter_mut().zip(sums);
        each.for_each(|(v, sum)| *v = ((sum + count / 2) / count) as u8);
    }
    small
}

/// How opaque the pixels of a picture are that is clear where the mask is 1.
pub(crate) fn opacity(picture: &Picture, clear: &Mask) -> Vec<u8> {
    let clear = clear.resized(picture.width, picture.height);
    let opaque = |clear: &f32| ((1.0 - clear) * 255.0).round().clamp(0.0, 255.0) as u8;
    clear.values.iter().map(opaque).collect()
}

/// The type of a file by its name, as far as browsers may show it.
pub(crate) fn content_type(name: &str) -> &'static str {
    let extension = name
        .rsplit('.')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    match &*extension {
        "png" | "apng" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "json" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pixel_counts_in_a_small_picture() {
        let mut picture = Picture::new(6, 4);
        for (i, pixel) in picture.rgb.chunks_exact_mut(3).enumerate() {
            pixel.copy_from_slice(&[(i % 6 * 10) as u8, (i / 6 * 20) as u8, 7]);
        }
        let small = fitted(&picture, 3);
        assert_eq!((small.width, small.height), (3, 2));
        let means = [5, 25, 45].map(|r| [r, 10, 7]);
        assert_eq!(small.rgb[..9], means.concat());
        // Pixels that two of the small picture share count in both.
        assert_eq!(fitted(&picture, 4).rgb[..6], [5, 10, 7, 15, 10, 7]);
        assert_eq!(fitted(&picture, 6).rgb, picture.rgb);
        assert_eq!(fitted(&picture, 12).width, 12);
    }
}
