//! Models that the page asks for: downloads from Hugging Face, one after the other, each with how
//! far it is. Only repositories are taken, never plain addresses, so that nobody has the server ask
//! its own network for something.

use crate::error::Refused;
use axum::http::StatusCode;
use nino_hub::{Alias, Choice, Event, Hub, HubOptions, Plan, Target, Watcher};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Downloads that may wait or run.
const MOST_ACTIVE: usize = 8;
/// Downloads that are told of, with those that have ended.
const MOST_TOLD: usize = 32;
/// Bytes of what a client may call a model.
const LONGEST_NAME: usize = 300;

/// All downloads since the server started.
pub(crate) struct Downloads {
    /// Where from and where to; `None` where there is no place for downloads.
    options: Option<HubOptions>,
    list: Mutex<VecDeque<Arc<Download>>>,
    /// Told whenever one has ended or is to stop: they run in the order in which they came.
    turn: Condvar,
    next: AtomicU64,
}

/// One of them.
struct Download {
    id: u64,
    what: String,
    stop: AtomicBool,
    state: Mutex<State>,
}

#[derive(Clone, Default)]
struct State {
    phase: Phase,
    /// The file that comes now.
    file: String,
    /// Bytes of all files that are there, and that there are.
    have: u64,
    size: u64,
    /// Why it failed, or what is being waited for.
    note: String,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Waiting,
    Running,
    Done,
    Failed,
    Stopped,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Running => "running",
            Phase::Done => "done",
            Phase::Failed => "failed",
            Phase::Stopped => "stopped",
        }
    }

    fn is_active(self) -> bool {
        matches!(self, Phase::Waiting | Phase::Running)
    }
}

impl Download {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn to_json(&self) -> Value {
        let state = self.state();
        json!({
            "id": self.id, "what": self.what, "state": state.phase.name(), "file": state.file,
            "have": state.have, "size": state.size, "note": state.note,
        })
    }
}

/// Hears of the file that comes, before which `before` bytes of others are there.
struct Ear<'a> {
    download: &'a Download,
    before: u64,
}

impl Watcher for Ear<'_> {
    fn stopped(&self) -> bool {
        self.download.stop.load(Ordering::Relaxed)
    }

    fn event(&self, event: Event<'_>) {
        let mut state = self.download.state();
        match event {
            Event::Progress { have, .. } | Event::Resumed { have, .. } => {
                state.have = self.before + have;
                state.note.clear();
            }
            Event::Checking { file, .. } => state.note = format!("checking {file}"),
            Event::Damaged { file } => state.note = format!("{file} is damaged and comes again"),
            Event::Retrying { why, .. } => state.note = format!("{why}; trying again"),
        }
    }
}

impl Downloads {
    pub(crate) fn new(options: Option<HubOptions>) -> Downloads {
        Downloads {
            options,
            list: Mutex::default(),
            turn: Condvar::new(),
            next: AtomicU64::new(1),
        }
    }

    fn list(&self) -> MutexGuard<'_, VecDeque<Arc<Download>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The downloads, the last one first, and the short names that there are.
    pub(crate) fn to_json(&self) -> Value {
        let names = Alias::all()
            .map(|alias| json!({ "name": alias.name, "about": alias.about, "size": alias.size }));
        let all: Vec<Value> = self.list().iter().rev().map(|d| d.to_json()).collect();
        json!({
            "available": self.options.is_some(),
            "names": names.collect::<Vec<_>>(),
            "downloads": all,
        })
    }

