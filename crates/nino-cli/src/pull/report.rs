//! What `nino pull` prints: the short names, what is downloaded, and how to use it.

use crate::bytes::Bytes;
use crate::list::facts::{Facts, What};
use crate::printer::Printer;
use crate::table::{Align, Table};
use anyhow::Result;
use nino_hub::{Alias, Fetched, Plan, Planned, Target, UseAs};
use serde::Serialize;
use std::path::PathBuf;

/// Files whose names are printed before the download; a list of shards is long.
const SHOWN: usize = 12;

#[derive(Serialize)]
pub(super) struct Document {
    repo: String,
    revision: String,
    /// The short name, if one was given.
    alias: Option<&'static str>,
    /// Bytes of all files, and those that had to be downloaded.
    bytes: u64,
    missing_bytes: u64,
    /// Names of all files.
    planned: Vec<String>,
    pub(super) files: Vec<Pulled>,
    #[serde(rename = "use")]
    pub(super) use_it: Option<Use>,
}

#[derive(Serialize)]
pub(super) struct Pulled {
    pub(super) file: String,
    pub(super) path: PathBuf,
    bytes: u64,
    sha256: Option<String>,
    /// What it was compared with; `None` where the server gives no hash.
    checked: Option<&'static str>,
    /// It was there already.
    cached: bool,
}

/// How to use what was downloaded.
#[derive(Serialize)]
pub(super) struct Use {
    pub(super) name: String,
    pub(super) command: String,
    /// Whether nino runs it.
    pub(super) runs: bool,
}

#[derive(Serialize)]
struct Aliases {
    aliases: Vec<AliasRow>,
}

#[derive(Serialize)]
struct AliasRow {
    name: &'static str,
    about: &'static str,
    repo: &'static str,
    files: &'static [&'static str],
    beside: Vec<String>,
    /// About.
    bytes: u64,
    flag: &'static str,
}

impl Document {
    pub(super) fn new(target: &Target, plan: &Plan) -> Document {
        let alias = match target {
            Target::Repo { alias, .. } => alias.map(|a| a.name),
            Target::Url { .. } => None,
        };
        Document {
            repo: plan.repo.to_string(),
            revision: plan.revision.to_string(),
            alias,
            bytes: plan.size(),
            missing_bytes: plan.missing(),
            planned: plan.files.iter().map(|f| f.file.to_string()).collect(),
            files: Vec::new(),
            use_it: None,
        }
    }
}

impl Pulled {
    pub(super) fn new(planned: &Planned, done: Fetched) -> Pulled {
        Pulled {
            file: planned.file.to_string(),
            path: done.path,
            bytes: done.bytes,
            sha256: done.sha256,
            checked: done.checked,
            cached: done.cached,
        }
    }
}

/// What will be downloaded, before it is.
pub(super) fn head(what: &str, plan: &Plan) -> String {
    let n = plan.files.len();
    let files = if n == 1 { "file" } else { "files" };
    let repo = plan.repo.as_str();
    let from = if what.contains(repo) {
        what.to_owned()
    } else {
        format!("{what}: {repo}")
    };
    let there = match plan.missing() {
        missing if missing < plan.size() => format!(", {} to download", Bytes(missing)),
        _ => String::new(),
    };
    let mut text = vec![format!(
        "{from}, {n} {files}, {}{there}",
        Bytes(plan.size())
    )];
    for file in plan.files.iter().take(SHOWN) {
        text.push(format!("  {} ({})", file.file, Bytes(file.size)));
    }
    if n > SHOWN {
        text.push(format!("  and {} more", n - SHOWN));
    }
    text.join("\n")
}

/// The line that uses a file of this kind.
pub(super) fn command(found: &Facts, name: &str) -> String {
    let name = quoted(name);
    match found.what {
        What::Model if found.runs => format!("nino generate \"a fox in the snow\" --model {name}"),
        What::Vae => format!("nino generate \"a fox in the snow\" --model MODEL --vae {name}"),
        What::Encoder if found.runs => {
            format!("nino generate \"a fox in the snow\" --model MODEL --clip {name}")
        }
        What::Lora => format!("nino generate \"a fox in the snow\" --model MODEL --lora {name}"),
        What::Embedding => {
            format!("nino generate \"a fox in the snow, embedding:{name}\" --model MODEL")
        }
        What::Upscaler if found.runs => format!("nino upscale IMAGE --model {name}"),
        _ => format!("nino inspect {name}"),
    }
}

/// As a shell wants it.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:+".contains(c);
    if name.chars().all(plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

/// The short names.
pub(super) fn aliases(printer: Printer) -> Result<()> {
    let columns = [
        ("name", Align::Left),
        ("size", Align::Right),
        ("what it is", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for alias in Alias::all() {
        let size = Bytes(alias.size).to_string();
        table.push(vec![alias.name.to_owned(), size, alias.about.to_owned()]);
    }
    printer.text(table.render())?;
    printer.text("\n`nino pull NAME` downloads one; `nino help pull` shows the other forms.")?;
    let row = |alias: &Alias| AliasRow {
        name: alias.name,
        about: alias.about,
        repo: alias.repo,
        files: alias.files,
        beside: alias
            .all_files()
            .skip(alias.files.len())
            .map(|(repo, file)| format!("{repo}/{file}"))
            .collect(),
        bytes: alias.size,
        flag: match alias.use_as {
            UseAs::Model => "--model",
            UseAs::Vae => "--vae",
        },
    };
    printer.document(&Aliases {
        aliases: Alias::all().map(row).collect(),
    })
}
