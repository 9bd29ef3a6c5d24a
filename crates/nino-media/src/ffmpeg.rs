//! The `ffmpeg` on the PATH: reads the formats that are not read here, of clips and of audio, and
//! writes MP4.

use crate::audio::from_pipe;
use crate::limits::Guard;
use crate::text::Text;
use crate::{
    Audio, ClipFormat, FrameSink, FrameSource, Limits, MediaError, Picture, ReadOptions, io_error,
};
use nino_files::{Child, ChildError, Opened, Pending, Pipes, Stop};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says little, so that the first line is the reason of a failure.
fn command() -> Command {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-loglevel", "error"]);
    ffmpeg
}

/// An error unless there is an `ffmpeg` to start.
pub(crate) fn is_there(path: &Path) -> Result<(), MediaError> {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.arg("-version");
    let started = Child::start(ffmpeg, Pipes::default(), Stop::never());
    started.map(drop).map_err(failed(path))
}

/// The error about a file that ffmpeg reads or writes.
fn failed(path: &Path) -> impl Fn(ChildError) -> MediaError + '_ {
    |error| match error {
        ChildError::NotFound { .. } => MediaError::NoFfmpeg {
            path: path.to_owned(),
        },
        ChildError::Stopped { .. } => MediaError::Stopped {
            path: path.to_owned(),
        },
        error => MediaError::Ffmpeg {
            path: path.to_owned(),
            what: error.to_string(),
        },
    }
}

/// Frames as PPM on a pipe: each says its size.
pub(crate) struct Frames {
    path: PathBuf,
    file_bytes: u64,
    out: BufReader<Child>,
    options: ReadOptions,
}

impl Frames {
    pub(crate) fn open(path: &Path, options: &ReadOptions) -> Result<Frames, MediaError> {
        // A pipe or a device would block ffmpeg as well.
        let file_bytes = Opened::open(path)?.size();
        let mut ffmpeg = command();
        // Said to be a file: a name such as `http:x` would otherwise be looked for elsewhere.
        let mut input = OsString::from("file:");
        input.push(path);
        ffmpeg
            .arg("-i")
            .arg(input)
            .args(["-f", "image2pipe", "-c:v", "ppm", "-"]);
        let pipes = Pipes {
            input: false,
            output: true,
        };
        let child = Child::start(ffmpeg, pipes, options.stop.clone()).map_err(failed(path))?;
        Ok(Frames {
            path: path.to_owned(),
            file_bytes,
            out: BufReader::new(child),
            options: options.clone(),
        })
    }
}

impl FrameSource for Frames {
    fn next_frame(&mut self) -> Result<Option<Picture>, MediaError> {
        let guard = Guard {
            path: &self.path,
            format: "video",
            file_bytes: self.file_bytes,
            limits: &self.options.limits,
        };
        let frame = read_ppm(&mut self.out, guard);
        match frame {
            // A frame that is cut short is the end of an ffmpeg that failed or was stopped.
            Ok(None) | Err(MediaError::Io { .. }) => {
                self.out.get_mut().finish().map_err(failed(&self.path))?;
            }
            _ => {}
        }
        frame
    }

    fn fps(&self) -> Option<f64> {
        rate(&self.path, self.options.stop.clone())
    }
}

/// The first track of a file's audio.
pub(crate) fn audio(guard: Guard<'_>, options: &ReadOptions) -> Result<Audio, MediaError> {
    let path = guard.path;
    let mut input = OsString::from("file:");
    input.push(path);
    let mut ffmpeg = command();
    ffmpeg.arg("-i").arg(input);
    ffmpeg.args(["-map", "0:a:0", "-c:a", "pcm_f32le", "-f", "wav", "-"]);
    let pipes = Pipes {
        input: false,
        output: true,
    };
    let child = Child::start(ffmpeg, pipes, options.stop.clone()).map_err(failed(path))?;
    let mut out = BufReader::new(child);
    let audio = from_pipe(&mut out, guard);
    // Samples that are cut short, or none, are the end of an ffmpeg that failed or was stopped.
    if !matches!(
        audio,
        Err(MediaError::BeyondLimit { .. } | MediaError::NoMemory { .. })
    ) {
        out.get_mut().finish().map_err(|error| match error {
            ChildError::Failed { said, .. } if said.contains("matches no streams") => {
                MediaError::NoAudio {
                    path: path.to_owned(),
                }
            }
            error => failed(path)(error),
        })?;
    }
    audio?.ok_or_else(|| MediaError::Decode {
        path: path.to_owned(),
        what: "ffmpeg found no audio".to_owned(),
    })
}

