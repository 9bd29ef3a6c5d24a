//! Errors of downloads in the command line's words.

use crate::failure::{Interrupted, Usage};
use nino_hub::ErrorKind;

/// A download that failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct HubError(nino_hub::HubError);

impl HubError {
    /// What a person can try.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self.0.kind() {
            ErrorKind::Denied => Some(
                "the repository is private or gated: accept its terms on the web page and set HF_TOKEN",
            ),
            ErrorKind::NotFound => Some("check the spelling of repository, file and --revision"),
            ErrorKind::Network => Some("the partial download is kept: the same command resumes it"),
            ErrorKind::Disk => {
                Some("`nino list downloads` shows disk usage; HF_HUB_CACHE sets another folder")
            }
            _ => None,
        }
    }
}

/// Slips of the pen and stops have an exit code of their own.
pub(crate) fn told(error: nino_hub::HubError) -> anyhow::Error {
    match error.kind() {
        ErrorKind::Usage => Usage(error.to_string()).into(),
        ErrorKind::Stopped => Interrupted.into(),
        _ => HubError(error).into(),
    }
}
