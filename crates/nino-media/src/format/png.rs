//! The chunks of a PNG.
//!
//! PNG Specification (Third Edition), sections 5 and 11.

use super::read_at;
use crate::MediaError;
use crate::limits::Guard;
use std::io::{Read, Seek};
use zlib_rs::crc32::crc32;
use zlib_rs::{Inflate, InflateFlush, Status};

/// The signature before the first chunk.
const START: u64 = 8;
/// Length and name before a chunk's data, and the checksum after it.
const AROUND: u64 = 12;
/// Most chunks beside those of pixels: each costs a look, and real files have a few dozen.
const MOST_CHUNKS: usize = 1 << 16;
/// zlib's largest window, which every stream may use.
const WINDOW_BITS: u8 = 15;

/// A chunk's name and where its data is.
#[derive(Clone, Copy)]
pub(crate) struct Chunk {
    pub(crate) name: [u8; 4],
    offset: u64,
    len: u64,
}

/// What a PNG's header says.
pub(crate) struct Header {
    pub(crate) width: u64,
    pub(crate) height: u64,
    /// Bytes of a pixel as it is decoded: palettes become colors, less than 8 bits become 8.
    pub(crate) pixel_bytes: u64,
    pub(crate) is_animated: bool,
}

/// All chunks up to the last one; an error if the file ends before that.
pub(crate) fn chunks<R: Read + Seek>(
    input: &mut R,
    guard: Guard<'_>,
) -> Result<Vec<Chunk>, MediaError> {
    let mut found = Vec::new();
    let mut beside = 0;
    let mut at = START;
    loop {
        let head = read_at(input, at, 8).map_err(crate::io_error(guard.path, "read"))?;
        let Some((len, name)) = head.split_first_chunk::<4>() else {
            return Err(cut(guard));
        };
        let Ok(name) = <[u8; 4]>::try_from(name) else {
            return Err(cut(guard));
        };
        let len = u64::from(u32::from_be_bytes(*len));
        let chunk = Chunk {
            name,
            offset: at + 8,
            len,
        };
        at += AROUND + len;
        if at > guard.file_bytes {
            return Err(cut(guard));
        }
        if &chunk.name == b"IEND" {
            return Ok(found);
        }
        // Frames have a chunk of their own each; pixels may be in many, of which none is empty.
        if !matches!(&chunk.name, b"IDAT" | b"fdAT" | b"fcTL") || chunk.len == 0 {
            beside += 1;
        }
        if beside > MOST_CHUNKS {
            return Err(guard.damaged(format!("it has more than {MOST_CHUNKS} chunks")));
        }
        found.push(chunk);
    }
}

fn cut(guard: Guard<'_>) -> MediaError {
    guard.damaged("it is truncated: it ends before its last chunk")
}

impl Chunk {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The chunk's data, which its checksum says is whole.
    pub(crate) fn data<R: Read + Seek>(
        &self,
        input: &mut R,
        guard: Guard<'_>,
    ) -> Result<Vec<u8>, MediaError> {
        let failed = crate::io_error(guard.path, "read");
        let mut bytes = read_at(input, self.offset, self.len + 4).map_err(&failed)?;
        let name = self.name.escape_ascii();
        let Some((data, sum)) = bytes.split_last_chunk::<4>() else {
            return Err(cut(guard));
        };
        if crc32(crc32(0, &self.name), data) != u32::from_be_bytes(*sum) {
            let what = format!("its chunk {name} at byte {} is not whole", self.offset);
            return Err(guard.damaged(what));
        }
        bytes.truncate(bytes.len() - 4);
        Ok(bytes)
    }
}

