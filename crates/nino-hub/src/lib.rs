//! Model files from a Hugging Face-compatible server, or from a plain web address, in the cache
//! that Hugging Face's tools share.
//!
//! [`Target::parse`] understands what a person types or pastes, [`Hub::plan`] finds out which files
//! that is and how large they are, and [`Hub::fetch`] downloads one of them. [`downloads`] lists
//! what the cache holds and [`Removal`] takes something out of it.
//!
//! The server is not trusted. Waiting, redirects, retries and sizes have limits ([`Limits`]), names
//! are checked before they become paths, every byte is checked against its hash, and the token goes
//! to the origin of the endpoint alone. Progress goes to a [`Watcher`], which also says stop: that
//! is noticed within a tenth of a second wherever this crate waits.

mod address;
mod alias;
mod answer;
mod attempts;
mod body;
mod cache;
mod checked;
mod choose;
mod client;
mod download;
mod error;
mod hash;
mod hub;
mod limits;
mod names;
mod removal;
mod target;
#[cfg(test)]
mod tests;
mod watcher;

pub use address::{Address, AddressError, Origin};
pub use alias::{Alias, UseAs};
pub use answer::{AnswerError, Facts, Headers, Listing, RemoteFile};
pub use choose::{Choice, ChoiceError};
pub use client::Token;
pub use download::Fetched;
pub use error::{ErrorKind, HubError};
pub use hub::{Hub, HubOptions, Plan, Planned};
pub use limits::Limits;
pub use names::{Commit, Etag, FileName, NameError, RepoName, Revision};
pub use removal::{Download, DownloadedFile, Removal, downloads};
pub use target::{Files, Target, TargetError, is_model_file};
pub use watcher::{Event, Watcher};