/// Frames a second, which stand in the first line of a clip as Y4M.
fn rate(path: &Path, stop: Stop) -> Option<f64> {
    let mut input = OsString::from("file:");
    input.push(path);
    let mut ffmpeg = command();
    ffmpeg.arg("-i").arg(input);
    ffmpeg.args([
        "-frames:v",
        "1",
        "-vf",
        "scale=16:16",
        "-pix_fmt",
        "yuv420p",
    ]);
    ffmpeg.args(["-f", "yuv4mpegpipe", "-"]);
    let pipes = Pipes {
        input: false,
        output: true,
    };
    let mut child = Child::start(ffmpeg, pipes, stop).ok()?;
    let mut said = Vec::new();
    (&mut child).take(1024).read_to_end(&mut said).ok()?;
    let line = said.split(|b| *b == b'\n').next()?;
    crate::y4m::rate(&String::from_utf8_lossy(line))
}

/// A binary PPM of 8 bits; `None` at the end.
pub(crate) fn read_ppm(
    input: &mut impl BufRead,
    guard: Guard<'_>,
) -> Result<Option<Picture>, MediaError> {
    let wrong = |what: String| MediaError::Decode {
        path: guard.path.to_owned(),
        what,
    };
    let failed = io_error(guard.path, "read a whole frame");
    let mut header = [0u64; 3];
    let mut magic = String::new();
    for i in 0..4 {
        let word = word(input).map_err(&failed)?;
        match (i, word.parse()) {
            (0, _) if word.is_empty() => return Ok(None),
            (0, _) => magic = word,
            (_, Ok(n)) => header[i - 1] = n,
            _ => return Err(wrong(format!("{word:?} in a frame's header"))),
        }
    }
    let [width, height, depth] = header;
    if magic != "P6" || depth != 255 || width == 0 || height == 0 {
        let what = format!("a frame of {magic} {width}x{height}, depth {depth}");
        return Err(wrong(what));
    }
    let pixels = guard.size(width, height, 3)?;
    let mut rgb = guard.zeroed(pixels * 3)?;
    input.read_exact(&mut rgb).map_err(failed)?;
    Ok(Some(Picture {
        width: width as usize,
        height: height as usize,
        rgb,
    }))
}

/// How many frames there are in what ffmpeg writes; for tools that test this reader.
pub fn count_ppm_frames(bytes: &[u8], limits: &Limits) -> Result<u64, MediaError> {
    let guard = Guard {
        path: Path::new("frames on a pipe"),
        format: "video",
        file_bytes: bytes.len() as u64,
        limits,
    };
    let (mut input, mut n) = (bytes, 0);
    while read_ppm(&mut input, guard)?.is_some() {
        n += 1;
    }
    Ok(n)
}

/// The next word and the one white space after it.
fn word(input: &mut impl Read) -> std::io::Result<String> {
    let mut word = String::new();
    let mut byte = [0];
    while input.read(&mut byte)? == 1 && word.len() < 16 {
        match byte[0] {
            b if !b.is_ascii_whitespace() => word.push(b.into()),
            _ if word.is_empty() => {}
            _ => break,
        }
    }
    Ok(word)
}

/// The tags of a clip with one of the `keywords`.
pub(crate) fn tags(path: &Path, keywords: &[&str], limits: &Limits) -> Result<Text, MediaError> {
    Opened::open(path)?;
    let mut input = OsString::from("file:");
    input.push(path);
    let mut ffmpeg = command();
    ffmpeg.arg("-i").arg(input).args(["-f", "ffmetadata", "-"]);
    let pipes = Pipes {
        input: false,
        output: true,
    };
    let mut child = Child::start(ffmpeg, pipes, Stop::never()).map_err(failed(path))?;
    let mut said = Vec::new();
    let most = limits.text_bytes;
    let read = (&mut child).take(most + 1).read_to_end(&mut said);
    read.map_err(io_error(path, "read the tags of"))?;
    if said.len() as u64 > most {
        return Err(MediaError::Decode {
            path: path.to_owned(),
            what: format!("carries more than {most} bytes of text"),
        });
    }
    child.finish().map_err(failed(path))?;
    let mut text = Text::default();
    for (keyword, value) in pairs(&String::from_utf8_lossy(&said)) {
        if keywords.contains(&keyword.as_str()) {
            text.found.push((keyword, value));
        } else {
            text.others.push(keyword);
        }
    }
    Ok(text)
}

/// The `key=value` lines of ffmpeg's metadata format, where a backslash takes the meaning from what
/// follows. Only those of the whole file count, which come before any `[SECTION]`.
fn pairs(said: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (mut key, mut value) = (None, String::new());
    let mut chars = said.chars();
    let mut at_start = true;
    while let Some(c) = chars.next() {
        match c {
            '[' if at_start => return found,
            '\\' => value.extend(chars.next()),
            '=' if key.is_none() => key = Some(std::mem::take(&mut value)),
            '\n' => found.extend(key.take().map(|key| (key, std::mem::take(&mut value)))),
            c => value.push(c),
        }
        at_start = c == '\n';
        if at_start {
            value.clear();
        }
    }
    found.extend(key.map(|key| (key, value)));
    found
}

