//! The outer structure of picture files: where their parts lie, and whether all of them are there.
//! No pixel is decoded here and no memory is taken for any, so a damaged or hostile file is told
//! first.

pub(crate) mod jpeg;
pub(crate) mod png;
pub(crate) mod webp;

use crate::limits::Guard;
use crate::{Limits, MediaError};
use nino_files::Opened;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// Formats that are told apart by a file's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Png,
    Jpeg,
    WebP,
    Gif,
}

impl Kind {
    fn of(start: &[u8]) -> Option<Kind> {
        match start {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Kind::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Kind::Jpeg),
            [
                b'R',
                b'I',
                b'F',
                b'F',
                _,
                _,
                _,
                _,
                b'W',
                b'E',
                b'B',
                b'P',
                ..,
            ] => Some(Kind::WebP),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Kind::Gif),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Png => "PNG",
            Kind::Jpeg => "JPEG",
            Kind::WebP => "WebP",
            Kind::Gif => "GIF",
        }
    }
}

/// An open picture file whose first bytes say what it is.
pub(crate) struct PictureFile {
    pub(crate) kind: Kind,
    pub(crate) input: BufReader<Opened>,
}

impl PictureFile {
    /// `None` for a file of no format that is read here.
    pub(crate) fn open(path: &Path) -> Result<Option<PictureFile>, MediaError> {
        let mut input = BufReader::new(Opened::open(path)?);
        let start = read_at(&mut input, 0, 16).unwrap_or_default();
        let failed = crate::io_error(path, "read");
        input.seek(SeekFrom::Start(0)).map_err(failed)?;
        Ok(Kind::of(&start).map(|kind| PictureFile { kind, input }))
    }

    pub(crate) fn guard<'a>(&self, path: &'a Path, limits: &'a Limits) -> Guard<'a> {
        Guard {
            path,
            format: self.kind.name(),
            file_bytes: self.input.get_ref().size(),
            limits,
        }
    }
}

/// Up to `len` bytes at `offset`; fewer where the file ends. Memory grows with what is there.
pub(crate) fn read_at<R: Read + Seek>(
    input: &mut R,
    offset: u64,
    len: u64,
) -> std::io::Result<Vec<u8>> {
    input.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    input.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}
