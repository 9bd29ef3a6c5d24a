//! Where decoded pictures go: one file, one per batch element, or a video.

use crate::failure::Usage;
use crate::interrupt;
use crate::naming::numbered;
use crate::stdout;
use anyhow::Result;
use nino_engine::media::{
    ClipFormat, FrameSink, MediaError, PictureOptions, can_write_picture, can_write_video,
    create_video, has_room, write_picture,
};
use nino_engine::{EngineError, Latent, Picture, VaeFile};
use std::path::{Path, PathBuf};

pub(super) struct Sink {
    output: PathBuf,
    batch: usize,
    /// Of a picture.
    size: (usize, usize),
    n_frames: usize,
    is_still: bool,
    fps: f64,
    video: Option<Box<dyn FrameSink>>,
    files: Vec<PathBuf>,
}

impl Sink {
    pub(super) fn new(output: &Path, latent: &Latent, vae: &VaeFile, fps: f64) -> Result<Sink> {
        let n_frames = vae.kind.n_frames(latent.frames);
        let side = vae.kind.scale();
        let size = (latent.width * side, latent.height * side);
        let is_still = if stdout::is_meant(output) {
            if n_frames * latent.batch > 1 {
                let text = "-o - writes one image to standard output, and this latent has several";
                return Err(Usage(text.to_owned()).into());
            }
            true
        } else {
            has_room(output, size)?;
            is_still(output, n_frames, vae)?
        };
        Ok(Sink {
            output: output.to_owned(),
            batch: latent.batch,
            size,
            n_frames,
            is_still,
            fps,
            video: None,
            files: Vec::new(),
        })
    }

    pub(super) fn is_still(&self) -> bool {
        self.is_still
    }

    pub(super) fn picture_bytes(&self) -> usize {
        self.size.0 * self.size.1 * 3
    }

    pub(super) fn take(
        &mut self,
        b: usize,
        frame: usize,
        picture: &Picture,
    ) -> Result<(), EngineError> {
        if stdout::is_meant(&self.output) {
            return Ok(stdout::picture(picture, &PictureOptions::default())?);
        }
        if self.is_still {
            let path = self.path(b);
            write_picture(&path, picture, &[])?;
            self.files.push(path);
            return Ok(());
        }
        if frame == 0 {
            self.finish_video()?;
            let path = self.path(b);
            let clip = ClipFormat {
                width: picture.width,
                height: picture.height,
                n_frames: self.n_frames,
                fps: self.fps,
                text: Vec::new(),
                has_opacity: false,
                audio: None,
                crf: None,
                stop: interrupt::stop(),
            };
            self.video = Some(create_video(&path, &clip)?);
            self.files.push(path);
        }
        match &mut self.video {
            Some(video) => Ok(video.frame(picture)?),
            None => Ok(()),
        }
    }

    pub(super) fn finish(mut self) -> Result<Vec<PathBuf>> {
        self.finish_video()?;
        Ok(self.files)
    }

    fn finish_video(&mut self) -> Result<(), EngineError> {
        match self.video.take() {
            Some(video) => Ok(video.finish()?),
            None => Ok(()),
        }
    }

    /// `out.png`, or `out_00000.png` and so on for a batch.
    fn path(&self, b: usize) -> PathBuf {
        if self.batch == 1 {
            return self.output.clone();
        }
        numbered(&self.output, b)
    }
}

/// Whether the output is a picture; an error where it can be neither that nor a clip. Said now, not
/// after the decode. A clip of one frame may be either: the file's name tells.
fn is_still(output: &Path, n_frames: usize, vae: &VaeFile) -> Result<bool, MediaError> {
    let picture = can_write_picture(output);
    let is_named_so = !matches!(picture, Err(MediaError::UnknownFormat { .. }));
    let is_still = vae.kind.time_scale().is_none() || (n_frames == 1 && is_named_so);
    if is_still {
        picture?;
    } else {
        can_write_video(output)?;
    }
    Ok(is_still)
}
