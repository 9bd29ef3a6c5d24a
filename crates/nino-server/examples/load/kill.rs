//! A server that is killed in the midst of its queue, again and again: everything that was queued
//! is done in the end.

use crate::{bind, get, send};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Kills before the queue may be finished.
const KILLS: usize = 3;
const PATIENCE: Duration = Duration::from_mins(10);

/// Serves a folder until it is killed, and prints its address.
pub(crate) fn serve(data: &Path) {
    let server = bind(data);
    println!("{}", server.address());
    server.run().unwrap();
}

fn child(data: &Path) -> (Child, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["serve".as_ref(), data.as_os_str()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let out = child.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    (child, line.trim().parse().unwrap())
}

pub(crate) fn kill(data: &Path, jobs: usize) {
    let (mut server, mut address) = child(data);
    let ids: Vec<String> = (0..jobs).map(|i| send(address, i, 1)).collect();
    let (mut kills, since) = (0, Instant::now());
    loop {
        let done = ids
            .iter()
            .filter(|id| status(address, id) == "success")
            .count();
        if done == jobs {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "{done} of {jobs} are done");
        // One at a time is cut off, and each of them once.
        if kills < KILLS && done > kills * jobs / (KILLS + 1) {
            server.kill().unwrap();
            server.wait().unwrap();
            kills += 1;
            println!("killed when {done} of {jobs} were done");
            (server, address) = child(data);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(kills, KILLS, "the queue was done too soon: give more jobs");
    println!("all {jobs} jobs are done after {kills} kills");
}

fn status(address: SocketAddr, id: &str) -> String {
    let entry: Value = get(address, &format!("/history/{id}"));
    let status = entry[id]["status"]["status_str"].as_str();
    assert_ne!(status, Some("error"), "{id}: {entry}");
    status.unwrap_or_default().to_owned()
}
