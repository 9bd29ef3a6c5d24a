//! One file: found in the cache and checked, or downloaded: resumed where it stopped, hashed as it
//! comes, in place only when it is right.

use crate::attempts::Attempts;
use crate::cache::Cache;
use crate::client::{Answer, Client, Method, Request};
use crate::hash::Hasher;
use crate::hub::{Content, Planned};
use crate::names::Etag;
use crate::{Event, HubError, Watcher};
use nino_files::{Opened, free_bytes, open_to_resume};
use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const PIECE: usize = 1 << 18;
/// Bytes that a download leaves free on the disk.
const SPARE: u64 = 64 << 20;

/// A file that is in the cache now.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its name in the cache, which the library finds.
    pub path: PathBuf,
    pub bytes: u64,
    /// `None` for small text files, which have git's hash.
    pub sha256: Option<String>,
    /// The hash that it was compared with; `None` where the server gives none.
    pub checked: Option<&'static str>,
    /// It was there already.
    pub cached: bool,
}

/// An error if the disk of `folder` has no room for `need` bytes more.
pub(crate) fn check_room(folder: &Path, need: u64) -> Result<(), HubError> {
    // The cache itself may not be there yet.
    let there = folder.ancestors().find(|f| f.exists());
    let free = there.and_then(free_bytes);
    match free {
        Some(free) if need > 0 && free < need.saturating_add(SPARE) => Err(HubError::NoRoom {
            folder: folder.to_owned(),
            need,
            free,
        }),
        _ => Ok(()),
    }
}

/// The file with the bytes of it that the cache has.
pub(crate) fn with_cached(root: &Path, mut planned: Planned) -> Planned {
    let cache = Cache::new(root, &planned.repo);
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |m| m.len());
    let whole = whole(&cache, &planned);
    planned.have = match whole {
        Some(_) => planned.size,
        None if planned.can_resume() => {
            bytes(&cache.incomplete(planned.unfinished())).min(planned.size)
        }
        None => 0,
    };
    planned
}

pub(crate) fn fetch(
    client: &Client,
    root: &Path,
    planned: &Planned,
    watcher: &dyn Watcher,
) -> Result<Fetched, HubError> {
    let cache = Cache::new(root, &planned.repo);
    cache.make_folders()?;
    let there = match whole(&cache, planned) {
        Some(etag) if is_right(&cache, planned, &etag, watcher)? => Some(etag),
        _ => None,
    };
    let cached = there.is_some();
    let etag = match there {
        Some(etag) => etag,
        None => download(client, &cache, planned, watcher)?,
    };
    let path = cache.name(&planned.revision, &planned.commit, &planned.file, &etag)?;
    let kind = Hasher::new(&etag, planned.size).kind();
    Ok(Fetched {
        path,
        bytes: planned.size,
        sha256: (etag.as_str().len() == 64 && kind.is_some()).then(|| etag.to_string()),
        // A content that got its name here was not compared with anything.
        checked: kind.filter(|_| matches!(planned.content, Content::Known(_))),
        cached,
    })
}

/// Downloads a content and puts it in place. Gives the ETag that it is named by.
fn download(
    client: &Client,
    cache: &Cache,
    planned: &Planned,
    watcher: &dyn Watcher,
) -> Result<Etag, HubError> {
    let path = cache.incomplete(planned.unfinished());
    let found = Unfinished::open(planned, &path, watcher)?.complete(client)?;
    let etag = match &planned.content {
        Content::Known(etag) => etag.clone(),
        Content::At { .. } => Etag::new(&found.unwrap_or_default())?,
    };
    let blob = cache.blob(&etag);
    fs::rename(&path, &blob).map_err(HubError::io(&blob, "put the file in place"))?;
    cache.checked().remember(&etag, &blob);
    Ok(etag)
}

/// The ETag of the content if the cache has one of the right size.
fn whole(cache: &Cache, planned: &Planned) -> Option<Etag> {
    let etag = match &planned.content {
        Content::Known(etag) => etag.clone(),
        Content::At { .. } => cache.content_of(&planned.commit, &planned.file)?,
    };
    let meta = fs::metadata(cache.blob(&etag)).ok()?;
    (meta.is_file() && meta.len() == planned.size).then_some(etag)
}

