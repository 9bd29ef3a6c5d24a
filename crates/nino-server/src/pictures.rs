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
    let mut bytes = Vec::new();
    let options = PictureOptions { text: &[], quality };
    let name = format!("picture.{extension}");
    encode_picture(&mut bytes, Path::new(&name), picture, &options)?;
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

/// A PNG with transparency: clear where the mask is 1.
pub(crate) fn png_with_alpha(
    picture: &Picture,
    mask: &Mask,
    text: &[(String, String)],
) -> Result<Vec<u8>, png::EncodingError> {
    let mask = mask.resized(picture.width, picture.height);
    let pixels = picture.rgb.chunks_exact(3).zip(&mask.values);
    let alpha = |clear: f32| ((1.0 - clear) * 255.0).round().clamp(0.0, 255.0) as u8;
    let rgba = pixels.flat_map(|(rgb, clear)| [rgb[0], rgb[1], rgb[2], alpha(*clear)]);
    let rgba: Vec<u8> = rgba.collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, picture.width as u32, picture.height as u32);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    for (keyword, value) in text {
        encoder.add_itxt_chunk(keyword.clone(), value.clone())?;
    }
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&rgba)?;
    writer.finish()?;
    Ok(bytes)
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
