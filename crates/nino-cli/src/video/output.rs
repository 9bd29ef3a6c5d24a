//! Where a clip goes, and its journal until it is there.

use super::request::Wanted;
use crate::args::VideoArgs;
use crate::failure::UsageWithHint;
use crate::interrupt;
use crate::naming::{make_folder_of, slug, unused};
use crate::overwrite::Guard;
use crate::printer;
use anyhow::Result;
use nino_engine::media::{ClipFormat, FrameSink, can_write_video, create_video, has_room};
use nino_engine::{Audio, EngineError, Journal, Picture, VideoModel};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The clip's file and its journal's.
pub(super) struct Output {
    pub(super) path: PathBuf,
    journal: PathBuf,
}

impl Output {
    /// Says now, not after an hour of sampling, that there is no place for the clip.
    pub(super) fn new(args: &VideoArgs, model: &VideoModel, wanted: &Wanted) -> Result<Output> {
        let request = &wanted.request;
        let path = match &args.output {
            Some(path) => path.clone(),
            None => named(&request.prompt, request.seed.value),
        };
        let inputs = args.image.iter().chain(&args.last_image);
        let inputs = inputs.chain(&args.video).chain(&args.video_mask);
        let inputs = inputs.chain(&args.reference).chain(&args.audio);
        let guard = Guard {
            inputs: inputs.map(|p| ("an image", p.clone())).collect(),
            force: args.force,
        };
        guard.check(&path)?;
        make_folder_of(&path)?;
        can_write_video(&path)?;
        if request.audio.is_some() && !has_sound(&path) {
            printer::note("the video has no sound: only mp4 has room for it, with ffmpeg");
        }
        let scale = model.vae.kind.scale();
        let (width, height) = (request.size.width, request.size.height);
        has_room(&path, (width / scale * scale, height / scale * scale))?;
        Ok(Output::at(path))
    }

    pub(super) fn at(path: PathBuf) -> Output {
        let mut journal = path.clone().into_os_string();
        journal.push(".unfinished");
        Output {
            journal: PathBuf::from(journal),
            path,
        }
    }

    /// The journal that is begun, or gone on with.
    pub(super) fn journal(&self, args: &VideoArgs, settings: &str) -> Result<Option<Journal>> {
        if args.no_journal {
            return Ok(None);
        }
        if !args.resume {
            return Ok(Some(Journal::create(&self.journal, settings)?));
        }
        if !self.journal.is_file() {
            return Err(UsageWithHint {
                sentence: format!(
                    "{} does not exist, so there is nothing to resume",
                    self.journal.display()
                ),
                hint: "--resume needs the command that was stopped, with its --output and --seed"
                    .to_owned(),
            }
            .into());
        }
        Ok(Some(Journal::open(&self.journal, settings)?))
    }

    /// What to do after a failure.
    pub(super) fn told(&self, has_journal: bool) -> String {
        if !has_journal {
            return "the video is not finished".to_owned();
        }
        format!(
            "the video is not finished; the same command with --resume continues from {}",
            self.journal.display()
        )
    }

    /// Removes what is not needed once the clip is there.
    pub(super) fn done(&self) {
        // There may be none.
        let _ = std::fs::remove_file(&self.journal);
    }
}

/// `fox-7.mp4`, or `fox-7.webp` where nothing writes the first.
pub(super) fn named(prompt: &str, seed: u64) -> PathBuf {
    let has_ffmpeg = can_write_video(Path::new("clip.mp4")).is_ok();
    let extension = if has_ffmpeg { "mp4" } else { "webp" };
    unused(
        Path::new(""),
        &format!("{}-{seed}", slug(prompt)),
        extension,
    )
}

/// Whether the format of a clip has room for its sound.
fn has_sound(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("mp4"))
}

/// Frames on their way to the file.
pub(super) struct Clip {
    path: PathBuf,
    n_frames: usize,
    fps: f64,
    audio: Option<Arc<Audio>>,
    text: Vec<(String, String)>,
    sink: Option<Box<dyn FrameSink>>,
}

impl Clip {
    pub(super) fn new(output: &Output, wanted: &Wanted, text: Vec<(String, String)>) -> Clip {
        let audio = wanted.request.audio.clone();
        Clip {
            text,
            audio: audio.filter(|_| has_sound(&output.path)),
            ..Clip::of(&output.path, wanted.request.size.frames, wanted.fps)
        }
    }

    pub(super) fn of(path: &Path, n_frames: usize, fps: f64) -> Clip {
        Clip {
            path: path.to_owned(),
            n_frames,
            fps,
            audio: None,
            text: Vec::new(),
            sink: None,
        }
    }

    pub(super) fn take(&mut self, picture: &Picture) -> Result<(), EngineError> {
        if self.sink.is_none() {
            let clip = ClipFormat {
                width: picture.width,
                height: picture.height,
                n_frames: self.n_frames,
                fps: self.fps,
                text: std::mem::take(&mut self.text),
                has_opacity: false,
                audio: self.audio.take(),
                crf: None,
                stop: interrupt::stop(),
            };
            self.sink = Some(create_video(&self.path, &clip)?);
        }
        match &mut self.sink {
            Some(sink) => Ok(sink.frame(picture)?),
            None => Ok(()),
        }
    }

    pub(super) fn finish(self) -> Result<(), EngineError> {
        match self.sink {
            Some(sink) => Ok(sink.finish()?),
            None => Err(EngineError::NoFrames),
        }
    }
}
