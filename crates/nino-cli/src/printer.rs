//! Standard output and progress. Text or one JSON document goes to standard output, everything else
//! to standard error, so that output can be piped. Control characters in text are shown, not acted
//! on ([`Visible`]).

use crate::args::OutputArgs;
use crate::visible::Visible;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

#[derive(Clone, Copy)]
pub(crate) struct Printer {
    pub(crate) json: bool,
    quiet: bool,
}

impl Printer {
    pub(crate) fn new(args: &OutputArgs) -> Printer {
        Printer {
            json: args.json,
            quiet: args.quiet,
        }
    }

    /// Prints text unless JSON was asked for.
    pub(crate) fn text(self, text: impl Display) -> Result<()> {
        if !self.json {
            let text = text.to_string();
            writeln!(io::stdout().lock(), "{}", Visible(&text))?;
        }
        Ok(())
    }

    /// Prints the verb's one JSON document, if JSON was asked for.
    pub(crate) fn document(self, value: &impl Serialize) -> Result<()> {
        if self.json {
            // Whole or not at all: an error is a document too.
            let text = serde_json::to_string_pretty(value)?;
            let mut out = io::stdout().lock();
            writeln!(out, "{text}")?;
            out.flush()?;
        }
        Ok(())
    }

    /// A bar on standard error; invisible in pipes, with `--quiet` and with `--json`.
    pub(crate) fn progress(self, len: u64) -> ProgressBar {
        self.bar(
            len,
            "{bar:24} {pos}/{len} {elapsed}, {eta} to go  {wide_msg}",
        )
    }

    /// The same for work whose length is not a number of things.
    pub(crate) fn percent(self, len: u64) -> ProgressBar {
        self.bar(
            len,
            "{bar:24} {percent}% {elapsed}, {eta} to go  {prefix} {wide_msg}",
        )
    }

    fn bar(self, len: u64, template: &str) -> ProgressBar {
        let hidden = self.quiet || self.json || !io::stderr().is_terminal();
        let target = if hidden {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(10)
        };
        let style = ProgressStyle::with_template(template);
        let bar = ProgressBar::with_draw_target(Some(len), target);
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }
}

/// Prints an error on standard error, and as JSON on standard output where that was asked for.
pub(crate) fn failure(json: bool, sentence: &str, hints: &[String]) {
    let mut err = io::stderr().lock();
    // Nothing is left to tell the user with when standard error is gone.
    let _ = writeln!(err, "error: {}", Visible(sentence));
    for hint in hints {
        let _ = writeln!(err, "hint: {}", Visible(hint));
    }
    if json {
        failure_document(sentence, hints);
    }
}

/// An error as the one JSON document on standard output.
pub(crate) fn failure_document(sentence: &str, hints: &[String]) {
    let value = serde_json::json!({ "error": sentence, "hints": hints });
    let _ = writeln!(io::stdout().lock(), "{value:#}");
}

/// One line on standard error that is neither a result nor an error.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", Visible(line));
}