/// Whether a content of the cache has the hash that it is named by. One that has not is removed.
fn is_right(
    cache: &Cache,
    planned: &Planned,
    etag: &Etag,
    watcher: &dyn Watcher,
) -> Result<bool, HubError> {
    let blob = cache.blob(etag);
    let checked = cache.checked();
    let mut hasher = Hasher::new(etag, planned.size);
    if hasher.kind().is_none() || checked.knows(etag, &blob) {
        return Ok(true);
    }
    let (file, size) = (planned.file.as_str(), planned.size);
    watcher.event(Event::Checking { file, size });
    let mut opened = Opened::open(&blob)?;
    hash_all(&mut opened, &mut hasher, watcher).map_err(|e| e.at(&blob))?;
    if hasher.finish().is_ok() && opened.check_unchanged().is_ok() {
        checked.remember(etag, &blob);
        return Ok(true);
    }
    watcher.event(Event::Damaged { file });
    fs::remove_file(&blob).map_err(HubError::io(&blob, "remove the damaged file"))?;
    Ok(false)
}

/// A file on its way.
struct Unfinished<'a> {
    planned: &'a Planned,
    watcher: &'a dyn Watcher,
    path: &'a Path,
    out: File,
    hasher: Hasher,
    have: u64,
    restarts: u32,
}

impl<'a> Unfinished<'a> {
    /// Takes up what an earlier run left; too much of it is none of it.
    fn open(
        planned: &'a Planned,
        path: &'a Path,
        watcher: &'a dyn Watcher,
    ) -> Result<Unfinished<'a>, HubError> {
        let mut out = open_to_resume(path)?;
        match out.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(HubError::Busy {
                    path: path.to_owned(),
                });
            }
            // Some network folders cannot lock; the download works without.
            Err(TryLockError::Error(_)) | Ok(()) => {}
        }
        let left = out
            .metadata()
            .map_err(HubError::io(path, "read the size"))?;
        if left.len() > planned.size || !planned.can_resume() {
            out.set_len(0).map_err(HubError::io(path, "write"))?;
        }
        let mut hasher = planned.hasher();
        let have = hash_all(&mut out, &mut hasher, watcher).map_err(|e| e.at(path))?;
        if have > 0 {
            let file = planned.file.as_str();
            watcher.event(Event::Resumed { file, have });
        }
        let folder = path.parent().unwrap_or(path);
        check_room(folder, planned.size - have)?;
        Ok(Unfinished {
            planned,
            watcher,
            path,
            out,
            hasher,
            have,
            restarts: 0,
        })
    }

    /// Downloads the rest and compares the hash. Gives the SHA-256 of what is there, where it was
    /// computed to name the content.
    fn complete(mut self, client: &Client) -> Result<Option<String>, HubError> {
        let limits = &client.limits;
        let mut attempts = Attempts::new(limits, self.watcher, self.planned.file.as_str());
        let mut furthest = self.have;
        while self.have < self.planned.size {
            let error = match self.append(client) {
                Ok(()) if self.have == self.planned.size => break,
                Ok(()) => HubError::Broken {
                    url: self.planned.source.to_string(),
                    why: format!("it ended at byte {} of {}", self.have, self.planned.size),
                },
                Err(error) => error,
            };
            if self.have >= furthest.saturating_add(limits.least_progress) {
                furthest = self.have;
                attempts.progressed();
            }
            attempts.failed(error)?;
        }
        let done = self.out.sync_all();
        done.map_err(HubError::io(self.path, "write"))?;
        let hasher = std::mem::replace(&mut self.hasher, Hasher::Unknown);
        hasher.finish().map_err(|mismatch| {
            let _ = fs::remove_file(self.path);
            HubError::Hash {
                file: self.planned.file.to_string(),
                kind: mismatch.kind,
                expected: mismatch.expected,
                found: mismatch.found,
            }
        })
    }

    /// One request for the rest, until its body ends.
    fn append(&mut self, client: &Client) -> Result<(), HubError> {
        let request = Request {
            method: Method::Get,
            address: self.planned.source.clone(),
            start: self.have,
        };
        let mut answer = match client.ask(request, self.watcher, |_| false) {
            // What is left of the file is not part of the server's any more.
            Err(HubError::Status { status: 416, .. }) if self.have > 0 => {
                return self.start_anew(client.limits.restarts);
            }
            other => other?,
        };
        self.check_range(&answer)?;
        if answer.status != 206 && self.have > 0 {
            self.start_anew(client.limits.restarts)?;
        }
        self.check_length(&answer)?;
        let failed = |error| HubError::io(self.path, "write")(error);
        self.out.seek(SeekFrom::Start(self.have)).map_err(failed)?;
        while let Some(piece) = answer.body.next(self.watcher)? {
            let have = self.have + piece.len() as u64;
            if have > self.planned.size {
                return Err(self.wrong_length(have));
            }
            let failed = HubError::io(self.path, "write");
            self.out.write_all(&piece).map_err(failed)?;
            self.hasher.update(&piece);
            self.have = have;
            self.watcher.event(Event::Progress {
                file: self.planned.file.as_str(),
                have,
                size: self.planned.size,
            });
        }
        Ok(())
    }

    /// The server sends all of it again.
    fn start_anew(&mut self, most: u32) -> Result<(), HubError> {
        self.restarts += 1;
        if self.restarts > most {
            return Err(HubError::Restarts {
                file: self.planned.file.to_string(),
                most,
            });
        }
        self.have = 0;
        self.hasher = self.planned.hasher();
        let done = self.out.set_len(0);
        done.map_err(HubError::io(self.path, "write"))
    }

    /// A partial answer has to begin where it was asked to, and to be part of the same file.
    fn check_range(&self, answer: &Answer) -> Result<(), HubError> {
        if answer.status != 206 {
            return Ok(());
        }
        let size = answer.headers.whole_size();
        let is_same = size.is_none_or(|size| size == self.planned.size);
        if is_same && answer.headers.begins_at(self.have) {
            return Ok(());
        }
        let range = answer.headers.get("content-range").unwrap_or_default();
        Err(HubError::BadAnswer {
            url: answer.address.to_string(),
            what: "range",
            why: format!(
                "{range:?}, and byte {} of {} was asked for",
                self.have, self.planned.size
            ),
        })
    }

    fn check_length(&self, answer: &Answer) -> Result<(), HubError> {
        let length = answer.headers.get("content-length");
        let length = length.and_then(|l| l.parse::<u64>().ok());
        match length.map(|length| self.have.saturating_add(length)) {
            Some(found) if found != self.planned.size => Err(self.wrong_length(found)),
            _ => Ok(()),
        }
    }

    fn wrong_length(&self, found: u64) -> HubError {
        HubError::Length {
            file: self.planned.file.to_string(),
            expected: self.planned.size,
            found,
        }
    }
}

