//! Reading still pictures. Their headers are held to the limits before a decoder takes any memory.

use crate::format::{Kind, PictureFile, jpeg, png, webp};
use crate::limits::Guard;
use crate::raw::{Raw, pixel_bytes};
use crate::{Limits, Mask, MediaError, Picture, io_error};
use image::ImageDecoder;
use image::codecs::gif::GifDecoder;
use image::codecs::jpeg::JpegDecoder;
use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::Path;

/// Reads a picture as RGB, the way up that its camera says.
pub fn load_picture(path: &Path, limits: &Limits) -> Result<Picture, MediaError> {
    with_raw(path, limits, Raw::into_picture)
}

/// A picture, and its transparency as a mask: what is clear is to be painted.
pub fn load_with_alpha(
    path: &Path,
    limits: &Limits,
) -> Result<(Picture, Option<Mask>), MediaError> {
    with_raw(path, limits, |raw, guard| {
        let mask = raw.clear(guard)?;
        Ok((raw.into_picture(guard)?, mask))
    })
}

/// A mask out of a picture: white is to be painted, black and clear stay.
pub fn load_mask(path: &Path, limits: &Limits) -> Result<Mask, MediaError> {
    with_raw(path, limits, |raw, guard| raw.bright(guard))
}

fn with_raw<T>(
    path: &Path,
    limits: &Limits,
    make: impl FnOnce(Raw, Guard<'_>) -> Result<T, MediaError>,
) -> Result<T, MediaError> {
    let Some(mut file) = PictureFile::open(path)? else {
        return Err(MediaError::Decode {
            path: path.to_owned(),
            what: "not a supported image: PNG, JPEG, WebP or GIF".to_owned(),
        });
    };
    let guard = file.guard(path, limits);
    let raw = decode(&mut file, guard);
    // First, because what was read while the file changed can fail in any way.
    file.input.get_ref().check_unchanged()?;
    make(raw?, guard)
}

fn decode(file: &mut PictureFile, guard: Guard<'_>) -> Result<Raw, MediaError> {
    let image = |source| MediaError::Image {
        path: guard.path.to_owned(),
        source,
    };
    let input = &mut file.input;
    match file.kind {
        Kind::Png => {
            let header = png::check(input, guard)?;
            guard.size(header.width, header.height, pixel_bytes(header.pixel_bytes))?;
            rewind(input, guard)?;
            let decoder = PngDecoder::with_limits(input, bound(guard)).map_err(image)?;
            Raw::decode(decoder, guard)
        }
        Kind::Jpeg => {
            let bytes = all_bytes(input, guard)?;
            let header = jpeg::scan(&bytes).map_err(|what| guard.damaged(what))?;
            // Of a progressive one, coefficients of 16 bits are kept beside the picture.
            guard.size(header.width, header.height, pixel_bytes(3).max(3 + 6))?;
            let decoder = JpegDecoder::new(Cursor::new(&bytes[..])).map_err(image)?;
            Raw::decode(decoder, guard)
        }
        Kind::WebP => {
            // The decoder's own picture with alpha, and what is made of it.
            webp::check(input, guard, 4 + pixel_bytes(4))?;
            rewind(input, guard)?;
            Raw::decode(WebPDecoder::new(input).map_err(image)?, guard)
        }
        Kind::Gif => {
            rewind(input, guard)?;
            let mut decoder = GifDecoder::new(input).map_err(image)?;
            let (width, height) = decoder.dimensions();
            // A frame, which may be smaller than the picture, and the picture.
            guard.size(width.into(), height.into(), 4 + pixel_bytes(4))?;
            decoder.set_limits(bound_frame(guard)).map_err(image)?;
            Raw::decode(decoder, guard)
        }
    }
}

/// Limits for decoders of the `image` crate, for what headers do not say.
pub(crate) fn bound(guard: Guard<'_>) -> image::Limits {
    let mut limits = image::Limits::no_limits();
    limits.max_alloc = Some(guard.limits.bytes_unpacked);
    limits
}

/// The same for a frame of a GIF, whose own size may be beyond the picture's. Its colors take a
/// fifth byte a pixel that the decoder does not count, and it stands beside the picture.
pub(crate) fn bound_frame(guard: Guard<'_>) -> image::Limits {
    let mut limits = bound(guard);
    limits.max_alloc = Some(guard.limits.bytes_unpacked / 2);
    limits
}

pub(crate) fn rewind(input: &mut impl Seek, guard: Guard<'_>) -> Result<(), MediaError> {
    let done = input.seek(SeekFrom::Start(0)).map(drop);
    done.map_err(io_error(guard.path, "read"))
}

/// The whole file; a JPEG is decoded out of memory, of which its decoder makes a copy.
pub(crate) fn all_bytes(
    input: &mut (impl Read + Seek),
    guard: Guard<'_>,
) -> Result<Vec<u8>, MediaError> {
    guard.bytes("the file itself", guard.file_bytes.saturating_mul(2))?;
    rewind(input, guard)?;
    let mut bytes = guard.zeroed(guard.file_bytes as usize)?;
    let read = input.read_exact(&mut bytes);
    read.map_err(io_error(guard.path, "read"))?;
    Ok(bytes)
}
