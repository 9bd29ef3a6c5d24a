//! MP4 through the `ffmpeg` on the PATH, which takes raw frames on its standard input.

use super::{FrameSink, MediaError, Pending, io_error};
use crate::Picture;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub(super) struct Mp4 {
    ffmpeg: Child,
    pending: Pending,
}

impl Mp4 {
    pub(super) fn create(
        path: &Path,
        (width, height): (usize, usize),
        fps: f64,
    ) -> Result<Mp4, MediaError> {
        let pending = Pending::new(path);
        let ffmpeg = Command::new("ffmpeg")
            .args([
                "-loglevel",
                "error",
                "-y",
                "-f",
                "rawvideo",
                "-pix_fmt",
                "rgb24",
            ])
            .args([
                "-s",
                &format!("{width}x{height}"),
                "-r",
                &fps.to_string(),
                "-i",
                "-",
            ])
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
        match ffmpeg {
            Ok(ffmpeg) => Ok(Mp4 { ffmpeg, pending }),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(MediaError::NoFfmpeg {
                path: path.to_owned(),
            }),
            Err(source) => Err(io_error(path, "start ffmpeg")(source)),
        }
    }
}

impl FrameSink for Mp4 {
    fn frame(&mut self, picture: &Picture) -> Result<(), MediaError> {
        match &mut self.ffmpeg.stdin {
            Some(pipe) => pipe
                .write_all(&picture.rgb)
                .map_err(io_error(&self.pending.path, "give a frame to ffmpeg")),
            None => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<(), MediaError> {
        drop(self.ffmpeg.stdin.take());
        let mut said = String::new();
        if let Some(mut errors) = self.ffmpeg.stderr.take() {
            // What it said is only for the message; a pipe that breaks says nothing.
            let _ = errors.read_to_string(&mut said);
        }
        let status = self
            .ffmpeg
            .wait()
            .map_err(io_error(&self.pending.path, "wait for ffmpeg"))?;
        if !status.success() {
            let what = format!("ffmpeg failed ({status}): {}", said.trim());
            return Err(MediaError::Encode {
                path: self.pending.path.clone(),
                what,
            });
        }
        let Mp4 { ffmpeg: _, pending } = { *self };
        pending.keep()
    }
}
