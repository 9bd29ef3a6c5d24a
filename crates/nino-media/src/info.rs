//! What a picture's headers say, without decoding a pixel.

use crate::format::{Kind, PictureFile, jpeg, png, webp};
use crate::load::{all_bytes, rewind};
use crate::{Limits, MediaError};
use image::ImageDecoder;
use image::codecs::gif::GifDecoder;
use image::codecs::webp::WebPDecoder;
use std::path::Path;

/// The format and the size of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureInfo {
    /// `PNG`, `JPEG`, `WebP` or `GIF`.
    pub format: &'static str,
    pub width: u64,
    pub height: u64,
}

/// Reads the headers of a picture; `None` for a file that is no picture of a format read here.
pub fn picture_info(path: &Path, limits: &Limits) -> Result<Option<PictureInfo>, MediaError> {
    let Some(mut file) = PictureFile::open(path)? else {
        return Ok(None);
    };
    let guard = file.guard(path, limits);
    let image = |source| MediaError::Image {
        path: path.to_owned(),
        source,
    };
    let wide = |(width, height): (u32, u32)| (u64::from(width), u64::from(height));
    let input = &mut file.input;
    let (width, height) = match file.kind {
        Kind::Png => {
            let header = png::check(input, guard)?;
            (header.width, header.height)
        }
        Kind::Jpeg => {
            let bytes = all_bytes(input, guard)?;
            let header = jpeg::scan(&bytes).map_err(|what| guard.damaged(what))?;
            (header.width, header.height)
        }
        Kind::WebP => {
            webp::check(input, guard, 0)?;
            rewind(input, guard)?;
            wide(WebPDecoder::new(input).map_err(image)?.dimensions())
        }
        Kind::Gif => wide(GifDecoder::new(input).map_err(image)?.dimensions()),
    };
    Ok(Some(PictureInfo {
        format: guard.format,
        width,
        height,
    }))
}
