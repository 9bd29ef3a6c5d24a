//! A server that is killed in the midst of its queue, again and again: everything that was queued
//! is done in the end.

use crate::child::Child;
use crate::{get, send};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Kills before the queue may be finished.
const KILLS: usize = 3;
const PATIENCE: Duration = Duration::from_mins(10);

pub(crate) fn kill(data: &Path, jobs: usize) {
    let mut server = Child::serving(data);
    let ids: Vec<String> = (0..jobs).map(|i| send(server.address, i, 1)).collect();
    let (mut kills, since) = (0, Instant::now());
    loop {
        let done = ids
            .iter()
            .filter(|id| status(server.address, id) == "success")
            .count();
        if done == jobs {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "{done} of {jobs} are done");
        // One at a time is cut off, and each of them once.
        if kills < KILLS && done > kills * jobs / (KILLS + 1) {
            drop(server);
            kills += 1;
            println!("killed when {done} of {jobs} were done");
            server = Child::serving(data);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(kills, KILLS, "the queue was done too soon: give more jobs");
    println!("all {jobs} jobs are done after {kills} kills");
}

fn status(address: SocketAddr, id: &str) -> String {
    let entry: Value = get(address, &format!("/history/{id}"));
    let status = entry[id]["status"]["status_str"].as_str();
    assert_ne!(status, Some("error"), "{id}: {entry}");
    status.unwrap_or_default().to_owned()
}
