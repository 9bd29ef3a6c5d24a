//! What all parts of the server share.

use crate::config::Config;
use crate::downloads::Downloads;
use crate::folders::Folders;
use crate::gallery::Words;
use crate::hub::Hub;
use crate::models::Models;
use crate::names::Names;
use crate::plan::Needs;
use crate::queue::Queue;
use nino_engine::Store;
use serde_json::json;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::Semaphore;

pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) folders: Folders,
    pub(crate) models: Models,
    pub(crate) downloads: Arc<Downloads>,
    pub(crate) queue: Queue,
    pub(crate) hub: Hub,
    /// The stores of the devices, in their order.
    pub(crate) stores: Vec<Store>,
    pub(crate) started: Instant,
    pub(crate) counts: Counts,
    pub(crate) names: Names,
    /// Held while the user's settings are read and written again.
    pub(crate) settings: Mutex<()>,
    pub(crate) needs: Needs,
    pub(crate) words: Words,
    /// Room for the bodies of requests.
    pub(crate) bodies: Arc<Semaphore>,
    /// Room for pictures that requests unpack, each of which may take most of a gigabyte.
    pub(crate) unpacking: Arc<Semaphore>,
    /// How far the job is that told last.
    pub(crate) progress: Mutex<Progress>,
}

/// What is counted for `/metrics`.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) requests: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) pictures: AtomicU64,
    pub(crate) busy_ms: AtomicU64,
}

/// How far a job is.
#[derive(Clone, Default)]
pub(crate) struct Progress {
    pub(crate) id: String,
    pub(crate) done: usize,
    pub(crate) total: usize,
    /// When its first step began.
    pub(crate) since: Option<Instant>,
    /// What the unfinished picture looks like.
    pub(crate) jpeg: Vec<u8>,
}

impl App {
    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells everybody how many jobs there are.
    pub(crate) fn tell_status(&self) {
        self.hub.tell_all("status", &self.status());
    }

    pub(crate) fn status(&self) -> serde_json::Value {
        json!({ "status": { "exec_info": { "queue_remaining": self.queue.remaining() } } })
    }
}
