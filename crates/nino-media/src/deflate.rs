//! The pixels of a PNG as its zlib stream, made on all cores: the rows are cut into bands, each
//! filtered and deflated by itself up to a whole byte, as pigz does with files. The stream is the
//! same whatever the number of threads. `[height, width, c]` in, pieces of the stream out.
//!
//! PNG Specification (Third Edition), sections 9 and 10; RFC 1950 and 1951.

use crate::{Picture, pool};
use std::io;
use std::ops::Range;
use zlib_rs::adler32::{adler32, adler32_combine};
use zlib_rs::{Deflate, DeflateConfig, DeflateFlush, Strategy};

/// Filtered bytes of a band, about. A picture of 512 x 512 is work for six cores; what every band
/// begins anew makes files some 0.03 % larger.
const BAND_BYTES: usize = 128 << 10;

/// How far back deflate looks.
const WINDOW: usize = 32 << 10;

/// Rows of pixels with so many bytes each.
#[derive(Clone, Copy)]
pub(crate) struct Pixels<'a> {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) channels: usize,
    pub(crate) bytes: &'a [u8],
}

impl<'a> From<&'a Picture> for Pixels<'a> {
    fn from(picture: &'a Picture) -> Pixels<'a> {
        Pixels {
            width: picture.width,
            height: picture.height,
            channels: 3,
            bytes: &picture.rgb,
        }
    }
}

/// Memory for the bands being made, beside the stream: a band as filtered, and deflate's tables.
pub fn work_bytes() -> usize {
    pool::threads() * (BAND_BYTES + (384 << 10))
}