    /// Begins a download on a thread of its own, and gives its number.
    pub(crate) fn begin(self: &Arc<Self>, what: &str) -> Result<u64, Refused> {
        let Some(options) = &self.options else {
            let text = "this server has no folder for downloads";
            return Err(Refused::new(StatusCode::NOT_IMPLEMENTED, text));
        };
        if what.is_empty() || what.len() > LONGEST_NAME {
            return Err(Refused::bad(
                "say which model, by its short name or repository",
            ));
        }
        let bad = |e: nino_hub::HubError| Refused::bad(e.to_string());
        let hub = Hub::new(options.clone()).map_err(bad)?;
        let target = hub.target(what).map_err(bad)?;
        if matches!(target, Target::Url { .. }) {
            let text = "a server downloads from repositories only: say owner/name, or \
                        owner/name/file";
            return Err(Refused::bad(text));
        }
        let download = Arc::new(Download {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            what: what.to_owned(),
            stop: AtomicBool::new(false),
            state: Mutex::default(),
        });
        {
            let mut list = self.list();
            let active = |d: &&Arc<Download>| d.state().phase.is_active();
            if list.iter().filter(active).count() >= MOST_ACTIVE {
                let text = format!("{MOST_ACTIVE} downloads wait or run already");
                return Err(Refused::new(StatusCode::TOO_MANY_REQUESTS, text));
            }
            if list.len() >= MOST_TOLD {
                let ended = list.iter().position(|d| !d.state().phase.is_active());
                ended.into_iter().for_each(|i| drop(list.remove(i)));
            }
            list.push_back(Arc::clone(&download));
        }
        let (own, id) = (Arc::clone(self), download.id);
        let thread = std::thread::Builder::new().name("download".to_owned());
        let spawned = thread.spawn(move || own.run(&download, &hub, &target));
        spawned.map_err(|e| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
        Ok(id)
    }

    /// Stops a download; what has come of it stays for the next attempt.
    pub(crate) fn stop(&self, id: u64) -> Result<(), Refused> {
        let found = self.list().iter().find(|d| d.id == id).cloned();
        let found =
            found.ok_or_else(|| Refused::not_found(format!("there is no download {id}")))?;
        found.stop.store(true, Ordering::Relaxed);
        self.next_turn();
        Ok(())
    }

    /// Lets those that wait look whether it is their turn. Whoever looks has the list, so that
    /// nobody misses it.
    fn next_turn(&self) {
        drop(self.list());
        self.turn.notify_all();
    }

    /// Waits until no download that came before is left, or until this one is to stop.
    fn wait(&self, download: &Download) {
        let is_before = |d: &Arc<Download>| d.id < download.id && d.state().phase.is_active();
        let mut list = self.list();
        while !download.stop.load(Ordering::Relaxed) && list.iter().any(is_before) {
            list = self.turn.wait(list).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stops all of them, when the server ends.
    pub(crate) fn stop_all(&self) {
        let list = self.list();
        list.iter()
            .for_each(|d| d.stop.store(true, Ordering::Relaxed));
        drop(list);
        self.turn.notify_all();
    }

    fn run(&self, download: &Download, hub: &Hub, target: &Target) {
        self.wait(download);
        let done = if download.stop.load(Ordering::Relaxed) {
            Ok(())
        } else {
            download.state().phase = Phase::Running;
            fetch(download, hub, target)
        };
        let stopped = download.stop.load(Ordering::Relaxed);
        let mut state = download.state();
        (state.phase, state.note) = match done {
            _ if stopped => (Phase::Stopped, String::new()),
            Ok(()) => (Phase::Done, String::new()),
            Err(error) => (Phase::Failed, error.to_string()),
        };
        tracing::info!("download of {}: {}", download.what, state.phase.name());
        drop(state);
        self.next_turn();
    }
}

fn fetch(download: &Download, hub: &Hub, target: &Target) -> Result<(), nino_hub::HubError> {
    let ear = |before| Ear { download, before };
    let plan: Plan = hub.plan(target, None, &Choice::default(), &ear(0))?;
    hub.check_room(&plan)?;
    download.state().size = plan.size();
    let mut before = 0;
    for planned in &plan.files {
        planned.file.as_str().clone_into(&mut download.state().file);
        hub.fetch(planned, &ear(before))?;
        before += planned.size;
        download.state().have = before;
    }
    Ok(())
}
