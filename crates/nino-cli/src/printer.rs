//! What the program prints. The result, as text or as one JSON document, goes to standard output;
//! notes, tips, errors and progress go to standard error, so that output can be piped. Control
//! characters in text are shown, not acted on ([`crate::visible::Visible`]).

mod bar;
mod told;

use crate::args::OutputArgs;
use crate::failure::Failure;
use crate::visible::Visible;
use anyhow::Result;
pub(crate) use bar::Bar;
use serde::Serialize;
use serde_json::json;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
pub(crate) use told::{event, note, say, tip};

#[derive(Clone, Copy)]
pub(crate) struct Printer {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    /// Progress as JSON lines instead of bars.
    lines: bool,
}

/// A document of a verb, with what was told beside it.
#[derive(Serialize)]
struct Document<'a, T> {
    #[serde(flatten)]
    value: &'a T,
    notes: Vec<String>,
    hints: Vec<String>,
}

impl Printer {
    /// Called once: from then on notes and tips are printed as `args` say.
    pub(crate) fn new(args: &OutputArgs) -> Printer {
        let lines = args.json_progress;
        told::set_style(told::Style {
            quiet: args.quiet,
            lines,
        });
        Printer {
            json: args.json,
            quiet: args.quiet,
            lines,
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

    /// Prints the verb's one JSON document, if JSON was asked for. Notes and tips that were told so
    /// far are in it, as `notes` and `hints`.
    pub(crate) fn document(self, value: &impl Serialize) -> Result<()> {
        if self.json {
            let (notes, hints) = told::so_far();
            let document = Document {
                value,
                notes,
                hints,
            };
            // Whole or not at all: an error is a document too.
            let text = serde_json::to_string_pretty(&document)?;
            let mut out = io::stdout().lock();
            writeln!(out, "{text}")?;
            out.flush()?;
        }
        Ok(())
    }

    /// Prints a report on files that were made, or with `--quiet` their paths alone.
    pub(crate) fn files(
        self,
        files: &[PathBuf],
        report: &(impl Serialize + Display),
    ) -> Result<()> {
        if self.quiet {
            files
                .iter()
                .try_for_each(|file| self.text(file.display()))?;
        } else {
            self.text(report)?;
        }
        self.document(report)
    }

    /// A bar on standard error; invisible in pipes, with `--quiet` and with `--json`.
    pub(crate) fn progress(self, len: u64) -> Bar {
        let template = "{bar:24} {pos}/{len} {elapsed}, {eta} left  {wide_msg}";
        Bar::new(len, template, self.is_hidden(), self.lines)
    }

    /// The same for work whose length is not a number of things.
    pub(crate) fn percent(self, len: u64) -> Bar {
        let template = "{bar:24} {percent}% {elapsed}, {eta} left  {prefix} {wide_msg}";
        Bar::new(len, template, self.is_hidden(), self.lines)
    }

    fn is_hidden(self) -> bool {
        self.quiet || self.json || self.lines || !io::stderr().is_terminal()
    }
}

/// Prints an error on standard error, and as JSON on standard output where that was asked for.
pub(crate) fn failure(json: bool, failure: &Failure) {
    if !told::event(&json!({
        "event": "error",
        "error": failure.sentence,
        "kind": failure.kind,
        "hints": failure.hints,
    })) {
        say(failure.label, &failure.sentence);
        for hint in &failure.hints {
            say("hint", hint);
        }
    }
    if json {
        failure_document(failure);
    }
}

/// An error as the one JSON document on standard output.
pub(crate) fn failure_document(failure: &Failure) {
    let (notes, tips) = told::so_far();
    let hints: Vec<&String> = failure.hints.iter().chain(&tips).collect();
    let value = json!({
        "error": failure.sentence,
        "kind": failure.kind,
        "notes": notes,
        "hints": hints,
    });
    // Nothing is left to tell the user with when standard output is gone.
    let _ = writeln!(io::stdout().lock(), "{value:#}");
}
