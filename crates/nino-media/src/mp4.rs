//! MP4 through the `ffmpeg` on the PATH, which takes raw frames on its standard input.

use super::{FrameSink, MediaError, Pending, io_error};
use crate::Picture;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub(super) struct Mp4 {
    // Dropped first: it must not write after its file is removed.
    ffmpeg: Running,
    pending: Pending,
}

/// Ends with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The `ffmpeg` on the PATH. Ctrl-C is for us to act on: it gets a process group of its own.
pub(super) fn command() -> Command {
    let mut ffmpeg = Command::new("ffmpeg");
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut ffmpeg, 0);
    ffmpeg.args(["-loglevel", "error"]);
    ffmpeg
}

/// What it said, in one line: the first, which the others follow from.
pub(super) fn first_line(said: &str) -> &str {
    said.trim().lines().next().unwrap_or("it did not say why")
}

/// An error unless there is an `ffmpeg` to start.
pub(super) fn is_there(path: &Path) -> Result<(), MediaError> {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.arg("-version").stdin(Stdio::null());
    let status = ffmpeg.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.map(drop).map_err(|e| not_started(path, e))
}

pub(super) fn not_started(path: &Path, error: std::io::Error) -> MediaError {
    match error.kind() {
        ErrorKind::NotFound => MediaError::NoFfmpeg {
            path: path.to_owned(),
        },
        _ => io_error(path, "start ffmpeg")(error),
    }
}

impl Mp4 {
    pub(super) fn create(
        path: &Path,
        (width, height): (usize, usize),
        fps: f64,
    ) -> Result<Mp4, MediaError> {
        let pending = Pending::new(path);
        let ffmpeg = command()
            .args(["-y", "-f", "rawvideo", "-pix_fmt", "rgb24"])
            .args([
                "-s",
                &format!("{width}x{height}"),
                "-r",
                &fps.to_string(),
                "-i",
                "-",
            ])
            // Players take BT.709 for granted in large videos and nothing in small ones: it is used, and
            // said.
            .args(["-vf", "scale=out_color_matrix=bt709:out_range=tv"])
            .args(["-color_range", "tv", "-colorspace", "bt709"])
            .args(["-color_primaries", "bt709", "-color_trc", "bt709"])
            .args([
                "-c:v",
                "libx264",
                "-crf",
                "17",
                "-pix_fmt",
                "yuv420p",
                "-movflags",
                "+faststart",
                "-f",
                "mp4",
            ])
            .arg(&pending.temporary)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        Ok(Mp4 {
            ffmpeg: Running(ffmpeg.map_err(|e| not_started(path, e))?),
            pending,
        })
    }

    /// Waits for its end; an error with its own words when that is not a good one.
    fn end(&mut self) -> Result<(), MediaError> {
        drop(self.ffmpeg.0.stdin.take());
        let mut said = String::new();
        if let Some(mut errors) = self.ffmpeg.0.stderr.take() {
            // What it said is only for the message; a pipe that breaks says nothing.
            let _ = errors.read_to_string(&mut said);
        }
        let status = self.ffmpeg.0.wait();
        let status = status.map_err(io_error(&self.pending.path, "wait for ffmpeg"))?;
        if status.success() {
            return Ok(());
        }
        Err(MediaError::Encode {
            path: self.pending.path.clone(),
            what: format!("ffmpeg failed ({status}): {}", first_line(&said)),
        })
    }
}

impl FrameSink for Mp4 {
    fn frame(&mut self, picture: &Picture) -> Result<(), MediaError> {
        let Some(pipe) = &mut self.ffmpeg.0.stdin else {
            return Ok(());
        };
        if pipe.write_all(&picture.rgb).is_ok() {
            return Ok(());
        }
        // It knows better why it no longer takes frames. That it does not is no broken pipe of ours.
        self.end()?;
        Err(MediaError::Encode {
            path: self.pending.path.clone(),
            what: "ffmpeg ended before it had all frames".to_owned(),
        })
    }

    fn finish(mut self: Box<Self>) -> Result<(), MediaError> {
        self.end()?;
        let Mp4 { ffmpeg: _, pending } = *self;
        pending.keep()
    }
}
