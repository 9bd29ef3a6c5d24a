//! `--from-png`: the flags that made a picture, out of its own metadata, ComfyUI's or A1111's.
//! Flags given beside it win.

mod a1111;
mod comfyui;
mod flags;
#[cfg(test)]
mod tests;

use crate::args::{Cli, GenerateArgs, Verb};
use crate::printer;
use anyhow::Result;
use clap::Parser;
pub(super) use flags::Flags;
use nino_engine::media::{Limits, read_text};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub(crate) enum FromPngError {
    #[error("{}: holds no settings: there is neither nino's, ComfyUI's nor A1111's text in it{}", path.display(), others(found))]
    Nothing { path: PathBuf, found: Vec<String> },
    #[error("{}: its {keyword} text cannot be read: {what}", path.display())]
    Broken {
        path: PathBuf,
        keyword: &'static str,
        what: String,
    },
    #[error("{}: ComfyUI's graph cannot be repeated: {what}", path.display())]
    Graph { path: PathBuf, what: String },
}

fn others(found: &[String]) -> String {
    if found.is_empty() {
        return String::new();
    }
    format!(" (found {})", found.join(", "))
}

/// With `--from-png`, the command line with the picture's flags put in where it says nothing; and
/// the flags that say what the picture is, from either.
pub(super) fn apply(
    args: &GenerateArgs,
    line: &[OsString],
) -> Result<(Option<GenerateArgs>, Flags)> {
    let given = Flags::given(line)?;
    let Some(path) = &args.from_png else {
        return Ok((None, given));
    };
    let recorded = read(path)?;
    for note in &recorded.notes {
        printer::note(&format!("note: {}: {note}", path.display()));
    }
    let merged = recorded.below(&given);
    let line = merged.line(line);
    match Cli::try_parse_from(line)?.verb {
        Verb::Generate(args) => Ok((Some(*args), merged)),
        _ => Ok((None, given)),
    }
}

/// The flags that ComfyUI's graph comes from.
#[cfg(test)]
pub(super) fn of_graph(text: &str) -> Result<Flags, String> {
    comfyui::flags(text)
}

/// The texts that flags are made from; no others are unpacked.
const KEYWORDS: [&str; 3] = ["nino", "prompt", "parameters"];

/// The flags a picture was made with.
fn read(path: &Path) -> Result<Flags> {
    let text = read_text(path, &KEYWORDS, &Limits::default())?;
    let find = |keyword: &str| {
        text.found
            .iter()
            .find(|(k, _)| k == keyword)
            .map(|(_, t)| t)
    };
    if let Some(text) = find("nino") {
        return Ok(Flags::from_json(text).map_err(|what| FromPngError::Broken {
            path: path.to_owned(),
            keyword: "nino",
            what,
        })?);
    }
    if let Some(text) = find("prompt") {
        return Ok(comfyui::flags(text).map_err(|what| FromPngError::Graph {
            path: path.to_owned(),
            what,
        })?);
    }
    if let Some(text) = find("parameters") {
        return Ok(a1111::flags(text).map_err(|what| FromPngError::Broken {
            path: path.to_owned(),
            keyword: "parameters",
            what,
        })?);
    }
    let found = text.others;
    Err(FromPngError::Nothing {
        path: path.to_owned(),
        found,
    }
    .into())
}
