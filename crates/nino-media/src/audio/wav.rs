//! WAV: integers of 16, 24 and 32 bits and floats of 32. A file that ends before its samples do is
//! refused; one whose length was not known when it was written, as on a pipe, ends where it ends.

use super::Audio;
use crate::MediaError;
use crate::limits::Guard;
use std::io::{self, BufRead, Read, Write};

/// Bytes of samples that are read at once, about.
const PIECE: usize = 1 << 16;
/// More than any fixed part of a format takes.
const MOST_FORMAT: u32 = 1 << 12;
const MOST_CHANNELS: u16 = 64;
/// Samples a second.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=1_000_000;
/// Bytes of a sample while it is read: as it comes, and in its channel.
const SAMPLE_BYTES: u64 = 8;

const INTEGERS: u16 = 1;
const FLOATS: u16 = 3;
/// The format is in the first bytes of a longer identifier.
const EXTENSIBLE: u16 = 0xfffe;

/// How samples are stored.
#[derive(Clone, Copy)]
enum Stored {
    I16,
    I24,
    I32,
    F32,
}

struct Format {
    stored: Stored,
    channels: usize,
    rate: u32,
}

/// Whether the input begins as a WAV does. Nothing is read.
pub(super) fn begins(input: &mut impl BufRead) -> io::Result<bool> {
    let start = input.fill_buf()?;
    Ok(start.len() >= 12 && start.starts_with(b"RIFF") && &start[8..12] == b"WAVE")
}

/// The samples of a WAV; `None` where they are stored in a way that is not read here.
pub(super) fn read(input: &mut impl Read, guard: Guard<'_>) -> Result<Option<Audio>, MediaError> {
    let cut = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => guard.damaged("it ends before its samples"),
        _ => crate::io_error(guard.path, "read")(error),
    };
    let mut header = [0; 12];
    input.read_exact(&mut header).map_err(cut)?;
    let mut format = None;
    loop {
        let mut header = [0; 8];
        input.read_exact(&mut header).map_err(cut)?;
        let [a, b, c, d, size @ ..] = header;
        let size = u32::from_le_bytes(size);
        match &[a, b, c, d] {
            b"fmt " => {
                if !(16..=MOST_FORMAT).contains(&size) {
                    return Err(guard.damaged(format!("its format has {size} bytes")));
                }
                let mut bytes = vec![0; size.next_multiple_of(2) as usize];
                input.read_exact(&mut bytes).map_err(cut)?;
                match Format::read(&bytes, guard)? {
                    Some(found) => format = Some(found),
                    None => return Ok(None),
                }
            }
            b"data" => {
                let format = format.ok_or_else(|| guard.damaged("its format is missing"))?;
                return format.samples(input, size, guard).map(Some);
            }
            _ => {
                let size = u64::from(size).next_multiple_of(2);
                let skipped = io::copy(&mut input.take(size), &mut io::sink()).map_err(cut)?;
                if skipped < size {
                    return Err(guard.damaged("it ends before its samples"));
                }
            }
        }
    }
}

impl Format {
    /// At least 16 bytes; `None` where samples are stored in a way that is not read here.
    fn read(bytes: &[u8], guard: Guard<'_>) -> Result<Option<Format>, MediaError> {
        let at = |i: usize| u16::from_le_bytes([bytes[i], bytes[i + 1]]);
        let (channels, bits) = (at(2), at(14));
        let rate = u32::from(at(4)) | u32::from(at(6)) << 16;
        let kind = match at(0) {
            EXTENSIBLE if bytes.len() >= 26 => at(24),
            kind => kind,
        };
        let stored = match (kind, bits) {
            (INTEGERS, 16) => Stored::I16,
            (INTEGERS, 24) => Stored::I24,
            (INTEGERS, 32) => Stored::I32,
            (FLOATS, 32) => Stored::F32,
            _ => return Ok(None),
        };
        if channels == 0 || channels > MOST_CHANNELS || !RATES.contains(&rate) {
            let what = format!("it has {channels} channels of {rate} samples a second");
            return Err(guard.damaged(what));
        }
        Ok(Some(Format {
            stored,
            channels: channels.into(),
            rate,
        }))
    }

