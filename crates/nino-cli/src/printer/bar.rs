//! A progress bar on the terminal, or the same as JSON lines for a program that shows progress
//! itself (`--json-progress`).

use super::told;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines about one stage come no faster than this.
const APART: Duration = Duration::from_millis(50);

pub(crate) struct Bar {
    drawn: ProgressBar,
    lines: Option<Mutex<Lines>>,
}

/// What JSON lines are made of.
struct Lines {
    stage: String,
    /// Positions of the bar that are one step, tile or frame.
    unit: u64,
    written: Option<(u64, u64, Instant)>,
}

impl Bar {
    pub(super) fn new(len: u64, template: &str, hidden: bool, lines: bool) -> Bar {
        let target = if hidden {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(10)
        };
        let style = ProgressStyle::with_template(template);
        let bar = ProgressBar::with_draw_target(Some(len), target);
        let lines = lines.then(|| {
            Mutex::new(Lines {
                stage: String::new(),
                unit: 1,
                written: None,
            })
        });
        Bar {
            drawn: bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())),
            lines,
        }
    }

    /// With positions that are a share of a step: `unit` of them are one.
    pub(crate) fn in_units_of(self, unit: u64) -> Bar {
        self.with_lines(|lines| lines.unit = unit);
        self
    }

    /// Another part of the work begins, which has no length yet.
    pub(crate) fn begin(&self, stage: &str) {
        self.with_lines(|lines| {
            stage.clone_into(&mut lines.stage);
            lines.written = None;
            told::event(&json!({ "event": "stage", "stage": stage }));
        });
    }

    pub(crate) fn is_hidden(&self) -> bool {
        self.drawn.is_hidden()
    }

    pub(crate) fn set_style(&self, style: ProgressStyle) {
        self.drawn.set_style(style);
    }

    pub(crate) fn set_prefix(&self, text: &'static str) {
        self.drawn.set_prefix(text);
    }

    /// What is being done now.
    pub(crate) fn set_message(&self, text: impl Into<String>) {
        self.drawn.set_message(text.into());
    }

    pub(crate) fn set_length(&self, len: u64) {
        self.drawn.set_length(len);
    }

    pub(crate) fn position(&self) -> u64 {
        self.drawn.position()
    }

    pub(crate) fn set_position(&self, position: u64) {
        self.drawn.set_position(position);
        self.write();
    }

    pub(crate) fn inc(&self, by: u64) {
        self.drawn.inc(by);
        self.write();
    }

    pub(crate) fn reset(&self) {
        self.drawn.reset();
    }

    pub(crate) fn tick(&self) {
        self.drawn.tick();
    }

    /// Calls `print` while the bar is not drawn.
    pub(crate) fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        self.drawn.suspend(print)
    }

    pub(crate) fn finish_and_clear(&self) {
        self.drawn.finish_and_clear();
    }

    fn with_lines(&self, then: impl FnOnce(&mut Lines)) {
        if let Some(lines) = &self.lines {
            then(&mut lines.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// A line of how far the work is, unless the last one is too recent.
    fn write(&self) {
        self.with_lines(|lines| {
            let (done, total) = (self.drawn.position(), self.drawn.length().unwrap_or(0));
            let recent = lines.written.is_some_and(|(last, of, when)| {
                (last, of) == (done, total) || (done < total && when.elapsed() < APART)
            });
            if recent {
                return;
            }
            lines.written = Some((done, total, Instant::now()));
            let share = |n: u64| match lines.unit {
                1 => json!(n),
                unit => json!(n as f64 / unit as f64),
            };
            let message = self.drawn.message();
            let stage = if lines.stage.is_empty() {
                &message
            } else {
                &lines.stage
            };
            told::event(&json!({
                "event": "progress",
                "stage": stage,
                "done": share(done),
                "total": share(total),
            }));
        });
    }
}
