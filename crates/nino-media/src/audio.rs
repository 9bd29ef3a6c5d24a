//! Audio in memory and as files: WAV is read by ourselves, everything else through the `ffmpeg` on
//! the PATH.

mod resample;
#[cfg(test)]
mod tests;
mod wav;

use crate::limits::Guard;
use crate::{Limits, MediaError, ReadOptions, ffmpeg, io_error};
use nino_files::Opened;
use std::io::{BufReader, Write};
use std::path::Path;

/// Samples of one or more channels.
#[derive(Clone, Debug, PartialEq)]
pub struct Audio {
    /// Samples a second of each channel.
    pub rate: u32,
    pub channels: usize,
    /// `[channels, n]`, from -1 to 1 where a file has integers.
    pub samples: Vec<f32>,
}

impl Audio {
    /// Samples of each channel.
    pub fn len(&self) -> usize {
        self.samples.len() / self.channels.max(1)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn seconds(&self) -> f64 {
        self.len() as f64 / f64::from(self.rate.max(1))
    }

    /// The channels, each with its samples.
    pub fn by_channel(&self) -> impl Iterator<Item = &[f32]> {
        self.samples.chunks_exact(self.len().max(1))
    }

    /// The mean of the channels.
    #[must_use]
    pub fn mono(&self) -> Audio {
        let share = 1.0 / self.channels.max(1) as f32;
        let mut samples = vec![0.0; self.len()];
        for channel in self.by_channel() {
            samples.iter_mut().zip(channel).for_each(|(s, v)| *s += v);
        }
        samples.iter_mut().for_each(|s| *s *= share);
        Audio {
            rate: self.rate,
            channels: 1,
            samples,
        }
    }

    /// The first `n` samples of each channel, or all of them where there are fewer.
    #[must_use]
    pub fn first(&self, n: usize) -> Audio {
        let channels = self.by_channel().map(|c| &c[..n.min(c.len())]);
        Audio {
            samples: channels.collect::<Vec<_>>().concat(),
            ..*self
        }
    }

    /// The samples from one time to another, in seconds.
    #[must_use]
    pub fn between(&self, from: f64, to: f64) -> Audio {
        let at = |seconds: f64| (seconds * f64::from(self.rate)).round() as usize;
        let (from, to) = (at(from).min(self.len()), at(to).min(self.len()));
        let channels = self.by_channel().map(|c| &c[from..to.max(from)]);
        Audio {
            samples: channels.collect::<Vec<_>>().concat(),
            ..*self
        }
    }

    /// The same sound at another rate, as torchaudio's `resample` with its defaults computes it.
    #[must_use]
    pub fn resampled(&self, rate: u32) -> Audio {
        if rate == self.rate {
            return self.clone();
        }
        let filter = resample::Filter::new(self.rate, rate);
        let channels = self.by_channel().map(|channel| filter.apply(channel));
        Audio {
            rate,
            channels: self.channels,
            samples: channels.collect::<Vec<_>>().concat(),
        }
    }

    /// Writes it as a WAV of 32-bit floats.
    pub fn write_wav(&self, out: &mut impl Write) -> std::io::Result<()> {
        wav::write(self, out)
    }
}

/// Reads the audio of a file; of several tracks, the first.
pub fn load_audio(path: &Path, options: &ReadOptions) -> Result<Audio, MediaError> {
    if let Some(audio) = load_wav(path, &options.limits)? {
        return Ok(audio);
    }
    let file_bytes = Opened::open(path)?.size();
    ffmpeg::audio(guard(path, file_bytes, &options.limits), options)
}

/// Reads a WAV; `None` of any other file, and of one whose samples are stored in a way that is not
/// read here.
pub fn load_wav(path: &Path, limits: &Limits) -> Result<Option<Audio>, MediaError> {
    let file = Opened::open(path)?;
    let guard = guard(path, file.size(), limits);
    let mut input = BufReader::new(file);
    if !wav::begins(&mut input).map_err(io_error(path, "read"))? {
        return Ok(None);
    }
    let audio = wav::read(&mut input, guard)?;
    input.get_ref().check_unchanged()?;
    Ok(audio)
}

fn guard<'a>(path: &'a Path, file_bytes: u64, limits: &'a Limits) -> Guard<'a> {
    Guard {
        path,
        format: "audio file",
        file_bytes,
        limits,
    }
}

/// What ffmpeg writes to a pipe.
pub(crate) fn from_pipe(
    input: &mut impl std::io::BufRead,
    guard: Guard<'_>,
) -> Result<Option<Audio>, MediaError> {
    if !wav::begins(input).map_err(io_error(guard.path, "read the audio of"))? {
        return Ok(None);
    }
    wav::read(input, guard)
}
