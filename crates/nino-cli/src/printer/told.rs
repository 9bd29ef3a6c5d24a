//! What is told beside the result, line by line on standard error. Notes and tips are also kept,
//! because a JSON document repeats them.

use crate::env;
use crate::visible::Visible;
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How lines are printed.
#[derive(Clone, Copy, Default)]
pub(super) struct Style {
    /// Neither notes nor tips.
    pub(super) quiet: bool,
    /// JSON, an object a line.
    pub(super) lines: bool,
}

struct Told {
    style: Style,
    notes: Vec<String>,
    tips: Vec<String>,
}

/// One command line is one process, and notes come from deep inside its work.
static TOLD: Mutex<Told> = Mutex::new(Told {
    style: Style {
        quiet: false,
        lines: false,
    },
    notes: Vec::new(),
    tips: Vec::new(),
});

fn told() -> MutexGuard<'static, Told> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn set_style(style: Style) {
    told().style = style;
}

/// The notes and the tips that were told until now.
pub(super) fn so_far() -> (Vec<String>, Vec<String>) {
    let told = told();
    (told.notes.clone(), told.tips.clone())
}

/// Something the user should know: a request that was changed, something that was left out.
pub(crate) fn note(text: &str) {
    if is_new(&mut told().notes, text) {
        beside("note", text);
    }
}

/// A way to a better result.
pub(crate) fn tip(text: &str) {
    if is_new(&mut told().tips, text) {
        beside("tip", text);
    }
}

/// Keeps a text; what holds for every picture of a run is told once.
fn is_new(known: &mut Vec<String>, text: &str) -> bool {
    let is_new = !known.iter().any(|line| line == text);
    if is_new {
        known.push(text.to_owned());
    }
    is_new
}

fn beside(label: &str, text: &str) {
    if !told().style.quiet && !event(&json!({ "event": label, "text": text })) {
        say(label, text);
    }
}

/// Prints a JSON line where progress is asked for as such; else does nothing and returns false.
pub(crate) fn event(value: &Value) -> bool {
    let lines = told().style.lines;
    if lines {
        // Nothing is left to tell the user with when standard error is gone.
        let _ = writeln!(io::stderr().lock(), "{value}");
    }
    lines
}

/// One line such as `error: text`, the label in color on a terminal.
pub(crate) fn say(label: &str, text: &str) {
    let mut err = io::stderr().lock();
    let colors = err.is_terminal() && env::colors();
    let _ = writeln!(err, "{}", line(label, text, colors));
}

fn line(label: &str, text: &str, colors: bool) -> String {
    let text = Visible(text);
    if !colors {
        return format!("{label}: {text}");
    }
    let color = match label {
        "error" => "1;31",
        "hint" | "tip" => "32",
        _ => "33",
    };
    format!("\x1b[{color}m{label}:\x1b[0m {text}")
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn only_the_label_is_in_color() {
        assert_eq!(line("error", "no", false), "error: no");
        assert_eq!(line("error", "no", true), "\x1b[1;31merror:\x1b[0m no");
        assert_eq!(line("hint", "yes", true), "\x1b[32mhint:\x1b[0m yes");
    }
}
