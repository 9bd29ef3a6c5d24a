//! Why a server does not start, and what a request is refused with.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("cannot create the folder {}: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error(
        "another server uses the folder {}: stop that one, or give this one a folder of its own",
        path.display()
    )]
    InUse { path: PathBuf },
    #[error("the job journal in {} cannot be opened: {source}", path.display())]
    Journal {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error("cannot start the server's threads: {0}")]
    Threads(io::Error),
    #[error("the token is empty, so that everybody would have it: choose another, or none")]
    EmptyToken,
    #[error("the server has no device to run on")]
    NoDevice,
}

/// A request that is refused, with a sentence for its sender.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    Text(String),
    Json(Value),
}

impl Refused {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Refused {
        Refused {
            status,
            body: Body::Text(text.into()),
        }
    }

    pub(crate) fn bad(text: impl Into<String>) -> Refused {
        Refused::new(StatusCode::BAD_REQUEST, text)
    }

    pub(crate) fn not_found(text: impl Into<String>) -> Refused {
        Refused::new(StatusCode::NOT_FOUND, text)
    }

    pub(crate) fn forbidden(text: impl Into<String>) -> Refused {
        Refused::new(StatusCode::FORBIDDEN, text)
    }

    /// ComfyUI's form of an error of a prompt.
    pub(crate) fn prompt(status: StatusCode, kind: &str, message: &str, details: &str) -> Refused {
        let body = json!({
            "error": { "type": kind, "message": message, "details": details, "extra_info": {} },
            "node_errors": {},
        });
        Refused {
            status,
            body: Body::Json(body),
        }
    }
}

impl Body {
    /// What it says, as a sentence. Of a prompt that is wrong, that is what is wrong with its
    /// nodes: the error alone says only that something is.
    pub(crate) fn sentence(self) -> String {
        let json = match self {
            Body::Text(text) => return text,
            Body::Json(json) => json,
        };
        let text = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
        let nodes = json["node_errors"].as_object().into_iter().flatten();
        let problems = nodes.flat_map(|(_, node)| node["errors"].as_array().into_iter().flatten());
        let problems = problems.map(|problem| {
            let (message, details) = (text(problem, "message"), text(problem, "details"));
            format!("{message} ({details})")
        });
        let problems = problems.collect::<Vec<_>>().join("; ");
        let (message, details) = (
            text(&json["error"], "message"),
            text(&json["error"], "details"),
        );
        let more = [details, problems];
        let more = more.into_iter().filter(|text| !text.is_empty());
        std::iter::once(message)
            .chain(more)
            .collect::<Vec<_>>()
            .join(": ")
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self.body {
            Body::Text(text) => (self.status, text).into_response(),
            Body::Json(json) => (self.status, axum::Json(json)).into_response(),
        }
    }
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Refused {
        Refused::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the list of jobs: {error}"),
        )
    }
}

impl From<tokio::task::JoinError> for Refused {
    fn from(_: tokio::task::JoinError) -> Refused {
        let text = "this is a bug in nino: a request's work ended in a panic";
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }
}
