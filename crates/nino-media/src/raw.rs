//! A decoded picture as its file has it: one to four channels of 8 bits, turned the way that the
//! file says.

use crate::limits::Guard;
use crate::{Mask, MediaError, Picture};
use image::metadata::Orientation;
use image::{ColorType, ImageDecoder};

pub(crate) struct Raw {
    width: usize,
    height: usize,
    channels: usize,
    /// `[h, w, channels]`: gray, gray and alpha, RGB, or RGB and alpha.
    values: Vec<u8>,
}

/// Bytes that a pixel takes in the worst of the steps below, for a decoder that gives `decoded`
/// bytes a pixel: the decoded picture and an RGB copy and a mask of it, or a turned copy.
pub(crate) fn pixel_bytes(decoded: u64) -> u64 {
    (decoded + 3 + 4).max(2 * decoded)
}

impl Raw {
    /// Decodes a picture whose size has been checked.
    pub(crate) fn decode(
        mut decoder: impl ImageDecoder,
        guard: Guard<'_>,
    ) -> Result<Raw, MediaError> {
        let image = |source| MediaError::Image {
            path: guard.path.to_owned(),
            source,
        };
        let orientation = decoder.orientation().map_err(image)?;
        let ((width, height), color) = (decoder.dimensions(), decoder.color_type());
        // Once more: what the decoder says is what it writes.
        let bytes = u64::from(color.bytes_per_pixel());
        let pixels = guard.size(width.into(), height.into(), pixel_bytes(bytes))?;
        let mut values = guard.zeroed(pixels * bytes as usize)?;
        decoder.read_image(&mut values).map_err(image)?;
        let is_wide = match color {
            ColorType::L8 | ColorType::La8 | ColorType::Rgb8 | ColorType::Rgba8 => false,
            ColorType::L16 | ColorType::La16 | ColorType::Rgb16 | ColorType::Rgba16 => true,
            other => return Err(guard.damaged(format!("its colors are stored as {other:?}"))),
        };
        if is_wide {
            narrow(&mut values);
        }
        let raw = Raw {
            width: width as usize,
            height: height as usize,
            channels: usize::from(color.channel_count()),
            values,
        };
        raw.turned(orientation, guard)
    }

    pub(crate) fn into_picture(self, guard: Guard<'_>) -> Result<Picture, MediaError> {
        let Raw {
            width,
            height,
            channels,
            mut values,
        } = self;
        let rgb = match channels {
            3 => values,
            4 => {
                // In place: every pixel moves towards the beginning.
                for i in 0..width * height {
                    values.copy_within(i * 4..i * 4 + 3, i * 3);
                }
                values.truncate(width * height * 3);
                values
            }
            _ => {
                let mut rgb = guard.zeroed(width * height * 3)?;
                let pixels = rgb.as_chunks_mut::<3>().0.iter_mut();
                for (pixel, gray) in pixels.zip(values.chunks_exact(channels)) {
                    pixel.fill(gray[0]);
                }
                rgb
            }
        };
        Ok(Picture { width, height, rgb })
    }

    /// Where the picture is clear, as a mask of what is to be painted; `None` without an alpha
    /// channel.
    pub(crate) fn clear(&self, guard: Guard<'_>) -> Result<Option<Mask>, MediaError> {
        if self.channels % 2 == 1 {
            return Ok(None);
        }
        let pixels = self.values.chunks_exact(self.channels);
        let clear = pixels.map(|p| 1.0 - f32::from(p[self.channels - 1]) / 255.0);
        self.mask(clear, guard).map(Some)
    }

    /// How white it is, as a mask of what is to be painted; what is clear counts as black.
    pub(crate) fn bright(&self, guard: Guard<'_>) -> Result<Mask, MediaError> {
        let pixels = self.values.chunks_exact(self.channels);
        let bright = pixels.map(|p| {
            let (gray, alpha) = match *p {
                [gray] => (gray, 255),
                [gray, alpha] => (gray, alpha),
                [r, g, b] => (luma([r, g, b]), 255),
                [r, g, b, alpha, ..] => (luma([r, g, b]), alpha),
                [] => (0, 0),
            };
            f32::from(gray) / 255.0 * (f32::from(alpha) / 255.0)
        });
        self.mask(bright, guard)
    }

    fn mask(
        &self,
        pixels: impl Iterator<Item = f32>,
        guard: Guard<'_>,
    ) -> Result<Mask, MediaError> {
        let mut values = guard.with_room(self.width * self.height)?;
        values.extend(pixels);
        Ok(Mask {
            width: self.width,
            height: self.height,
            values,
        })
    }

    fn turned(self, orientation: Orientation, guard: Guard<'_>) -> Result<Raw, MediaError> {
        use Orientation as O;
        let (w, h, n) = (self.width, self.height, self.channels);
        // Where the pixel at (x, y) of the result comes from.
        let from: fn(usize, usize, usize, usize) -> (usize, usize) = match orientation {
            O::NoTransforms => return Ok(self),
            O::FlipHorizontal => |x, y, w, _| (w - 1 - x, y),
            O::FlipVertical => |x, y, _, h| (x, h - 1 - y),
            O::Rotate180 => |x, y, w, h| (w - 1 - x, h - 1 - y),
            O::Rotate90 => |x, y, _, h| (y, h - 1 - x),
            O::Rotate270 => |x, y, w, _| (w - 1 - y, x),
            O::Rotate90FlipH => |x, y, _, _| (y, x),
            O::Rotate270FlipH => |x, y, w, h| (w - 1 - y, h - 1 - x),
        };
        let (width, height) = match orientation {
            O::Rotate90 | O::Rotate270 | O::Rotate90FlipH | O::Rotate270FlipH => (h, w),
            _ => (w, h),
        };
        let mut values = guard.zeroed(self.values.len())?;
        for (i, pixel) in values.chunks_exact_mut(n).enumerate() {
            let (x, y) = from(i % width, i / width, w, h);
            let at = (y * w + x) * n;
            pixel.copy_from_slice(&self.values[at..at + n]);
        }
        Ok(Raw {
            width,
            height,
            channels: n,
            values,
        })
    }
}

/// 16 bits, in the machine's order, to the nearest of 8.
fn narrow(values: &mut Vec<u8>) {
    let n = values.len() / 2;
    for i in 0..n {
        let wide = u16::from_ne_bytes([values[2 * i], values[2 * i + 1]]);
        values[i] = ((u32::from(wide) + 128) / 257) as u8;
    }
    values.truncate(n);
}

/// How bright a color is, by the weights of sRGB's primaries, as the `image` crate has it.
pub(crate) fn luma(rgb: [u8; 3]) -> u8 {
    const WEIGHTS: [f32; 3] = [0.212_639, 0.715_168_7, 0.072_192_32];
    let weighted = rgb.iter().zip(WEIGHTS);
    weighted
        .map(|(&v, w)| f32::from(v) * w)
        .sum::<f32>()
        .round() as u8
}

#[cfg(test)]
mod tests;
