//! The segments of a JPEG. Decoders fill what is missing of a picture with gray and say nothing, so
//! whether all of it is there has to be found out here: a file that was cut has no end marker.
//!
//! ITU-T T.81, annex B.

const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const APP1: u8 = 0xe1;
const EXIF: &[u8] = b"Exif\0\0";

/// What the segments of a whole JPEG say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Jpeg<'a> {
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) exif: Option<&'a [u8]>,
}

/// Walks over all segments up to the end marker; the error is what a sentence about the file says.
pub(crate) fn scan(file: &[u8]) -> Result<Jpeg<'_>, &'static str> {
    const CUT: &str = "it is truncated: it ends before its end marker";
    let (mut size, mut exif) = (None, None);
    let mut at = 2;
    loop {
        let Some((marker, next)) = next_marker(file, at) else {
            return Err(CUT);
        };
        at = next;
        match marker {
            EOI => break,
            // Markers without a segment: restarts, and two that mean nothing here.
            0x01 | 0xd0..=0xd8 => continue,
            _ => {}
        }
        let Some(len) = file.get(at..at + 2) else {
            return Err(CUT);
        };
        let len = usize::from(u16::from_be_bytes([len[0], len[1]]));
        let Some(segment) = file.get(at + 2..at + len.max(2)) else {
            return Err(CUT);
        };
        at += len.max(2);
        match marker {
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                let &[_, h0, h1, w0, w1, ..] = segment else {
                    return Err("its header has no size");
                };
                let number = |high, low| u64::from(u16::from_be_bytes([high, low]));
                size = Some((number(w0, w1), number(h0, h1)));
            }
            APP1 if exif.is_none() => exif = segment.strip_prefix(EXIF),
            // Compressed data follows. It has no markers but restarts, so what comes next is found
            // as after any other segment.
            SOS if size.is_none() => return Err("its data comes before its size"),
            _ => {}
        }
    }
    let (width, height) = size.ok_or("its header has no size")?;
    Ok(Jpeg {
        width,
        height,
        exif,
    })
}

/// The next marker from `at` on and where it ends; bytes that belong to none are passed over.
fn next_marker(file: &[u8], mut at: usize) -> Option<(u8, usize)> {
    loop {
        at += file.get(at..)?.iter().position(|&b| b == 0xff)? + 1;
        match *file.get(at)? {
            // A stuffed byte of compressed data.
            0x00 => at += 1,
            // Fill bytes may come before a marker.
            0xff => {}
            marker => return Some((marker, at + 1)),
        }
    }
}
