//! `nino rm`: removes downloads, and nothing else.

use crate::args::RmArgs;
use crate::bytes::Bytes;
use crate::env::Env;
use crate::failure::{Interrupted, Usage};
use crate::interrupt;
use crate::printer::Printer;
use crate::pull::{cache, told};
use anyhow::Result;
use nino_hub::Removal;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

#[derive(Serialize)]
struct Document {
    freed_bytes: u64,
    removed: Vec<Removed>,
}

#[derive(Serialize)]
struct Removed {
    name: String,
    files: Vec<String>,
    freed_bytes: u64,
}

pub(crate) fn run(args: &RmArgs, env: &Env, printer: Printer) -> Result<()> {
    let cache = cache(env)?;
    // All names are understood before anything is removed.
    let found: Result<Vec<Removal>, _> = args
        .names
        .iter()
        .map(|name| Removal::find(&cache, name))
        .collect();
    let found = found.map_err(told)?;
    if !args.yes && !io::stdin().is_terminal() {
        let text = "standard input is not a terminal: --yes removes without asking";
        return Err(Usage(text.to_owned()).into());
    }
    let mut removed = Vec::new();
    for removal in found {
        if !args.yes && !agreed(&removal)? {
            printer.text(format!("{} was not removed", removal.name))?;
            continue;
        }
        removal.run().map_err(told)?;
        let freed = Bytes(removal.frees);
        printer.text(format!("removed {}, {freed} freed", removal.name))?;
        removed.push(Removed {
            name: removal.name,
            files: removal.files,
            freed_bytes: removal.frees,
        });
    }
    printer.document(&Document {
        freed_bytes: removed.iter().map(|r| r.freed_bytes).sum(),
        removed,
    })
}

/// Asks on the terminal; no answer is no.
fn agreed(removal: &Removal) -> Result<bool> {
    let (n, size) = (removal.files.len(), Bytes(removal.frees));
    let files = if n == 1 { "file" } else { "files" };
    let mut err = io::stderr().lock();
    write!(
        err,
        "remove {} ({n} {files}, {size} freed)? [y/N] ",
        removal.name
    )?;
    err.flush()?;
    drop(err);
    let answer = line()?.trim().to_lowercase();
    Ok(answer == "y" || answer == "yes")
}

/// One line of standard input, read on a thread so that a stop is noticed while nobody types.
fn line() -> Result<String> {
    const SLICE: Duration = Duration::from_millis(50);
    let (sender, receiver) = channel();
    let reader = std::thread::Builder::new().name("answer".to_owned());
    reader.spawn(move || {
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line);
        let _ = sender.send(read.map(|_| line));
    })?;
    loop {
        interrupt::check()?;
        match receiver.recv_timeout(SLICE) {
            Ok(line) => return Ok(line?),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Interrupted.into()),
        }
    }
}
