//! Pictures as bytes in the formats that clients ask for.

use nino_engine::media::{MediaError, PictureOptions, Upscale, encode_picture, resize};
use nino_engine::{Mask, Picture};
use std::path::Path;

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

/// The picture in this size.
pub(crate) fn resized(picture: &Picture, width: usize, height: usize) -> Picture {
    if (picture.width, picture.height) == (width, height) {
        return picture.clone();
    }
    let values: Vec<f32> = picture.rgb.iter().map(|&v| f32::from(v) / 255.0).collect();
    let size = (picture.height, picture.width, 3);
    // Growing wants smooth edges, shrinking wants every pixel to count.
    let how = if width > picture.width {
        Upscale::Bilinear
    } else {
        Upscale::Area
    };
    let unit = resize(&values, size, (height, width), how);
    Picture::from_unit(width, height, &unit)
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
