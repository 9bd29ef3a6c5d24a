//! Runs `nino` and keeps what it said.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("not JSON ({e}):\n{}\n{}", self.out, self.err))
    }
}

/// A folder that goes when it is dropped.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The file `name` in it, as an argument.
    pub(crate) fn at(&self, name: &str) -> String {
        self.path().join(name).to_string_lossy().into_owned()
    }
}

/// `nino` without the NINO_ variables of whoever runs the tests.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nino"));
    command.args(args);
    for (name, _) in std::env::vars() {
        if name.starts_with("NINO_") {
            command.env_remove(name);
        }
    }
    command.env("NINO_CACHE", env!("CARGO_TARGET_TMPDIR"));
    // No config file of theirs either.
    command.env("XDG_CONFIG_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

pub(crate) fn nino(args: &[&str]) -> Said {
    said(&command(args).output().expect("nino starts"))
}

pub(crate) fn nino_with(args: &[&str], env: &[(&str, &str)]) -> Said {
    said(
        &command(args)
            .envs(env.iter().copied())
            .output()
            .expect("nino starts"),
    )
}

/// Runs `nino` in a folder.
pub(crate) fn nino_in(folder: &Path, args: &[&str]) -> Said {
    let mut command = command(args);
    said(&command.current_dir(folder).output().expect("nino starts"))
}

/// Runs `nino` in a folder, with a text on standard input.
pub(crate) fn nino_fed(folder: &Path, args: &[&str], text: &str) -> Said {
    let mut command = command(args);
    command.current_dir(folder).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("nino starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("nino reads");
    drop(stdin);
    said(&child.wait_with_output().expect("nino ends"))
}

fn said(output: &Output) -> Said {
    Said {
        code: output.status.code().expect("ended by itself"),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
