//! EXIF's `UserComment`, where A1111 keeps its parameters in a JPEG or WebP: a TIFF of two
//! directories, the second with one entry.

const EXIF_IFD: u16 = 0x8769;
const USER_COMMENT: u16 = 0x9286;
/// Types of TIFF entries.
const LONG: u16 = 4;
const UNDEFINED: u16 = 7;
/// The comment's own mark of its encoding.
const UNICODE: &[u8; 8] = b"UNICODE\0";
const ASCII: &[u8; 8] = b"ASCII\0\0\0";
/// A directory of one entry: its count, the entry, the next directory.
const DIRECTORY: u32 = 2 + 12 + 4;

pub(super) fn write(comment: &str) -> Vec<u8> {
    let text: Vec<u8> = comment.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let (first, second) = (8u32, 8 + DIRECTORY);
    let mut out = b"MM\0*".to_vec();
    let put = |out: &mut Vec<u8>, tag: u16, kind: u16, count: u32, value: u32| {
        out.extend(1u16.to_be_bytes());
        out.extend(tag.to_be_bytes());
        out.extend(kind.to_be_bytes());
        out.extend(count.to_be_bytes());
        out.extend(value.to_be_bytes());
        out.extend(0u32.to_be_bytes());
    };
    out.extend(first.to_be_bytes());
    put(&mut out, EXIF_IFD, LONG, 1, second);
    let len = (UNICODE.len() + text.len()) as u32;
    put(&mut out, USER_COMMENT, UNDEFINED, len, second + DIRECTORY);
    out.extend(UNICODE);
    out.extend(text);
    out
}

/// The comment in either byte order; `None` where there is none that can be read.
pub(super) fn read(exif: &[u8]) -> Option<String> {
    let exif = exif.strip_prefix(b"Exif\0\0").unwrap_or(exif);
    let tiff = Tiff {
        bytes: exif,
        is_big: match exif.get(..2)? {
            b"MM" => true,
            b"II" => false,
            _ => return None,
        },
    };
    let (_, exif_ifd) = tiff.entry(tiff.u32(4)? as usize, EXIF_IFD)?;
    let (len, at) = tiff.entry(exif_ifd as usize, USER_COMMENT)?;
    let comment = exif.get(at as usize..(at as usize).checked_add(len as usize)?)?;
    let (mark, text) = comment.split_at_checked(8)?;
    if mark == ASCII {
        return Some(String::from_utf8_lossy(text).into_owned());
    }
    if mark != UNICODE {
        return None;
    }
    // Written big-endian by the library A1111 uses, whatever the file's order.
    let units: Vec<u16> = text
        .chunks_exact(2)
        .map(|b| u16::from_be_bytes([b[0], b[1]]))
        .collect();
    String::from_utf16(&units).ok()
}

struct Tiff<'a> {
    bytes: &'a [u8],
    is_big: bool,
}

impl Tiff<'_> {
    fn u16(&self, at: usize) -> Option<u16> {
        let b: [u8; 2] = self.bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if self.is_big {
            u16::from_be_bytes(b)
        } else {
            u16::from_le_bytes(b)
        })
    }

    fn u32(&self, at: usize) -> Option<u32> {
        let b: [u8; 4] = self.bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.is_big {
            u32::from_be_bytes(b)
        } else {
            u32::from_le_bytes(b)
        })
    }

    /// Count and value of an entry of the directory at `at`.
    fn entry(&self, at: usize, tag: u16) -> Option<(u32, u32)> {
        for i in 0..usize::from(self.u16(at)?) {
            let entry = at.checked_add(2 + 12 * i)?;
            if self.u16(entry)? == tag {
                return Some((self.u32(entry + 4)?, self.u32(entry + 8)?));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_come_back_and_damage_is_no_comment() {
        let text = "a fox — 狐\nSteps: 20, 🦊";
        let exif = write(text);
        assert_eq!(read(&exif).as_deref(), Some(text));
        for cut in 0..exif.len() {
            let _ = read(&exif[..cut]);
        }
        for i in 0..exif.len() {
            let mut broken = exif.clone();
            broken[i] ^= 0xff;
            let _ = read(&broken);
        }
        assert_eq!(read(b""), None);
    }
}