    fn samples(
        &self,
        input: &mut impl Read,
        size: u32,
        guard: Guard<'_>,
    ) -> Result<Audio, MediaError> {
        // What is written before the length is known.
        let is_open = size == 0 || size == u32::MAX;
        let each = self.stored.bytes();
        let frame = each * self.channels;
        let most = if is_open {
            u64::MAX
        } else {
            u64::from(size) / frame as u64 * frame as u64
        };
        let mut left = most;
        let mut interleaved: Vec<f32> = Vec::new();
        let mut piece = vec![0; (PIECE / frame).max(1) * frame];
        while left > 0 {
            let wanted = (piece.len() as u64).min(left) as usize;
            let mut found = 0;
            while found < wanted {
                match input.read(&mut piece[found..wanted]) {
                    Ok(0) => break,
                    Ok(n) => found += n,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(crate::io_error(guard.path, "read")(error)),
                }
            }
            if found < wanted && !is_open {
                return Err(guard.damaged("it ends before its samples do"));
            }
            let whole = &piece[..found / frame * frame];
            let n = interleaved.len() + whole.len() / each;
            guard.bytes(&format!("{n} samples"), n as u64 * SAMPLE_BYTES)?;
            interleaved
                .try_reserve(whole.len() / each)
                .map_err(|_| MediaError::NoMemory {
                    path: guard.path.to_owned(),
                    bytes: n * size_of::<f32>(),
                })?;
            interleaved.extend(whole.chunks_exact(each).map(|v| self.stored.value(v)));
            left -= found as u64;
            if found < wanted {
                break;
            }
        }
        if interleaved.is_empty() {
            return Err(guard.damaged("it has no samples"));
        }
        let mut samples = guard.with_room(interleaved.len())?;
        for channel in 0..self.channels {
            samples.extend(interleaved.iter().skip(channel).step_by(self.channels));
        }
        Ok(Audio {
            rate: self.rate,
            channels: self.channels,
            samples,
        })
    }
}

impl Stored {
    fn bytes(self) -> usize {
        match self {
            Stored::I16 => 2,
            Stored::I24 => 3,
            Stored::I32 | Stored::F32 => 4,
        }
    }

    fn value(self, bytes: &[u8]) -> f32 {
        match (self, bytes) {
            (Stored::I16, &[a, b]) => f32::from(i16::from_le_bytes([a, b])) / 32_768.0,
            (Stored::I24, &[a, b, c]) => {
                (i32::from_le_bytes([0, a, b, c]) >> 8) as f32 / 8_388_608.0
            }
            (Stored::I32, &[a, b, c, d]) => {
                i32::from_le_bytes([a, b, c, d]) as f32 / 2_147_483_648.0
            }
            (Stored::F32, &[a, b, c, d]) => {
                // A sample that is no number would make all of them none.
                let value = f32::from_le_bytes([a, b, c, d]);
                if value.is_finite() { value } else { 0.0 }
            }
            _ => 0.0,
        }
    }
}

/// A WAV of 32-bit floats; one that is too long for its header says that its length is not known.
pub(super) fn write(audio: &Audio, out: &mut impl Write) -> io::Result<()> {
    let bytes = audio.samples.len() * size_of::<f32>();
    let size = |more: usize| u32::try_from(bytes + more).unwrap_or(u32::MAX);
    let (channels, frame) = (audio.channels as u16, audio.channels as u16 * 4);
    out.write_all(b"RIFF")?;
    out.write_all(&size(36).to_le_bytes())?;
    out.write_all(b"WAVEfmt ")?;
    out.write_all(&16u32.to_le_bytes())?;
    out.write_all(&[FLOATS, channels].map(u16::to_le_bytes).concat())?;
    out.write_all(&audio.rate.to_le_bytes())?;
    out.write_all(&(audio.rate * u32::from(frame)).to_le_bytes())?;
    out.write_all(&[frame, 32].map(u16::to_le_bytes).concat())?;
    out.write_all(b"data")?;
    out.write_all(&size(0).to_le_bytes())?;
    let n = audio.len();
    for i in 0..n {
        for channel in 0..audio.channels {
            out.write_all(&audio.samples[channel * n + i].to_le_bytes())?;
        }
    }
    Ok(())
}
