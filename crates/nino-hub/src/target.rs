//! What a person types or pastes: a short name, a repository, a file of it, or a web address.

use crate::address::{Address, AddressError};
use crate::alias::Alias;
use crate::names::{FileName, NameError, RepoName, Revision};

/// What to download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Repo {
        repo: RepoName,
        /// As the address said; a caller may know better.
        revision: Option<Revision>,
        files: Files,
        alias: Option<&'static Alias>,
    },
    /// One file at a plain web address.
    Url { address: Address, file: FileName },
}

/// Which files of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// Those that make up the model.
    Choose,
    /// Those of one folder that make up a model.
    Below(FileName),
    Named(Vec<FileName>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("{0}")]
    Name(#[from] NameError),
    #[error("{text:?} is not a URL: {why}")]
    Address { text: String, why: AddressError },
    #[error(
        "Civitai requires a login for most files: download the file with a browser, and give its \
         path or put it in a model folder"
    )]
    Civitai,
    #[error("{text:?} is the URL of a {what}, not of a model repository")]
    NotModels { text: String, what: String },
    #[error("{text:?} is not a model file, which ends in .safetensors or .gguf")]
    NoModelFile { text: String },
    #[error("{name} is a model that nino does not support yet")]
    NotYet { name: &'static str },
}

/// Hosts of the one hub that people paste addresses of.
const HUB_HOSTS: [&str; 3] = ["huggingface.co", "www.huggingface.co", "hf.co"];
const CIVITAI: &str = "civitai.";
/// Endings of files that a plain address may name.
const ENDINGS: [&str; 7] = [
    ".safetensors",
    ".sft",
    ".gguf",
    ".ckpt",
    ".pt",
    ".pth",
    ".bin",
];

impl Target {
    /// `endpoint` is the hub in use: its own addresses are repositories, too.
    pub fn parse(text: &str, endpoint: &Address) -> Result<Target, TargetError> {
        let text = text.trim().trim_matches(['"', '\'', '<', '>']);
        if let Some(alias) = Alias::find(text) {
            return of_alias(alias);
        }
        let first = text.split('/').next().unwrap_or_default().to_lowercase();
        let is_host = HUB_HOSTS.contains(&first.as_str()) || first.contains(CIVITAI);
        let url = if text.contains("://") {
            text.to_owned()
        } else if is_host {
            format!("https://{text}")
        } else {
            return of_name(text);
        };
        let address = Address::parse(&url).map_err(|why| TargetError::Address {
            text: text.to_owned(),
            why,
        })?;
        let host = address.origin().host();
        if host.starts_with(CIVITAI) || host.contains(&format!(".{CIVITAI}")) {
            return Err(TargetError::Civitai);
        }
        if HUB_HOSTS.contains(&host) || address.origin() == endpoint.origin() {
            return of_page(text, &address.parts());
        }
        let parts = address.parts();
        let file = parts.last().filter(|name| is_model_file(name));
        let file = file.ok_or_else(|| TargetError::NoModelFile {
            text: text.to_owned(),
        })?;
        let file = FileName::new(file)?;
        Ok(Target::Url { address, file })
    }
}

fn of_alias(alias: &'static Alias) -> Result<Target, TargetError> {
    if !alias.runs {
        return Err(TargetError::NotYet { name: alias.name });
    }
    let files: Result<_, _> = alias.files.iter().map(|file| FileName::new(file)).collect();
    Ok(Target::Repo {
        repo: RepoName::new(alias.repo)?,
        revision: None,
        files: Files::Named(files?),
        alias: Some(alias),
    })
}

/// `owner/name`, `owner/name:file`, or `owner/name/file` as downloads are listed.
fn of_name(text: &str) -> Result<Target, TargetError> {
    let listed = || {
        let second = text.match_indices('/').nth(1).map(|(at, _)| at)?;
        is_model_file(text).then(|| (&text[..second], &text[second + 1..]))
    };
    let (repo, file) = match text.split_once(':').or_else(listed) {
        Some((repo, file)) => (repo, Some(file)),
        None => (text, None),
    };
    let files = match file {
        Some(file) => Files::Named(vec![FileName::new(file)?]),
        None => Files::Choose,
    };
    Ok(Target::Repo {
        repo: RepoName::new(repo)?,
        revision: None,
        files,
        alias: None,
    })
}

/// A page of the hub: `owner/name`, and then perhaps `blob/main/file` or `tree/main/folder`.
fn of_page(text: &str, parts: &[String]) -> Result<Target, TargetError> {
    let mut parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let pages = ["datasets", "spaces", "docs", "papers", "collections"];
    if let Some(what) = parts.first().filter(|first| pages.contains(first)) {
        return Err(TargetError::NotModels {
            text: text.to_owned(),
            what: what.trim_end_matches('s').to_owned(),
        });
    }
    let views = ["blob", "resolve", "raw", "tree"];
    let view = parts.iter().position(|part| views.contains(part));
    let view = view.filter(|at| (1..=2).contains(at));
    let rest = view.map_or(Vec::new(), |at| parts.split_off(at));
    let (revision, path) = match rest.as_slice() {
        [_, revision, path @ ..] => (Some(Revision::new(revision)?), path.join("/")),
        _ => (None, String::new()),
    };
    let files = match rest.first() {
        _ if path.is_empty() => Files::Choose,
        Some(&"tree") => Files::Below(FileName::new(&path)?),
        _ => Files::Named(vec![FileName::new(&path)?]),
    };
    Ok(Target::Repo {
        repo: RepoName::new(&parts.join("/"))?,
        revision,
        files,
        alias: None,
    })
}

/// Whether a file's name ends as those of weights do.
pub fn is_model_file(name: &str) -> bool {
    let lower = name.to_lowercase();
    ENDINGS.iter().any(|end| lower.ends_with(end))
}
