//! One file: resumed where it stopped, hashed as it comes, in place only when it is right.

use super::Pulled;
use super::cache::Cache;
use super::hub::{Facts, Hub, HubError};
use crate::interrupt;
use crate::printer::{self, Bar, Printer};
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

const BUFFER: usize = 1 << 18;
/// Times a broken connection is taken up again without a byte of progress.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
pub(crate) enum DownloadError {
    #[error(
        "{file}: the SHA-256 of what arrived is {found}, expected {expected}; it was thrown away"
    )]
    Hash {
        file: String,
        expected: String,
        found: String,
    },
    #[error("{file}: {found} bytes arrived, expected {expected}")]
    Length {
        file: String,
        expected: u64,
        found: u64,
    },
    #[error("{file}: the connection broke: {message}")]
    Broken { file: String, message: String },
    #[error("{path}: another download of it is running")]
    Busy { path: String },
}

pub(super) fn fetch(hub: &Hub, cache: &Cache, file: &str, printer: Printer) -> Result<Pulled> {
    let facts = hub.facts(file)?;
    let blob = cache.blob(&facts.etag);
    let cached = fs::metadata(&blob).is_ok_and(|m| m.len() == facts.size);
    if !cached {
        cache.make_folders()?;
        let bar = printer.progress(facts.size >> 20);
        bar.begin(file);
        bar.set_message(format!("MiB  {file}"));
        let done = download(hub, &facts, file, &cache.incomplete(&facts.etag), &bar);
        bar.finish_and_clear();
        done?;
        fs::rename(cache.incomplete(&facts.etag), &blob)
            .with_context(|| format!("cannot rename to {}", blob.display()))?;
    }
    let path = cache.name(hub.revision(), &facts.commit, file, &facts.etag)?;
    let (bytes, sha256) = (facts.size, facts.sha256().map(str::to_owned));
    Ok(Pulled {
        file: file.to_owned(),
        path,
        bytes,
        sha256,
        cached,
    })
}

fn download(hub: &Hub, facts: &Facts, file: &str, path: &Path, bar: &Bar) -> Result<()> {
    let open = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path);
    let mut out = open.with_context(|| format!("cannot open {}", path.display()))?;
    match out.try_lock() {
        Err(TryLockError::WouldBlock) => {
            return Err(DownloadError::Busy {
                path: path.display().to_string(),
            }
            .into());
        }
        // Some network folders cannot lock; the download works without.
        Err(TryLockError::Error(_)) | Ok(()) => {}
    }
    let mut hash = Sha256::new();
    let mut have = take_up(&mut out, facts.size, &mut hash)?;
    let mut failures = 0;
    while have < facts.size {
        let before = have;
        let result = append(hub, file, &mut out, &mut hash, &mut have, facts.size, bar);
        interrupt::check()?;
        failures = if have > before { 0 } else { failures + 1 };
        match result {
            Ok(()) => {}
            Err(error) if is_network(&error) && failures < ATTEMPTS => {
                tracing::info!("{file}: {error:#}; trying again from byte {have}");
                std::thread::sleep(FIRST_PAUSE * (1 << failures.min(6)));
            }
            Err(error) => return Err(error),
        }
        if failures >= ATTEMPTS {
            let (file, expected) = (file.to_owned(), facts.size);
            return Err(DownloadError::Length {
                file,
                expected,
                found: have,
            }
            .into());
        }
    }
    out.sync_all()?;
    if let Some(expected) = facts.sha256() {
        let found = hex(&hash.finalize());
        if found != expected.to_lowercase() {
            fs::remove_file(path)?;
            let (file, expected) = (file.to_owned(), expected.to_owned());
            return Err(DownloadError::Hash {
                file,
                expected,
                found,
            }
            .into());
        }
    }
    Ok(())
}

/// Hashes what an earlier run left; too much of it is none of it.
fn take_up(out: &mut File, size: u64, hash: &mut Sha256) -> Result<u64> {
    if out.metadata()?.len() > size {
        out.set_len(0)?;
    }
    let mut buf = vec![0; BUFFER];
    let mut have = 0;
    loop {
        let n = out.read(&mut buf)?;
        if n == 0 {
            break;
        }
        hash.update(&buf[..n]);
        have += n as u64;
    }
    if have > 0 {
        printer::note(&format!("resuming at {}", crate::bytes::Bytes(have)));
    }
    Ok(have)
}

fn append(
    hub: &Hub,
    file: &str,
    out: &mut File,
    hash: &mut Sha256,
    have: &mut u64,
    size: u64,
    bar: &Bar,
) -> Result<()> {
    let (resumed, mut body) = hub.read(file, *have)?;
    if *have > 0 && !resumed {
        // The server sends all of it again.
        *have = 0;
        *hash = Sha256::new();
        out.set_len(0)?;
    }
    out.seek(SeekFrom::Start(*have))?;
    let mut buf = vec![0; BUFFER];
    loop {
        let n = body.read(&mut buf).map_err(|e| broken(file, &e))?;
        if n == 0 {
            return Ok(());
        }
        if *have + n as u64 > size {
            let (file, found) = (file.to_owned(), *have + n as u64);
            return Err(DownloadError::Length {
                file,
                expected: size,
                found,
            }
            .into());
        }
        out.write_all(&buf[..n])
            .context("cannot write the download")?;
        hash.update(&buf[..n]);
        *have += n as u64;
        bar.set_position(*have >> 20);
        interrupt::check()?;
    }
}

/// Kept as text: in the chain of an error a broken pipe means that nobody reads our output.
fn broken(file: &str, error: &io::Error) -> DownloadError {
    let (file, message) = (file.to_owned(), error.to_string());
    DownloadError::Broken { file, message }
}

/// A connection that broke, as opposed to a disk that is full or a server that said no.
fn is_network(error: &anyhow::Error) -> bool {
    let broken = matches!(error.downcast_ref(), Some(DownloadError::Broken { .. }));
    broken || matches!(error.downcast_ref(), Some(HubError::NoAnswer { .. }))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}
