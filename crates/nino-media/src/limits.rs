//! What a file may unpack to. A picture may come from anybody, and a file of a hundred bytes can
//! say that it has four thousand million pixels.

use crate::MediaError;
use std::path::Path;

/// Limits on what is read out of one file. They are checked against its headers before anything of
/// that size is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pixels of a picture, or of a frame of a clip.
    pub pixels: u64,
    /// Frames of a clip.
    pub frames: u64,
    /// Bytes held at once while a picture or a frame is decoded, the picture included.
    pub bytes_unpacked: u64,
    /// Bytes of all the text that a picture carries, as stored and as unpacked.
    pub text_bytes: u64,
    /// Bytes of a color profile, unpacked.
    pub profile_bytes: u64,
}

impl Default for Limits {
    /// Pictures of a hundred megapixels in less than a gibibyte.
    fn default() -> Limits {
        Limits {
            pixels: 100_000_000,
            frames: 100_000,
            bytes_unpacked: 896 << 20,
            text_bytes: 16 << 20,
            profile_bytes: 16 << 20,
        }
    }
}

impl Limits {
    /// The default limits, and never more than `bytes` at once: for callers that have a budget.
    pub fn within(bytes: u64) -> Limits {
        let most = Limits::default();
        Limits {
            bytes_unpacked: most.bytes_unpacked.min(bytes),
            text_bytes: most.text_bytes.min(bytes),
            profile_bytes: most.profile_bytes.min(bytes),
            ..most
        }
    }
}

/// One file and the limits it is held to.
#[derive(Clone, Copy)]
pub(crate) struct Guard<'a> {
    pub(crate) path: &'a Path,
    /// Such as "PNG", for messages.
    pub(crate) format: &'static str,
    pub(crate) file_bytes: u64,
    pub(crate) limits: &'a Limits,
}

impl Guard<'_> {
    /// Checks the size of a picture or frame that takes `pixel_bytes` a pixel while it is decoded.
    /// Returns its number of pixels.
    pub(crate) fn size(
        &self,
        width: u64,
        height: u64,
        pixel_bytes: u64,
    ) -> Result<usize, MediaError> {
        let pixels = width.saturating_mul(height);
        if pixels > self.limits.pixels {
            let what = format!("has {width}x{height} pixels");
            return Err(self.beyond(what, self.limits.pixels, "pixels"));
        }
        self.bytes(
            &format!("{width}x{height} pixels"),
            pixels.saturating_mul(pixel_bytes),
        )?;
        Ok(pixels as usize)
    }

    /// Checks bytes that are held while the file is decoded; `what` they are for.
    pub(crate) fn bytes(&self, what: &str, bytes: u64) -> Result<(), MediaError> {
        if bytes <= self.limits.bytes_unpacked {
            return Ok(());
        }
        let what = format!("needs {bytes} bytes of memory for {what}");
        Err(self.beyond(what, self.limits.bytes_unpacked, "bytes"))
    }

    pub(crate) fn frames(&self, frames: u64) -> Result<(), MediaError> {
        if frames <= self.limits.frames {
            return Ok(());
        }
        let what = format!("has {frames} frames or more");
        Err(self.beyond(what, self.limits.frames, "frames"))
    }

    pub(crate) fn beyond(&self, what: String, most: u64, unit: &'static str) -> MediaError {
        MediaError::BeyondLimit {
            path: self.path.to_owned(),
            format: self.format,
            file_bytes: self.file_bytes,
            what,
            most,
            unit,
        }
    }

    pub(crate) fn damaged(&self, what: impl Into<String>) -> MediaError {
        MediaError::Damaged {
            path: self.path.to_owned(),
            format: self.format,
            what: what.into(),
        }
    }

    /// So many zero bytes, or the error that there is no memory for them.
    pub(crate) fn zeroed(&self, bytes: usize) -> Result<Vec<u8>, MediaError> {
        let mut buffer = self.with_room(bytes)?;
        buffer.resize(bytes, 0);
        Ok(buffer)
    }

    /// Room for so many values, or the error that there is no memory for them.
    pub(crate) fn with_room<T>(&self, n: usize) -> Result<Vec<T>, MediaError> {
        nino_files::with_room(n).map_err(|_| MediaError::NoMemory {
            path: self.path.to_owned(),
            bytes: n * size_of::<T>(),
        })
    }
}