impl Planned {
    /// The name of the content while it is not whole.
    fn unfinished(&self) -> &Etag {
        match &self.content {
            Content::Known(etag) => etag,
            Content::At { key, .. } => key,
        }
    }

    fn can_resume(&self) -> bool {
        match self.content {
            Content::Known(_) => true,
            Content::At { can_resume, .. } => can_resume,
        }
    }

    fn hasher(&self) -> Hasher {
        match &self.content {
            Content::Known(etag) => Hasher::new(etag, self.size),
            Content::At { .. } => Hasher::naming(),
        }
    }
}

/// Why a file was not hashed.
enum HashError {
    Stopped,
    Io(std::io::Error),
}

impl HashError {
    fn at(self, path: &Path) -> HubError {
        match self {
            HashError::Stopped => HubError::Stopped,
            HashError::Io(error) => HubError::io(path, "read")(error),
        }
    }
}

/// The number of bytes there were.
fn hash_all(
    from: &mut impl Read,
    hasher: &mut Hasher,
    watcher: &dyn Watcher,
) -> Result<u64, HashError> {
    let mut piece = vec![0; PIECE];
    let mut bytes = 0;
    loop {
        if watcher.stopped() {
            return Err(HashError::Stopped);
        }
        match from.read(&mut piece).map_err(HashError::Io)? {
            0 => return Ok(bytes),
            n => {
                hasher.update(&piece[..n]);
                bytes += n as u64;
            }
        }
    }
}
