//! What a person watching sees: the stage, a bar with steps, rate and time left, and previews.

use super::graphics::Graphics;
use crate::interrupt;
use crate::printer::{self, Bar, Printer};
use indicatif::{ProgressState, ProgressStyle};
use nino_engine::media::{ClipFormat, MediaError, create_video, write_picture};
use nino_engine::{Event, Picture, Stage};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;

pub(crate) struct Screen {
    bar: Bar,
    /// `2/4 `, when several pictures are made.
    prefix: String,
    /// The pass over the latent that runs: 0, or 1 for the second.
    pass: usize,
    graphics: Option<Graphics>,
    /// Rows above the bar are set aside for the picture.
    drawn: bool,
    file: Option<PathBuf>,
    /// Previews of a clip that were shown.
    previews: usize,
}

/// Frames a second of a clip's preview: one for each latent frame of four.
const PREVIEW_FPS: f64 = 4.0;

/// Text rows a preview takes.
const ROWS: usize = 14;

impl Screen {
    /// `graphics` are the terminal's, if it has any and they are wanted; `file` is written over and
    /// over.
    pub(crate) fn new(
        printer: Printer,
        graphics: Option<Graphics>,
        file: Option<PathBuf>,
    ) -> Screen {
        let bar = printer.progress(1);
        Screen {
            graphics: graphics.filter(|_| !bar.is_hidden()),
            bar,
            prefix: String::new(),
            pass: 0,
            drawn: false,
            file,
            previews: 0,
        }
    }

    /// Whether anyone looks at previews.
    pub(crate) fn shows_previews(&self) -> bool {
        self.graphics.is_some() || self.file.is_some()
    }

    /// Picture `i` of `n` is next.
    pub(crate) fn next(&mut self, i: usize, n: usize) {
        self.pass = 0;
        self.prefix = if n > 1 {
            format!("{}/{n} ", i + 1)
        } else {
            String::new()
        };
    }

    pub(crate) fn hear(&mut self, event: Event) {
        match event {
            Event::Stage(stage) => {
                self.bar.set_style(waiting());
                let stage = match stage {
                    Stage::Sample if self.pass > 0 => "second pass",
                    stage => stage.name(),
                };
                self.bar.set_message(format!("{}{stage}", self.prefix));
                self.bar.begin(stage);
                self.bar.reset();
                self.bar.tick();
            }
            Event::Pass { index, .. } => self.pass = index,
            Event::Progress { done, total } => {
                if total > 1 && done <= 1 {
                    self.bar.set_style(stepping());
                }
                self.bar.set_length(total as u64);
                self.bar.set_position(done as u64);
            }
            Event::Within(_) => self.bar.tick(),
            Event::Preview(picture) => {
                self.draw(&picture);
                self.write(&picture);
            }
            Event::PreviewClip(frames) => {
                // A terminal shows one frame at a time: the next one with every preview.
                if let Some(frame) = frames.get(self.previews % frames.len().max(1)) {
                    self.draw(frame);
                }
                self.previews += 1;
                self.write_clip(&frames);
            }
            Event::Note(text) => self.bar.suspend(|| printer::note(&text)),
        }
    }

    /// Shows a finished picture where its previews were.
    pub(crate) fn finished(&mut self, picture: &Picture) {
        if self.drawn {
            let longest = picture.width.max(picture.height).max(1);
            let fit = |side: usize| (side * 320 / longest).clamp(1, side);
            self.draw(&picture.fitted(fit(picture.width), fit(picture.height)));
        }
    }

    pub(crate) fn close(&self) {
        self.bar.finish_and_clear();
    }

    fn draw(&mut self, picture: &Picture) {
        let Some(graphics) = self.graphics else {
            return;
        };
        let mut text = String::new();
        if !self.drawn {
            text.push_str(&"\n".repeat(ROWS));
            self.drawn = true;
        }
        // From the bar's line up to the picture's first, and back.
        let _ = write!(text, "\x1b7\x1b[{ROWS}A\r");
        text.push_str(&graphics.picture(picture, ROWS));
        text.push_str("\x1b8");
        self.bar.suspend(|| {
            let mut err = io::stderr().lock();
            // A terminal that went away ends the program elsewhere.
            let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
        });
    }

    fn write(&mut self, picture: &Picture) {
        let Some(path) = &self.file else { return };
        let written = write_picture(path, picture, &[]);
        self.told(written);
    }

    /// Writes an animated picture, or its first frame where the format has none.
    fn write_clip(&mut self, frames: &[Picture]) {
        let Some(path) = &self.file else { return };
        let moves = path.extension().is_some_and(|e| e != "jpg" && e != "jpeg");
        let Some(first) = frames.first() else { return };
        if !moves {
            return self.write(first);
        }
        let clip = ClipFormat {
            width: first.width,
            height: first.height,
            n_frames: frames.len(),
            fps: PREVIEW_FPS,
            has_opacity: false,
            audio: None,
            crf: None,
            text: Vec::new(),
            stop: interrupt::stop(),
        };
        let written = create_video(path, &clip).and_then(|mut sink| {
            frames.iter().try_for_each(|frame| sink.frame(frame))?;
            sink.finish()
        });
        self.told(written);
    }

    /// A preview that cannot be written is told, and there are no more.
    fn told(&mut self, written: Result<(), MediaError>) {
        if let Err(error) = written {
            self.bar
                .suspend(|| printer::note(&format!("no more previews: {error}")));
            self.file = None;
        }
    }
}

/// Of a stage that says nothing of how far it is.
fn waiting() -> ProgressStyle {
    style("{msg:12} {elapsed}")
}

fn stepping() -> ProgressStyle {
    style("{msg:12} {bar:24} {pos}/{len}  {rate:>10}  {elapsed}, {eta} left").with_key("rate", rate)
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// `2.4 it/s`, or `3.1 s/it` when slower than one a second.
fn rate(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    let rate = state.per_sec();
    let written = if rate >= 1.0 {
        write!(out, "{rate:.1} it/s")
    } else if rate > 0.0 && state.pos() > 0 {
        write!(out, "{:.1} s/it", 1.0 / rate)
    } else {
        Ok(())
    };
    // Nothing but the bar is lost.
    let _ = written;
}
