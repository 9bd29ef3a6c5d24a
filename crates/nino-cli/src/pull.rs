//! `nino pull`: downloads from a Hugging Face-compatible server into the cache its tools share.

mod cache;
mod choose;
mod download;
mod hub;

use crate::args::PullArgs;
use crate::bytes::Bytes;
use crate::env::Env;
use crate::failure::Usage;
use crate::printer::Printer;
use anyhow::Result;
use cache::Cache;
use hub::Hub;
pub(crate) use hub::HubError;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Serialize)]
struct Document {
    repo: String,
    revision: String,
    files: Vec<Pulled>,
}

#[derive(Serialize)]
struct Pulled {
    file: String,
    path: PathBuf,
    bytes: u64,
    /// `None` where the server gives no SHA-256, as for small text files.
    sha256: Option<String>,
    /// It was there already.
    cached: bool,
}

pub(crate) fn run(args: &PullArgs, env: &Env, printer: Printer) -> Result<()> {
    let (repo, file) = split(&args.what)?;
    let hub = Hub::new(env, repo, &args.revision);
    let cache = Cache::new(env, repo)?;
    let files = match file {
        Some(file) => vec![file.to_owned()],
        None => choose::files(repo, &hub.list()?)?,
    };
    let mut pulled = Vec::new();
    for file in files {
        let done = download::fetch(&hub, &cache, &file, printer)?;
        let note = if done.cached { ", already there" } else { "" };
        printer.text(format!(
            "{} ({}{note})",
            done.path.display(),
            Bytes(done.bytes)
        ))?;
        pulled.push(done);
    }
    printer.document(&Document {
        repo: repo.to_owned(),
        revision: args.revision.clone(),
        files: pulled,
    })
}

/// `org/name` or `org/name:path/in/it`, with nothing that could reach outside a folder.
fn split(what: &str) -> Result<(&str, Option<&str>)> {
    let (repo, file) = match what.split_once(':') {
        Some((repo, file)) => (repo, Some(file)),
        None => (what, None),
    };
    let plain = |s: &str| {
        !s.is_empty()
            && s != "."
            && s != ".."
            && !s.contains(['\\', ':', '\0', '?', '#', '%'])
            && !s.contains(char::is_whitespace)
    };
    let repo_ok = repo.split('/').count() <= 2 && repo.split('/').all(plain);
    if !repo_ok {
        return Err(Usage(format!("{repo:?} is not a repository such as org/name")).into());
    }
    if file.is_some_and(|f| !f.split('/').all(plain)) {
        return Err(Usage(format!(
            "{what:?}: what follows the colon is not a file's path"
        ))
        .into());
    }
    Ok((repo, file))
}
