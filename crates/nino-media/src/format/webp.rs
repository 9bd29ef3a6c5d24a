//! The chunks of a WebP.
//!
//! RFC 9649, sections 2.3 to 2.7.

use super::read_at;
use crate::MediaError;
use crate::limits::Guard;
use std::io::{Read, Seek};

/// `RIFF`, a length, `WEBP`.
const START: u64 = 12;
/// What precedes the picture in a chunk of an animation's frame.
const FRAME_HEAD: u64 = 16;

/// What the chunks of a whole WebP say.
pub(crate) struct WebP {
    pub(crate) is_animated: bool,
    /// Where the EXIF is.
    pub(crate) exif: Option<(u64, u64)>,
}

/// Walks over all chunks, also those inside of frames, and holds every size that is said anywhere
/// to the limits; `pixel_bytes` are needed for a pixel.
pub(crate) fn check<R: Read + Seek>(
    input: &mut R,
    guard: Guard<'_>,
    pixel_bytes: u64,
) -> Result<WebP, MediaError> {
    let cut = || guard.damaged("it is truncated: it ends before its last chunk");
    let mut found = WebP {
        is_animated: false,
        exif: None,
    };
    let read = |input: &mut R, at, len| {
        read_at(input, at, len).map_err(crate::io_error(guard.path, "read"))
    };
    let head = read(input, 4, 4)?;
    let said = le(&head, 0, 4).ok_or_else(cut)? + 8;
    // The byte that makes a length even may be missing at the end.
    if said > guard.file_bytes + 1 {
        return Err(cut());
    }
    let end = said.min(guard.file_bytes);
    let (mut at, mut n_frames, mut n_pictures) = (START, 0, 0u64);
    while at + 8 <= end {
        let head = read(input, at, 8 + 30)?;
        let (Some(name), Some(len)) = (head.get(..4), le(&head, 4, 4)) else {
            return Err(cut());
        };
        let data = head.get(8..).unwrap_or_default();
        if at + 8 + len > end {
            return Err(cut());
        }
        // A frame's chunks lie inside of its own: they are walked over next.
        let mut skip = 8 + len.next_multiple_of(2);
        let size = match name {
            b"VP8X" => le(data, 4, 3)
                .zip(le(data, 7, 3))
                .map(|(w, h)| (w + 1, h + 1)),
            b"ANMF" => {
                n_frames += 1;
                skip = 8 + FRAME_HEAD;
                le(data, 6, 3)
                    .zip(le(data, 9, 3))
                    .map(|(w, h)| (w + 1, h + 1))
            }
            b"VP8 " => le(data, 6, 2)
                .zip(le(data, 8, 2))
                .map(|(w, h)| (w & 0x3fff, h & 0x3fff)),
            b"VP8L" => le(data, 1, 4).map(|v| ((v & 0x3fff) + 1, (v >> 14 & 0x3fff) + 1)),
            b"ANIM" => {
                found.is_animated = true;
                None
            }
            b"EXIF" => {
                found.exif = found.exif.or(Some((at + 8, len)));
                None
            }
            _ => None,
        };
        if let Some((width, height)) = size {
            n_pictures += 1;
            guard.size(width, height, pixel_bytes)?;
        }
        guard.frames(n_frames)?;
        at += skip;
    }
    if n_pictures == 0 {
        return Err(guard.damaged("it has no size"));
    }
    Ok(found)
}

/// A little-endian number of `n` bytes.
fn le(bytes: &[u8], at: usize, n: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + n)?;
    Some(bytes.iter().rev().fold(0, |v, &b| v << 8 | u64::from(b)))
}