/// Gives the zlib stream of pixels piece by piece; stops at the first error of `take`.
pub(crate) fn zlib<E: From<io::Error>>(
    pixels: Pixels<'_>,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let (width, height, n_bytes) = (pixels.width, pixels.height, pixels.bytes.len());
    if n_bytes != width * height * pixels.channels {
        let what = format!("a picture of {width} x {height} cannot have {n_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what).into());
    }
    let n_rows = (BAND_BYTES / (width * pixels.channels + 1)).max(1);
    let starts: Vec<usize> = (0..height).step_by(n_rows).collect();
    // Few enough that the stream is never whole in memory, enough that no core waits for long.
    let at_once = 4 * pool::threads();
    let mut checksum = 1;
    for starts in starts.chunks(at_once) {
        let bands = pool::map(starts.to_vec(), |y| {
            Band::new(pixels, y..height.min(y + n_rows))
        });
        for (y, mut band) in starts.iter().zip(bands) {
            checksum = adler32_combine(checksum, band.checksum, band.n_filtered as u64);
            if y + n_rows >= height {
                band.deflated.extend(checksum.to_be_bytes());
            }
            take(&band.deflated)?;
        }
    }
    Ok(())
}

struct Band {
    deflated: Vec<u8>,
    checksum: u32,
    n_filtered: usize,
}

impl Band {
    fn new(pixels: Pixels<'_>, rows: Range<usize>) -> Band {
        let last = rows.end == pixels.height;
        let filtered = filter(pixels, rows.clone());
        // What the filters leave of a photo hardly repeats: to look for more than runs costs most
        // of the time, and the many short matches it finds make the file larger.
        let mut deflated = deflate(&filtered, &[], (Strategy::Rle, 4), last);
        if deflated.len() < filtered.len() / 5 {
            let n_before = WINDOW.div_ceil(pixels.width * pixels.channels + 1);
            let before = filter(pixels, rows.start.saturating_sub(n_before)..rows.start);
            let drawing = deflate(&filtered, &before, (Strategy::Default, 6), last);
            if drawing.len() < deflated.len() {
                deflated = drawing;
            }
        }
        if rows.start == 0 {
            // Deflate with a window of 32 KiB, made quickly.
            deflated.splice(..0, [0x78, 0x5e]);
        }
        Band {
            deflated,
            checksum: adler32(1, &filtered),
            n_filtered: filtered.len(),
        }
    }
}

/// A raw deflate stream up to a whole byte; `before` is what came before it in the whole.
fn deflate(bytes: &[u8], before: &[u8], effort: (Strategy, i32), last: bool) -> Vec<u8> {
    let (strategy, level) = effort;
    let mut deflate = Deflate::new_with_config(DeflateConfig {
        level,
        strategy,
        window_bits: -15, // without the header
        ..DeflateConfig::default()
    });
    let fresh = "a stream that is new takes all there is";
    deflate.set_dictionary(before).expect(fresh);
    let flush = if last {
        DeflateFlush::Finish
    } else {
        DeflateFlush::SyncFlush
    };
    let mut out = vec![0; bytes.len() / 2 + 1024];
    loop {
        let (read, written) = (deflate.total_in() as usize, deflate.total_out() as usize);
        deflate
            .compress(&bytes[read..], &mut out[written..], flush)
            .expect(fresh);
        let written = deflate.total_out() as usize;
        // Anything left would have filled it.
        if written < out.len() {
            out.truncate(written);
            return out;
        }
        out.resize(2 * written, 0);
    }
}

/// The rows, each behind the number of its filter: the one that leaves the smallest sum of absolute
/// differences.
fn filter(pixels: Pixels<'_>, rows: Range<usize>) -> Vec<u8> {
    let pixel = pixels.channels;
    let n = pixels.width * pixel;
    // With a pixel of zeros at the left, as the specification has it outside the picture.
    let padded = |row: &mut [u8], y: usize| {
        row[pixel..].copy_from_slice(&pixels.bytes[y * n..(y + 1) * n]);
    };
    let (mut above, mut row) = (vec![0; pixel + n], vec![0; pixel + n]);
    if rows.start > 0 {
        padded(&mut above, rows.start - 1);
    }
    let (mut best, mut trial) = (vec![0; n], vec![0; n]);
    let mut filtered = Vec::with_capacity(rows.len() * (n + 1));
    for y in rows {
        padded(&mut row, y);
        let mut least = (u64::MAX, 0);
        for kind in [2, 1, 3, 4] {
            let (a, b, c) = (&row[..n], &above[pixel..], &above[..n]);
            let x = &row[pixel..];
            match kind {
                1 => apply(&mut trial, x, (a, b, c), |a, _, _| a),
                2 => apply(&mut trial, x, (a, b, c), |_, b, _| b),
                3 => apply(&mut trial, x, (a, b, c), |a, b, _| (a & b) + ((a ^ b) >> 1)),
                _ => apply(&mut trial, x, (a, b, c), paeth),
            }
            let weight = weight(&trial);
            if weight <= least.0 {
                least = (weight, kind);
                std::mem::swap(&mut best, &mut trial);
            }
        }
        filtered.push(least.1);
        filtered.extend_from_slice(&best);
        std::mem::swap(&mut above, &mut row);
    }
    filtered
}

/// Differences to what `predict` makes of the bytes at the left, above, and above left.
fn apply(
    out: &mut [u8],
    x: &[u8],
    (a, b, c): (&[u8], &[u8], &[u8]),
    predict: impl Fn(u8, u8, u8) -> u8,
) {
    let neighbors = a.iter().zip(b).zip(c);
    for ((out, &x), ((&a, &b), &c)) in out.iter_mut().zip(x).zip(neighbors) {
        *out = x.wrapping_sub(predict(a, b, c));
    }
}

/// The neighbor nearest to `a + b - c`. Without branches and in 16 bits, which compilers make
/// vectors of.
fn paeth(a: u8, b: u8, c: u8) -> u8 {
    let (wide_a, wide_b, wide_c) = (i16::from(a), i16::from(b), i16::from(c));
    let to_a = (wide_b - wide_c).abs();
    let to_b = (wide_a - wide_c).abs();
    let to_c = (wide_a + wide_b - 2 * wide_c).abs();
    let b_or_c = if to_b <= to_c { b } else { c };
    if to_a <= to_b && to_a <= to_c {
        a
    } else {
        b_or_c
    }
}

fn weight(row: &[u8]) -> u64 {
    let of = |bytes: &[u8]| -> u32 {
        let sizes = bytes.iter().map(|&b| (b as i8).unsigned_abs());
        sizes.map(u32::from).sum()
    };
    row.chunks(1 << 16).map(of).map(u64::from).sum()
}

#[cfg(test)]
mod tests;
