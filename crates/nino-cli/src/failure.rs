//! From an error to one sentence, `hint:` lines, a kind for other programs and an exit code.

use crate::args::VerbFlags;
use crate::generate::rescue::Rescued;
use crate::hints;
use crate::pull::HubError;
use nino_engine::media::MediaError;
use nino_engine::{DeviceError, EngineError, ErrorKind, LibraryError};
use nino_graph::{ExecError, PlanError};
use nino_suite::RunError;
use std::error::Error;
use std::io;

/// The command line asked for something that cannot be meant; exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// The same, with what to type instead.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}")]
pub(crate) struct UsageWithHint {
    pub(crate) sentence: String,
    pub(crate) hint: String,
}

/// Work ended because the user pressed Ctrl-C.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// What went wrong was printed already; there is nothing more to say than this exit code.
#[derive(Debug, thiserror::Error)]
#[error("failed")]
pub(crate) struct Told(pub(crate) u8);

/// An error as it is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What stands before the sentence: `error`, or `stopped` where the user asked for it.
    pub(crate) label: &'static str,
    pub(crate) sentence: String,
    /// What the error is about, for programs.
    pub(crate) kind: &'static str,
    pub(crate) hints: Vec<String>,
}

impl Failure {
    /// `verb` has the flags that a hint may name.
    pub(crate) fn of(error: &anyhow::Error, verb: &VerbFlags) -> Failure {
        let kind = kind(error);
        let stopped = kind == ErrorKind::Cancelled.name();
        Failure {
            label: if stopped { "stopped" } else { "error" },
            sentence: sentence(error),
            kind,
            hints: hints(error, verb),
        }
    }

    /// From what clap says: a paragraph, then tips and usage.
    pub(crate) fn usage(said: &str) -> Failure {
        let mut paragraphs = said.trim_start_matches("error: ").split("\n\n");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let first = paragraphs.next().unwrap_or(said);
        let tips = paragraphs.flat_map(str::lines);
        let tips = tips.filter_map(|line| line.trim().strip_prefix("tip: "));
        Failure {
            label: "error",
            sentence: words(first),
            kind: USAGE,
            hints: tips.map(words).collect(),
        }
    }

    /// A panic, which is a mistake of this program.
    pub(crate) fn bug(what: &str) -> Failure {
        Failure {
            label: "error",
            sentence: format!("this is a bug in nino: {what}"),
            kind: ErrorKind::Internal.name(),
            hints: vec![
                "please report this line with the output of `nino doctor --json`".to_owned(),
            ],
        }
    }
}

/// The kind of errors that come from the command line itself.
const USAGE: &str = "usage";

/// What an error is about: the engine's kinds, `usage`, `download`, and `other`.
fn kind(error: &anyhow::Error) -> &'static str {
    error.chain().find_map(kind_of).unwrap_or("other")
}

fn kind_of(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if error.is::<Usage>() || error.is::<UsageWithHint>() {
        return Some(USAGE);
    }
    // An extension that no format has is a slip of the pen.
    let media = match error.downcast_ref() {
        Some(EngineError::Media(media)) => Some(media),
        _ => error.downcast_ref(),
    };
    if let Some(MediaError::UnknownFormat { .. }) = media {
        return Some(USAGE);
    }
    if error.is::<HubError>() {
        return Some("download");
    }
    if let Some(engine) = error.downcast_ref::<EngineError>() {
        return Some(engine.kind().name());
    }
    let kind = if error.is::<Interrupted>() {
        ErrorKind::Cancelled
    } else if error.is::<DeviceError>() {
        ErrorKind::Device
    } else if let Some(RunError::Exec(exec)) = error.downcast_ref() {
        return Some(exec_kind(exec).name());
    } else if let Some(exec) = error.downcast_ref::<ExecError>() {
        exec_kind(exec)
    } else if let Some(plan) = error.downcast_ref::<PlanError>() {
        match plan {
            PlanError::OverBudget { .. } => ErrorKind::OverBudget,
            _ => ErrorKind::Unsupported,
        }
    } else if error.is::<LibraryError>()
        || error.is::<nino_weights::Error>()
        || error.is::<nino_files::FileError>()
        || error.is::<MediaError>()
        || error.is::<io::Error>()
    {
        ErrorKind::File
    } else {
        return None;
    };
    Some(kind.name())
}