/// A little less than the most bytes that Linux takes for one argument of a command.
const MOST_TAG: usize = 120_000;
/// What is lost where nobody says how much may be.
const CRF: f64 = 17.0;

/// An MP4, made from raw frames on ffmpeg's standard input.
pub(crate) struct Mp4 {
    // Dropped first: it must not write after its file is removed.
    ffmpeg: Child,
    pending: Pending,
    /// The clip's sound, which is removed in the end.
    _sound: Option<Pending>,
}

impl Mp4 {
    pub(crate) fn create(path: &Path, clip: &ClipFormat) -> Result<Mp4, MediaError> {
        let (pending, _file) = Pending::file(path)?;
        let sound = clip.audio.as_ref().map(|audio| sound(path, clip, audio));
        let sound = sound.transpose()?;
        let size = format!("{}x{}", clip.width, clip.height);
        let crf = clip.crf.unwrap_or(CRF).to_string();
        let mut ffmpeg = command();
        ffmpeg
            .args(["-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", &size])
            .args(["-r", &clip.fps.to_string(), "-i", "-"]);
        if let Some(sound) = &sound {
            ffmpeg.arg("-i").arg(sound.temporary());
            ffmpeg.args(["-map", "0:v", "-map", "1:a", "-c:a", "aac"]);
        }
        ffmpeg
            // Players take BT.709 for granted in large videos and nothing in small ones: it is
            // used, and said.
            .args(["-vf", "scale=out_color_matrix=bt709:out_range=tv"])
            .args(["-color_range", "tv", "-colorspace", "bt709"])
            .args(["-color_primaries", "bt709", "-color_trc", "bt709"])
            .args(["-c:v", "libx264", "-crf", &crf, "-pix_fmt", "yuv420p"])
            .args(["-movflags", "+faststart+use_metadata_tags"]);
        for (keyword, text) in &clip.text {
            // More than an argument can be is left out.
            if text.len() < MOST_TAG {
                ffmpeg.arg("-metadata").arg(format!("{keyword}={text}"));
            }
        }
        ffmpeg.args(["-f", "mp4"]).arg(pending.temporary());
        let pipes = Pipes {
            input: true,
            output: false,
        };
        let ffmpeg = Child::start(ffmpeg, pipes, clip.stop.clone()).map_err(failed(path))?;
        Ok(Mp4 {
            ffmpeg,
            pending,
            _sound: sound,
        })
    }

    /// Waits for its end; an error with its own words when that is not a good one.
    fn end(&mut self) -> Result<(), MediaError> {
        self.ffmpeg.finish().map_err(failed(self.pending.target()))
    }
}

impl FrameSink for Mp4 {
    fn frame(&mut self, picture: &Picture) -> Result<(), MediaError> {
        if self.ffmpeg.write_all(&picture.rgb).is_ok() {
            return Ok(());
        }
        // It knows better why it no longer takes frames. That it does not is no broken pipe of
        // ours.
        self.end()?;
        Err(MediaError::Encode {
            path: self.pending.target().to_owned(),
            what: "ffmpeg ended before it had all frames".to_owned(),
        })
    }

    fn finish(mut self: Box<Self>) -> Result<(), MediaError> {
        self.end()?;
        let Mp4 { pending, .. } = *self;
        Ok(pending.keep()?)
    }
}

/// A clip's sound beside it, as long as the clip at most.
fn sound(path: &Path, clip: &ClipFormat, audio: &Audio) -> Result<Pending, MediaError> {
    let (pending, file) = Pending::file(&path.with_extension("wav"))?;
    let samples = (f64::from(audio.rate) / clip.fps * clip.n_frames as f64).ceil();
    let mut out = BufWriter::new(file);
    let written = audio.first(samples as usize).write_wav(&mut out);
    let written = written.and_then(|()| out.flush());
    written.map_err(io_error(path, "write the sound of"))?;
    Ok(pending)
}

#[cfg(test)]
mod tests {
    use super::pairs;

    #[test]
    fn tags_are_read_with_what_was_escaped() {
        let said = ";FFMETADATA1\nmajor_brand=isom\nnino={\"a\"\\=\\;1}\nprompt=two\\\nlines\n\
                    [CHAPTER]\nnino=no\n";
        let own = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        let expected = [
            own("major_brand", "isom"),
            own("nino", "{\"a\"=;1}"),
            own("prompt", "two\nlines"),
        ];
        assert_eq!(pairs(said), expected);
        assert_eq!(pairs(""), []);
    }
}