/// Reads the header and holds all that decoders keep beside pixels to the limits: text, profile,
/// and the number of frames. The caller checks the size, since what a pixel takes is the decoder's
/// matter.
pub(crate) fn check<R: Read + Seek>(input: &mut R, guard: Guard<'_>) -> Result<Header, MediaError> {
    let chunks = chunks(input, guard)?;
    let header = match chunks.first() {
        Some(chunk) if &chunk.name == b"IHDR" && chunk.len == 13 => chunk.data(input, guard)?,
        _ => return Err(guard.damaged("it does not begin with a header")),
    };
    let n_frames = chunks.iter().filter(|c| &c.name == b"fcTL").count() as u64;
    guard.frames(n_frames)?;
    let is_text = |c: &&Chunk| matches!(&c.name, b"tEXt" | b"zTXt" | b"iTXt");
    let text: u64 = chunks.iter().filter(is_text).map(|c| c.len).sum();
    if text > guard.limits.text_bytes {
        let what = format!("carries {text} bytes of text");
        return Err(guard.beyond(what, guard.limits.text_bytes, "bytes"));
    }
    let mut profiles = chunks.iter().filter(|c| &c.name == b"iCCP");
    if let Some(profile) = profiles.next() {
        let data = profile.data(input, guard)?;
        // A name, a zero, the method of compression.
        let packed = data
            .iter()
            .position(|&b| b == 0)
            .map(|end| &data[end + 1..]);
        if let Some([0, packed @ ..]) = packed {
            inflate(packed, Keep::Nothing, guard.limits.profile_bytes).map_err(|problem| {
                problem.told(guard, "its color profile", guard.limits.profile_bytes)
            })?;
        }
    }
    if profiles.next().is_some() {
        return Err(guard.damaged("it has more than one color profile"));
    }
    let number = |at: usize| {
        let bytes = header[at..at + 4]
            .try_into()
            .expect("four bytes of thirteen");
        u64::from(u32::from_be_bytes(bytes))
    };
    let (depth, color) = (header[8], header[9]);
    let samples = match color {
        0 => 1,
        2 => 3,
        // A palette becomes RGB, with a transparent color RGBA.
        3 => 4,
        4 => 2,
        _ => 4,
    };
    // A transparent color of a picture without alpha adds one.
    let alpha = u64::from(matches!(color, 0 | 2));
    Ok(Header {
        width: number(0),
        height: number(4),
        pixel_bytes: (samples + alpha) * if depth == 16 { 2 } else { 1 },
        is_animated: chunks.iter().any(|c| &c.name == b"acTL"),
    })
}

/// What to do with inflated bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    All,
    /// Only their number matters.
    Nothing,
}

pub(crate) enum InflateProblem {
    TooLong,
    Damaged,
}

impl InflateProblem {
    /// `what` was inflated, and may have `most` bytes.
    pub(crate) fn told(&self, guard: Guard<'_>, what: &str, most: u64) -> MediaError {
        match self {
            InflateProblem::Damaged => guard.damaged(format!("{what} cannot be unpacked")),
            InflateProblem::TooLong => {
                let what = format!("is such that {what} unpacks to more than {most} bytes");
                guard.beyond(what, most, "bytes")
            }
        }
    }
}

/// A zlib stream of at most `most` bytes.
pub(crate) fn inflate(packed: &[u8], keep: Keep, most: u64) -> Result<Vec<u8>, InflateProblem> {
    const PIECE: usize = 32 << 10;
    let mut stream = Inflate::new(true, WINDOW_BITS);
    let mut piece = vec![0; PIECE];
    let mut out = Vec::new();
    loop {
        let (input, before) = (stream.total_in() as usize, stream.total_out());
        let status = stream
            .decompress(&packed[input..], &mut piece, InflateFlush::NoFlush)
            .map_err(|_| InflateProblem::Damaged)?;
        let n = (stream.total_out() - before) as usize;
        if stream.total_out() > most {
            return Err(InflateProblem::TooLong);
        }
        if keep == Keep::All {
            out.extend_from_slice(&piece[..n]);
        }
        match status {
            Status::StreamEnd => return Ok(out),
            // Nothing went in or came out: the stream ends too early.
            _ if n == 0 && stream.total_in() as usize == input => {
                return Err(InflateProblem::Damaged);
            }
            _ => {}
        }
    }
}
