//! Text in the EXIF of a JPEG or WebP, which is a TIFF: A1111's parameters as `UserComment`, in a
//! second directory with one entry, and ComfyUI's texts as plain entries of the first, each with
//! its keyword before it.

const EXIF_IFD: u16 = 0x8769;
const USER_COMMENT: u16 = 0x9286;
/// Entries of text that ComfyUI's animated pictures use: maker, model, and description for others.
const TEXTS: [u16; 3] = [0x010e, 0x010f, 0x0110];
/// Types of TIFF entries.
const PLAIN: u16 = 2;
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

/// Texts by keyword as ComfyUI writes them, `keyword:text`; `None` where there is nothing to write.
/// There is room for three, the first ones.
pub(super) fn write_texts(texts: &[(String, String)]) -> Option<Vec<u8>> {
    let texts = &texts[..texts.len().min(TEXTS.len())];
    if texts.is_empty() {
        return None;
    }
    let n = texts.len() as u32;
    let mut out = [b"MM\0*", &8u32.to_be_bytes()[..], &(n as u16).to_be_bytes()].concat();
    let mut at = 8 + 2 + 12 * n + 4;
    let mut data = Vec::new();
    for (tag, (keyword, text)) in TEXTS.into_iter().zip(texts) {
        let text = format!("{keyword}:{text}\0").into_bytes();
        out.extend([tag, PLAIN].map(u16::to_be_bytes).concat());
        out.extend([text.len() as u32, at].map(u32::to_be_bytes).concat());
        at += text.len() as u32;
        data.extend(text);
    }
    out.extend([0; 4]);
    out.extend(data);
    Some(out)
}

/// The texts with one of the keywords, as [`write_texts`] and ComfyUI leave them.
pub(super) fn read_texts(exif: &[u8], keywords: &[&str]) -> Vec<(String, String)> {
    let found = Tiff::of(exif).map(|tiff| {
        let texts = TEXTS.iter().filter_map(|tag| tiff.text(*tag));
        let split = texts.filter_map(|text| {
            let (keyword, text) = text.split_once(':')?;
            Some((keyword.to_owned(), text.to_owned()))
        });
        split.collect()
    });
    let found: Vec<(String, String)> = found.unwrap_or_default();
    let asked = |(keyword, _): &(String, String)| keywords.contains(&keyword.as_str());
    found.into_iter().filter(asked).collect()
}

/// The comment in either byte order; `None` where there is none that can be read.
pub(super) fn read(exif: &[u8]) -> Option<String> {
    let tiff = Tiff::of(exif)?;
    let exif = tiff.bytes;
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
    fn of(exif: &[u8]) -> Option<Tiff<'_>> {
        let bytes = exif.strip_prefix(b"Exif\0\0").unwrap_or(exif);
        let is_big = match bytes.get(..2)? {
            b"MM" => true,
            b"II" => false,
            _ => return None,
        };
        Some(Tiff { bytes, is_big })
    }

    /// A plain text of the first directory.
    fn text(&self, tag: u16) -> Option<String> {
        let (len, at) = self.entry(self.u32(4)? as usize, tag)?;
        let text = self
            .bytes
            .get(at as usize..(at as usize).checked_add(len as usize)?)?;
        let text = text.split(|&b| b == 0).next()?;
        String::from_utf8(text.to_vec()).ok()
    }

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

    #[test]
    fn texts_come_back_by_their_keywords() {
        let own = |texts: &[(&str, &str)]| -> Vec<(String, String)> {
            let own = texts
                .iter()
                .map(|(k, t)| ((*k).to_owned(), (*t).to_owned()));
            own.collect()
        };
        let texts = own(&[
            ("nino", "{\"a\": \"狐\"}"),
            ("prompt", "{}"),
            ("workflow", "[1:2]"),
        ]);
        let exif = write_texts(&texts).unwrap();
        assert_eq!(read_texts(&exif, &["nino", "prompt", "workflow"]), texts);
        assert_eq!(read_texts(&exif, &["prompt"]), texts[1..2]);
        assert_eq!(write_texts(&[]), None);
        for cut in 0..exif.len() {
            let _ = read_texts(&exif[..cut], &["nino"]);
        }
        for i in 0..exif.len() {
            let mut broken = exif.clone();
            broken[i] ^= 0xff;
            let _ = read_texts(&broken, &["nino"]);
        }
    }
}
