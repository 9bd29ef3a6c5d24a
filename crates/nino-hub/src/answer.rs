//! What a server says: the headers of an answer, what a file is, and what a repository holds.
//! Nothing here is trusted before it was checked.

use crate::names::{Commit, Etag, FileName, NameError};
use serde::Deserialize;

/// Files of a repository that are looked at.
const MOST_FILES: usize = 100_000;

/// Names are in small letters.
#[derive(Clone, Debug, Default)]
pub struct Headers(Vec<(String, String)>);

/// What a server says of a file before it is downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Names the content: the SHA-256 of large files, git's SHA-1 of small ones.
    pub etag: Etag,
    pub size: u64,
    /// `None` where the server gives none.
    pub commit: Option<Commit>,
}

/// Why an answer cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("there is no {0}")]
    Missing(&'static str),
    #[error("{0}")]
    Name(#[from] NameError),
    #[error("{0:?} is not a number of bytes")]
    Size(String),
    #[error("it is not a list of files: {0}")]
    Json(String),
    #[error("it has more than {MOST_FILES} files")]
    TooManyFiles,
}

/// The files of a repository at one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub commit: Option<Commit>,
    pub files: Vec<RemoteFile>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteFile {
    pub name: FileName,
    pub size: Option<u64>,
    /// The SHA-256 of a large file, git's SHA-1 of a small one.
    pub hash: Option<Etag>,
}

impl Headers {
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Headers {
        let lower =
            |(name, value): (String, String)| (name.to_ascii_lowercase(), value.trim().to_owned());
        Headers(pairs.into_iter().map(lower).collect())
    }

    /// The first of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether a partial answer begins at this byte.
    pub(crate) fn begins_at(&self, start: u64) -> bool {
        let range = self.get("content-range");
        range.is_some_and(|r| r.starts_with(&format!("bytes {start}-")))
    }

    /// The file's whole size by a partial answer.
    pub(crate) fn whole_size(&self) -> Option<u64> {
        self.get("content-range")?.rsplit('/').next()?.parse().ok()
    }
}

impl Facts {
    /// From the answer to a HEAD request. Hugging Face sends the facts of a large file as
    /// `x-linked-*`, because the answer itself is a redirect.
    pub fn of_headers(headers: &Headers) -> Result<Facts, AnswerError> {
        let etag = headers.get("x-linked-etag").or(headers.get("etag"));
        let etag = plain_etag(etag.ok_or(AnswerError::Missing("ETag"))?);
        let size = headers.get("x-linked-size");
        let size = size.or(headers.get("content-length"));
        let size = size.ok_or(AnswerError::Missing("length"))?;
        let commit = headers.get("x-repo-commit").map(Commit::new).transpose()?;
        Ok(Facts {
            etag: Etag::new(etag)?,
            size: size
                .parse()
                .map_err(|_| AnswerError::Size(size.to_owned()))?,
            commit,
        })
    }
}

/// `"abc"` or `W/"abc"` without its dress.
fn plain_etag(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"')
}

#[derive(Deserialize)]
struct Model {
    sha: Option<String>,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: Option<String>,
    size: Option<u64>,
}

impl Listing {
    /// From the JSON that the server's list of files is. Names that could not be a file's below a
    /// folder are left out: no other program could have put them there either.
    pub fn of_json(json: &[u8]) -> Result<Listing, AnswerError> {
        let model: Model =
            serde_json::from_slice(json).map_err(|e| AnswerError::Json(e.to_string()))?;
        if model.siblings.len() > MOST_FILES {
            return Err(AnswerError::TooManyFiles);
        }
        let commit = model.sha.as_deref().map(Commit::new).transpose()?;
        let files = model.siblings.into_iter().filter_map(|sibling| {
            let name = FileName::new(&sibling.rfilename).ok()?;
            let (size, hash) = match sibling.lfs {
                Some(lfs) => (lfs.size.or(sibling.size), lfs.sha256),
                None => (sibling.size, sibling.blob_id),
            };
            let hash = hash.and_then(|h| Etag::new(&h).ok());
            Some(RemoteFile { name, size, hash })
        });
        Ok(Listing {
            commit,
            files: files.collect(),
        })
    }
}
