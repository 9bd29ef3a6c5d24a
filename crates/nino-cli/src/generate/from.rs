//! `--from`: what made a picture, out of its own metadata or out of a file with ComfyUI's graph.
//! The flags that nino wrote become flags again; a graph is run as it is. Flags given beside it
//! win.

mod flags;
#[cfg(test)]
mod tests;

use crate::args::{self, GenerateArgs, PlanArgs, PlanVerb, ProfileRunArgs, ProfileVerb, Verb};
use crate::failure::Usage;
use crate::printer;
use anyhow::Result;
use flags::GENERATE;
pub(crate) use flags::{Flags, Repeated};
use nino_engine::media;
use nino_workflow::{Graph, GraphError, Limits, metadata, page};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub(crate) enum FromError {
    #[error("{}: contains no settings of nino, ComfyUI or A1111{}", path.display(), others(found))]
    Nothing { path: PathBuf, found: Vec<String> },
    #[error("{}: its nino metadata cannot be read: {what}", path.display())]
    Broken { path: PathBuf, what: String },
    #[error("{}: is a video: use `nino video --from {0}`", path.display())]
    Clip { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Graph { path: PathBuf, source: GraphError },
}

fn others(found: &[String]) -> String {
    if found.is_empty() {
        return String::new();
    }
    format!(" (found {})", found.join(", "))
}

/// What is to be made.
pub(super) enum Wanted {
    /// What flags say: those of the command line, and a picture's where it says nothing. `args` is
    /// the command line with both; `None` is the command line as it is.
    Flags {
        args: Option<Box<GenerateArgs>>,
        flags: Flags,
    },
    /// What a graph says, and flags beside it.
    Graph { graph: Graph, given: Flags },
}

/// What a file was made with.
enum Recorded {
    Flags(Flags),
    Graph(metadata::Found),
}

/// What the command line asks for, with the file that it names read.
pub(super) fn wanted(args: &GenerateArgs, line: &[OsString]) -> Result<Wanted> {
    let mut given = Flags::given(line)?;
    let Some(path) = &args.from_file else {
        return Ok(Wanted::Flags {
            args: None,
            flags: given,
        });
    };
    let note = |note: &String| printer::note(&format!("{}: {note}", path.display()));
    match read(path)? {
        Recorded::Graph(found) => {
            found.notes.iter().for_each(note);
            given.settle()?;
            if args.prompts.is_some() {
                let text = "--prompts cannot be combined with a ComfyUI graph, which has its own \
                            prompts";
                return Err(Usage(text.to_owned()).into());
            }
            Ok(Wanted::Graph {
                graph: found.graph,
                given,
            })
        }
        Recorded::Flags(recorded) => {
            recorded.notes.iter().for_each(note);
            let mut recorded = recorded;
            if args.prompts.is_some() {
                recorded.remove("prompt");
            }
            let merged = recorded.below(&given);
            let line = merged.line(line);
            let args = match args::parse(&line)?.verb {
                Verb::Generate(args) => Some(args),
                Verb::Plan(PlanArgs {
                    verb: Some(PlanVerb::Generate(args)),
                    ..
                }) => Some(Box::new(args.generate)),
                Verb::Profile(ProfileRunArgs {
                    verb: ProfileVerb::Generate(args),
                    ..
                }) => Some(args),
                _ => None,
            };
            Ok(Wanted::Flags {
                args,
                flags: merged,
            })
        }
    }
}

/// The texts that tell how a picture was made; no others are unpacked.
const KEYWORDS: [&str; 4] = ["nino", "prompt", "parameters", "workflow"];

/// What a picture or a file with a graph was made with.
fn read(path: &Path) -> Result<Recorded, anyhow::Error> {
    let limits = Limits::default();
    let broken = |source: GraphError| FromError::Graph {
        path: path.to_owned(),
        source,
    };
    let is_json = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("json"));
    if is_json {
        let text = read_json(path, limits.bytes)?;
        return Ok(Recorded::Graph(metadata::Found {
            graph: page::read_either(&text, &limits).map_err(broken)?,
            notes: Vec::new(),
        }));
    }
    let media::Text {
        found: texts,
        others: unread,
    } = media::read_text(path, &KEYWORDS, &media::Limits::default())?;
    if let Some((_, text)) = texts.iter().find(|(keyword, _)| keyword == "nino") {
        if Flags::verb_of(text).as_deref() == Some("video") {
            let path = path.to_owned();
            return Err(FromError::Clip { path }.into());
        }
        let flags = Flags::from_json(&GENERATE, text).map_err(|what| FromError::Broken {
            path: path.to_owned(),
            what,
        })?;
        return Ok(Recorded::Flags(flags));
    }
    if let Some(found) = metadata::find(&texts, &limits).map_err(broken)? {
        return Ok(Recorded::Graph(found));
    }
    let path = path.to_owned();
    Err(FromError::Nothing {
        path,
        found: unread,
    }
    .into())
}

/// The text of a file that is no longer than a graph may be.
fn read_json(path: &Path, most: usize) -> Result<String, nino_files::FileError> {
    nino_files::read_text(path, "a graph", most as u64)
}
