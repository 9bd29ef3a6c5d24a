//! The server's side: what a file is (size, hash, commit), what a repository holds, and its bytes.

use crate::env::Env;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::io::Read;
use std::time::Duration;
use ureq::Agent;
use ureq::config::RedirectAuthHeaders;
use ureq::http::{HeaderMap, Response};

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";
/// A repository's list of files, as JSON.
const MAX_LIST: u64 = 32 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum HubError {
    #[error("{url}: no answer: {message}")]
    NoAnswer { url: String, message: String },
    #[error("{url}: the server says {status}")]
    Status { url: String, status: u16 },
    #[error("{url}: the server gives no usable ETag to name the file by")]
    NoEtag { url: String },
    #[error("{url}: the server gives no length")]
    NoLength { url: String },
}

impl HubError {
    /// What a person can try.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            HubError::Status {
                status: 401 | 403, ..
            } => Some(
                "the repository is private or gated: accept its terms on the web page and set HF_TOKEN",
            ),
            HubError::Status { status: 404, .. } => {
                Some("check the spelling of repository, file and --revision")
            }
            _ => None,
        }
    }
}

pub(crate) struct Hub {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
    repo: String,
    revision: String,
}

/// What the server says of a file before it is downloaded.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Names the content: the SHA-256 for large files.
    pub(crate) etag: String,
    pub(crate) size: u64,
    pub(crate) commit: String,
}

impl Facts {
    pub(crate) fn sha256(&self) -> Option<&str> {
        let hex = self.etag.len() == 64 && self.etag.bytes().all(|b| b.is_ascii_hexdigit());
        hex.then_some(self.etag.as_str())
    }
}

#[derive(Deserialize)]
struct Listing {
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
}

impl Hub {
    pub(crate) fn new(env: &Env, repo: &str, revision: &str) -> Hub {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(Duration::from_mins(1)))
            // The token is for the endpoint, not for the storage it redirects to.
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .user_agent(concat!("nino/", env!("CARGO_PKG_VERSION")))
            .build();
        let endpoint = env.hf_endpoint.as_deref().unwrap_or(DEFAULT_ENDPOINT);
        Hub {
            agent: config.into(),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: env.hf_token.clone(),
            repo: repo.to_owned(),
            revision: revision.to_owned(),
        }
    }

    /// Files of the repository.
    pub(crate) fn list(&self) -> Result<Vec<String>> {
        let (endpoint, repo, revision) = (&self.endpoint, &self.repo, &self.revision);
        let url = format!("{endpoint}/api/models/{repo}/revision/{revision}");
        let response = self.get(&url, None)?;
        check(&url, &response)?;
        let mut text = Vec::new();
        let mut body = response.into_body().into_reader().take(MAX_LIST);
        body.read_to_end(&mut text)
            .with_context(|| format!("{url}: cannot read the answer"))?;
        let listing: Listing =
            serde_json::from_slice(&text).with_context(|| format!("{url}: not a list of files"))?;
        Ok(listing.siblings.into_iter().map(|s| s.rfilename).collect())
    }

    pub(crate) fn facts(&self, file: &str) -> Result<Facts> {
        let url = self.url(file);
        // Not followed to the storage server: only the hub's own answer has the hash.
        let request = self
            .agent
            .head(&url)
            .header("accept-encoding", "identity")
            .config()
            .max_redirects(0)
            .max_redirects_will_error(false)
            .build();
        let request = match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        };
        let response = request.call().map_err(|e| no_answer(&url, &e))?;
        let status = response.status();
        if status.is_client_error() || status.is_server_error() {
            return Err(HubError::Status {
                url,
                status: status.as_u16(),
            }
            .into());
        }
        let headers = response.headers();
        let etag = text(headers, "x-linked-etag").or_else(|| text(headers, "etag"));
        let etag = etag.as_deref().and_then(plain_etag);
        let Some(etag) = etag else {
            return Err(HubError::NoEtag { url }.into());
        };
        let size = text(headers, "x-linked-size").or_else(|| text(headers, "content-length"));
        let Some(size) = size.and_then(|s| s.parse().ok()) else {
            return Err(HubError::NoLength { url }.into());
        };
        let commit = text(headers, "x-repo-commit").filter(|c| is_plain(c));
        let commit = commit.unwrap_or_else(|| self.revision.replace('/', "--"));
        Ok(Facts { etag, size, commit })
    }

    /// The file's bytes from `start` on; tells whether the server really starts there.
    pub(crate) fn read(&self, file: &str, start: u64) -> Result<(bool, impl Read + use<>)> {
        let url = self.url(file);
        let response = self.get(&url, (start > 0).then_some(start))?;
        let resumed = response.status().as_u16() == 206 && starts_at(response.headers(), start);
        check(&url, &response)?;
        Ok((resumed, response.into_body().into_reader()))
    }

    fn get(&self, url: &str, start: Option<u64>) -> Result<Response<ureq::Body>> {
        // Compressed answers would make lengths and ranges meaningless.
        let mut request = self.agent.get(url).header("accept-encoding", "identity");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(start) = start {
            request = request.header("range", format!("bytes={start}-"));
        }
        request.call().map_err(|e| no_answer(url, &e).into())
    }

    fn url(&self, file: &str) -> String {
        format!(
            "{}/{}/resolve/{}/{file}",
            self.endpoint, self.repo, self.revision
        )
    }

    pub(crate) fn revision(&self) -> &str {
        &self.revision
    }
}

/// Kept as text: in the chain of an error a broken pipe means that nobody reads our output.
fn no_answer(url: &str, error: &ureq::Error) -> HubError {
    let (url, message) = (url.to_owned(), error.to_string());
    HubError::NoAnswer { url, message }
}

fn check(url: &str, response: &Response<ureq::Body>) -> Result<(), HubError> {
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    Err(HubError::Status {
        url: url.to_owned(),
        status: status.as_u16(),
    })
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.trim().to_owned())
}

/// `"abc"` or `W/"abc"` without the dress; it becomes a file's name, so only plain letters pass.
fn plain_etag(etag: &str) -> Option<String> {
    let etag = etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"');
    is_plain(etag).then(|| etag.to_owned())
}

fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 128
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn starts_at(headers: &HeaderMap, start: u64) -> bool {
    let range = text(headers, "content-range");
    range.is_some_and(|r| r.starts_with(&format!("bytes {start}-")))
}
