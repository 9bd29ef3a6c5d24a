//! One download from one server into a fresh cache, and what must hold however it ends.

use crate::server::{Act, Seen, Server, git_sha1, raw, reply, sha256};
use nino_hub::{
    Choice, ErrorKind, Event, Fetched, Hub, HubError, HubOptions, Limits, Revision, Watcher,
};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) const COMMIT: &str = "c0ffee";
pub(crate) const FILE: &str = "model.safetensors";
pub(crate) const WHAT: &str = "org/repo:model.safetensors";
pub(crate) const TOKEN: &str = "hf_secret";

/// The file that the servers have.
pub(crate) fn content() -> Vec<u8> {
    let byte = |i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8;
    (0..100_000).map(byte).collect()
}

/// Waits as long as a busy machine needs, and fails at once where nothing is to be waited for.
pub(crate) fn patient() -> Limits {
    Limits {
        attempts: 3,
        restarts: 2,
        least_progress: 1000,
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(20),
        most_header_bytes: 16 << 10,
        most_list_bytes: 64 << 10,
        most_file_bytes: 1 << 30,
        ..Limits::default()
    }
}

/// For servers that make one wait.
pub(crate) fn hasty() -> Limits {
    Limits {
        connect: Duration::from_millis(300),
        answer: Duration::from_millis(300),
        stall: Duration::from_millis(200),
        rate_window: Duration::from_millis(200),
        least_rate: 100_000,
        attempts: 2,
        ..patient()
    }
}

/// Hears all and stops when told.
#[derive(Default)]
pub(crate) struct Ear {
    pub(crate) stop: AtomicBool,
    pub(crate) heard: Mutex<Vec<String>>,
}

impl Watcher for Ear {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn event(&self, event: Event<'_>) {
        self.heard.lock().unwrap().push(format!("{event:?}"));
    }
}

/// A cache inside a folder of its own, so that what is written beside it is seen.
pub(crate) struct Trial {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) limits: Limits,
    pub(crate) token: Option<&'static str>,
    pub(crate) revision: Option<Revision>,
    pub(crate) choice: Choice,
    pub(crate) ear: Ear,
}

pub(crate) struct Outcome {
    pub(crate) result: Result<Vec<Fetched>, HubError>,
    pub(crate) took: Duration,
}

impl Trial {
    pub(crate) fn new() -> Trial {
        Trial {
            folder: tempfile::tempdir().unwrap(),
            limits: patient(),
            token: None,
            revision: None,
            choice: Choice::default(),
            ear: Ear::default(),
        }
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.cache().join("models--org--repo/blobs")
    }

    pub(crate) fn hub(&self, server: &Server) -> Hub {
        Hub::new(HubOptions {
            endpoint: Some(server.address.clone()),
            token: self.token.map(str::to_owned),
            cache: self.cache(),
            limits: self.limits,
            proxy: false,
        })
        .unwrap()
    }

    pub(crate) fn pull(&self, server: &Server, what: &str) -> Outcome {
        let started = Instant::now();
        let hub = self.hub(server);
        let result = (|| {
            let target = hub.target(what)?;
            let plan = hub.plan(&target, self.revision.as_ref(), &self.choice, &self.ear)?;
            hub.check_room(&plan)?;
            plan.files.iter().map(|f| hub.fetch(f, &self.ear)).collect()
        })();
        self.check_left();
        Outcome {
            result,
            took: started.elapsed(),
        }
    }

    /// Whatever the server did: nothing is outside the cache, and every finished file of the cache
    /// is what its name says.
    fn check_left(&self) {
        let others = std::fs::read_dir(self.folder.path()).unwrap().flatten();
        let others: Vec<_> = others.filter(|e| e.file_name() != "cache").collect();
        assert!(others.is_empty(), "{others:?}");
        for path in files(&self.cache()) {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let is_blob = path.parent().unwrap().ends_with("blobs");
            if is_blob && !name.ends_with(".incomplete") {
                let bytes = std::fs::read(&path).unwrap();
                let right = [sha256(&bytes), git_sha1(&bytes)].contains(&name);
                assert!(right || name.len() < 40, "{name} has other bytes");
            }
        }
    }
}

impl Outcome {
    #[track_caller]
    pub(crate) fn files(&self) -> &[Fetched] {
        self.result.as_ref().unwrap()
    }

    #[track_caller]
    pub(crate) fn fails(&self, kind: ErrorKind, words: &str) {
        let error = self.result.as_ref().expect_err("it has to fail");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(
            error.to_string().contains(words),
            "{words:?} is not in: {error}"
        );
        // Far below the limits of `patient`, which are minutes.
        assert!(self.took < Duration::from_secs(20), "{:?}", self.took);
    }
}

/// All files and links below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

/// The answer of an honest server to a HEAD request, as Hugging Face gives it for large files.
pub(crate) fn head(changes: &[(&str, Option<&str>)]) -> Vec<Act> {
    let (hash, size) = (sha256(&content()), content().len().to_string());
    let quoted = format!("\"{hash}\"");
    let mut headers = vec![
        ("x-linked-etag", quoted.as_str()),
        ("x-linked-size", size.as_str()),
        ("x-repo-commit", COMMIT),
        ("content-length", "0"),
    ];
    for (name, value) in changes {
        headers.retain(|(n, _)| n != name);
        headers.extend(value.map(|value| (*name, value)));
    }
    vec![Act::Send(raw("200 OK", &headers, b""))]
}

/// The rest of the content from the byte that was asked for.
pub(crate) fn rest(seen: &Seen) -> Vec<Act> {
    let (all, start) = (content(), seen.start());
    if start == 0 {
        return vec![Act::Send(reply("200 OK", &[], &all))];
    }
    let range = format!("bytes {start}-{}/{}", all.len() - 1, all.len());
    let headers = [("content-range", range.as_str())];
    vec![Act::Send(reply(
        "206 Partial Content",
        &headers,
        &all[start..],
    ))]
}

pub(crate) fn honest(seen: &Seen) -> Vec<Act> {
    if seen.is_list() {
        let list = serde_json::json!({
            "sha": COMMIT,
            "siblings": [{
                "rfilename": FILE,
                "size": content().len(),
                "lfs": { "sha256": sha256(&content()), "size": content().len() },
            }],
        });
        return json(&list);
    }
    if seen.is_head() {
        head(&[])
    } else {
        rest(seen)
    }
}

pub(crate) fn json(value: &serde_json::Value) -> Vec<Act> {
    vec![Act::Send(reply(
        "200 OK",
        &[],
        value.to_string().as_bytes(),
    ))]
}