fn exec_kind(error: &ExecError) -> ErrorKind {
    match error {
        ExecError::Cancelled => ErrorKind::Cancelled,
        ExecError::OutOfMemory { .. } | ExecError::HostMemory { .. } | ExecError::Disk { .. } => {
            ErrorKind::OutOfMemory
        }
        ExecError::DeviceLost { .. } => ErrorKind::DeviceLost,
        ExecError::Unsupported { .. } => ErrorKind::Unsupported,
        ExecError::Param(_) => ErrorKind::File,
        _ => ErrorKind::Internal,
    }
}

pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if is_broken_pipe(error) {
        return 0;
    }
    if let Some(Told(code)) = error.downcast_ref() {
        return *code;
    }
    match kind(error) {
        USAGE => 2,
        kind if kind == ErrorKind::Cancelled.name() => 130,
        _ => 1,
    }
}

/// After this error the next piece of work would fail too.
pub(crate) fn ends_work(error: &anyhow::Error) -> bool {
    error.chain().any(|e| {
        let run = e.downcast_ref::<RunError>();
        e.is::<Interrupted>() || matches!(run, Some(RunError::Exec(ExecError::DeviceLost { .. })))
    })
}

/// Whoever read our output has seen enough (`nino doctor | head`).
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|e| {
        let io = e.downcast_ref::<io::Error>();
        io.is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
            || e.downcast_ref::<serde_json::Error>()
                .and_then(serde_json::Error::io_error_kind)
                .is_some_and(|k| k == io::ErrorKind::BrokenPipe)
    })
}

/// The error and its causes in one line; a cause that was already told is not told again.
fn sentence(error: &anyhow::Error) -> String {
    // What was kept of a run that the user stopped is no error, and says all there is to say.
    if let Some(stopped) = error.downcast_ref::<Rescued>().filter(|r| r.is_stopped()) {
        return stopped.to_string();
    }
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// What a person can try, for the errors we know a way out of.
fn hints(error: &anyhow::Error, verb: &VerbFlags) -> Vec<String> {
    let rescued = error.downcast_ref::<Rescued>();
    let rescued = rescued.map_or(&[][..], Rescued::hints).iter().cloned();
    let known = error.chain().filter_map(|e| match e.downcast_ref() {
        Some(UsageWithHint { hint, .. }) => Some(hint.clone()),
        None => hints::of(e, verb),
    });
    rescued.chain(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clap_says_becomes_a_sentence_and_its_tips() {
        let said = "error: unexpected argument '--sed' found\n\n  tip: a similar argument exists: \
                    '--seed'\n\nUsage: nino generate";
        let failure = Failure::usage(said);
        assert_eq!(failure.sentence, "unexpected argument '--sed' found");
        assert_eq!(failure.hints, ["a similar argument exists: '--seed'"]);
        assert_eq!(failure.kind, "usage");
    }

    #[test]
    fn kinds_and_exit_codes_belong_together() {
        let over = PlanError::OverBudget {
            need: 2,
            weights: 1,
            arena: 1,
            op: "conv".to_owned(),
            outside_plans: 0,
            budget: 1,
        };
        let cases: [(anyhow::Error, &str, u8); 5] = [
            (Usage("x".to_owned()).into(), "usage", 2),
            (Interrupted.into(), "cancelled", 130),
            (EngineError::Cancelled.into(), "cancelled", 130),
            (anyhow::Error::new(over).context("plan"), "over-budget", 1),
            (anyhow::anyhow!("anything"), "other", 1),
        ];
        for (error, wanted, code) in cases {
            assert_eq!(kind(&error), wanted, "{error}");
            assert_eq!(exit_code(&error), code, "{error}");
        }
    }
}
