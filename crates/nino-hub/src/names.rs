//! Names that become parts of a path on this machine or of an address: repositories, files,
//! revisions, commits and ETags. Each is checked once, when it becomes one of these types.

use std::fmt;

/// Bytes of one part of a path that file systems take.
const MOST_PART: usize = 200;
const MOST_PARTS: usize = 24;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not {wanted}: {why}")]
pub struct NameError {
    pub name: String,
    /// Such as "a repository's name".
    pub wanted: &'static str,
    pub why: &'static str,
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident, $wanted:literal, $fault:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            pub fn new(name: &str) -> Result<$name, NameError> {
                match $fault(name) {
                    None => Ok($name(name.to_owned())),
                    Some(why) => Err(NameError { name: name.to_owned(), wanted: $wanted, why }),
                }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    )*};
}

names! {
    /// `owner/name`, or `name` for the oldest repositories.
    RepoName, "a repository such as owner/name", repo_fault;
    /// A file's path in its repository, with `/` between the parts.
    FileName, "a file's path in a repository", path_fault;
    /// A branch, a tag or a commit.
    Revision, "a branch, a tag or a commit", path_fault;
    /// The commit that a revision is at.
    Commit, "a commit", hash_fault;
    /// What a server calls a content; it names the file in `blobs/`.
    Etag, "an ETag that can name a file", hash_fault;
}

impl RepoName {
    /// The folder of the repository in the cache.
    pub fn folder(&self) -> String {
        format!("models--{}", self.0.replace('/', "--"))
    }

    /// The name that such a folder is for.
    pub fn of_folder(folder: &str) -> Option<RepoName> {
        let name = folder.strip_prefix("models--")?;
        RepoName::new(&name.replacen("--", "/", 1)).ok()
    }
}

impl FileName {
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// The last part.
    pub fn last(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

fn repo_fault(name: &str) -> Option<&'static str> {
    let known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.split('/').count() > 2 {
        return Some("it has more than one /");
    }
    if name
        .split('/')
        .any(|part| part.is_empty() || part.len() > 96)
    {
        return Some("a part of it is empty or longer than 96 letters");
    }
    if !name.chars().all(|c| known(c) || c == '/') {
        return Some("only letters, digits, '-', '_' and '.' can be in it");
    }
    // `--` stands for `/` in the names of folders.
    if name.contains("--") || name.contains("..") || name.split('/').any(|part| part == ".") {
        return Some("'--' and '..' cannot be in it");
    }
    None
}

/// Why a path is not one below a folder on every system.
fn path_fault(path: &str) -> Option<&'static str> {
    if path.split('/').count() > MOST_PARTS {
        return Some("it has too many folders");
    }
    path.split('/').find_map(part_fault)
}

fn part_fault(part: &str) -> Option<&'static str> {
    if part.is_empty() {
        return Some("a part of it is empty");
    }
    if part.len() > MOST_PART {
        return Some("a part of it is too long");
    }
    if part == "." || part == ".." {
        return Some("'.' and '..' cannot be a part of it");
    }
    if part.contains(['\\', ':', '<', '>', '"', '|', '*', '?']) || part.contains(char::is_control) {
        return Some("it has a character that file names cannot have");
    }
    if part.ends_with(['.', ' ']) || part.starts_with(' ') || is_device(part) {
        return Some("Windows has no such file names");
    }
    None
}

/// Names that Windows takes for a device, whatever follows their dot.
fn is_device(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or(part).to_ascii_lowercase();
    let numbered = |word: &str| {
        let digit = stem.strip_prefix(word);
        digit.is_some_and(|d| d.len() == 1 && d.chars().all(|c| c.is_ascii_digit()))
    };
    ["con", "prn", "aux", "nul"].contains(&stem.as_str()) || numbered("com") || numbered("lpt")
}

fn hash_fault(name: &str) -> Option<&'static str> {
    let known = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.is_empty() || name.len() > 128 {
        return Some("it is empty or longer than 128 letters");
    }
    (!name.chars().all(known)).then_some("only letters, digits, '-' and '_' can be in it")
}
