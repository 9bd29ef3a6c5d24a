//! What a file that is no model is, by its first bytes, in words for people.

/// Bytes of a file's beginning that are looked at.
pub const BYTES: u64 = 64;

/// Beginnings of files, and what such a file is.
const BEGINNINGS: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF87a", "a GIF picture"),
    (b"GIF89a", "a GIF picture"),
    (b"BM", "a BMP picture"),
    (b"II*\0", "a TIFF picture"),
    (b"MM\0*", "a TIFF picture"),
    (b"%PDF", "a PDF document"),
    (b"\x1f\x8b", "a gzip archive: unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it first"),
    (b"Rar!", "a RAR archive: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive: unpack it first"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF\r\n", "an HDF5 file, as Keras writes them"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"YUV4MPEG2", "a Y4M video"),
    (b"\x1aE\xdf\xa3", "a Matroska or WebM video"),
    (
        b"version https://git-lfs",
        "a pointer of Git LFS in place of the file: fetch the file itself",
    ),
];

/// What the file is whose first [`BYTES`] bytes these are; `None` where they tell nothing, or where
/// it may be a model.
pub fn kind(start: &[u8]) -> Option<&'static str> {
    let known = BEGINNINGS
        .iter()
        .find(|(bytes, _)| start.starts_with(bytes));
    if let Some((_, kind)) = known {
        return Some(kind);
    }
    let riff = start.starts_with(b"RIFF");
    match (start.get(4..8), start.get(8..12)) {
        (_, Some(b"WEBP")) if riff => return Some("a WebP picture"),
        (_, Some(b"AVI ")) if riff => return Some("an AVI video"),
        (_, Some(b"WAVE")) if riff => return Some("a sound"),
        (Some(b"ftyp"), Some(b"avif")) => return Some("an AVIF picture"),
        (Some(b"ftyp"), Some(b"heic" | b"mif1")) => return Some("a HEIC picture"),
        (Some(b"ftyp"), _) => return Some("an MP4 video"),
        _ => {}
    }
    let text = text(start)?.trim_start().to_ascii_lowercase();
    Some(match text.chars().next()? {
        '<' if text.starts_with("<!doctype html") || text.starts_with("<html") => {
            "a web page: the download gave a page in place of the file"
        }
        '{' | '[' => "a JSON text",
        _ => "a text",
    })
}

/// The beginning as text: UTF-8, of which the last character may be cut, without signs that no
/// text has.
fn text(start: &[u8]) -> Option<&str> {
    let text = match str::from_utf8(start) {
        Ok(text) => text,
        Err(e) if e.error_len().is_none() => str::from_utf8(&start[..e.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    let is_odd = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\x0c');
    (!text.chars().any(is_odd)).then_some(text)
}

/// What the file is, as the end of a message.
pub(crate) fn sentence(start: &[u8]) -> String {
    const SHOWN: usize = 16;
    match (kind(start), start) {
        (_, []) => "it is empty".to_owned(),
        (Some(kind), _) => format!("it is {kind}"),
        (None, _) => format!("starts with {:02x?}", &start[..start.len().min(SHOWN)]),
    }
}

#[cfg(test)]
mod tests {
    use super::{kind, sentence};

    #[test]
    fn files_are_told_by_their_first_bytes() {
        for (start, wanted) in [
            (&b"\x89PNG\r\n\x1a\n\0\0"[..], "it is a PNG picture"),
            (b"RIFF\x10\0\0\0WEBPVP8 ", "it is a WebP picture"),
            (b"\0\0\0\x18ftypmp42", "it is an MP4 video"),
            (b"root:x:0:0:root", "it is a text"),
            ("gr\u{fc}\u{df}e".as_bytes(), "it is a text"),
            (&"\u{72d0}".as_bytes()[..2], "starts with [e7, 8b]"),
            (b" {\"a\": 1}", "it is a JSON text"),
            (b"<!DOCTYPE html><html>", "it is a web page"),
            (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
            (b"", "it is empty"),
        ] {
            let said = sentence(start);
            assert!(said.contains(wanted), "{said:?} is not {wanted:?}");
        }
    }

    #[test]
    fn models_are_nothing_else() {
        for start in [
            &b"GGUF\x03\0\0\0"[..],
            b"PK\x03\x04\0\0",
            b"\x80\x02\x8a\x0a",
            b"\x58\x02\0\0\0\0\0\0{\"a\"",
        ] {
            assert_eq!(kind(start), None, "{start:02x?}");
        }
    }
}
