//! An ffmpeg that never ends: it is waited for by nobody else, and ended with what wanted it.
#![cfg(unix)]

use crate::client::{Running, graph, start_with};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Says where the ffmpeg writes its process id.
const FOLDER: &str = "NINO_TEST_FFMPEG";

/// The folder of an ffmpeg that hangs, in the process of a test of its own: what is on the PATH is
/// the same for a whole process. `None` in the first one, which waits for the other.
fn with_hanging_ffmpeg(test: &str) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return Some(folder.into());
    }
    let folder = tempfile::tempdir().unwrap();
    let ffmpeg = folder.path().join("ffmpeg");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = -version ] && exit 0\necho $$ > '{}'\nexec sleep 600\n",
        folder.path().join("pid").display()
    );
    std::fs::write(&ffmpeg, script).unwrap();
    std::fs::set_permissions(&ffmpeg, PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let ran = Command::new(std::env::current_exe().unwrap())
        .args([&format!("ffmpeg::{test}"), "--exact", "--nocapture"])
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .env(FOLDER, folder.path())
        .status()
        .unwrap();
    assert!(ran.success());
    None
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(25), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The process of the ffmpeg, once it runs.
fn running(folder: &Path) -> String {
    let read = || std::fs::read_to_string(folder.join("pid")).unwrap_or_default();
    until("ffmpeg starts", || read().ends_with('\n'));
    read().trim().to_owned()
}

fn is_gone(process: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    state.is_empty() || state.contains(") Z ")
}

/// A graph that writes an MP4.
fn saves() -> Value {
    json!({
        "1": { "class_type": "EmptyImage",
               "inputs": { "width": 64, "height": 64, "batch_size": 3, "color": 0 } },
        "4": { "class_type": "CreateVideo", "inputs": { "images": ["1", 0], "fps": 12.0 } },
        "5": { "class_type": "SaveVideo", "inputs": {
            "video": ["4", 0], "filename_prefix": "clip", "format": "auto", "codec": "auto" } },
    })
}

fn server() -> Running {
    start_with(tempfile::tempdir().unwrap(), |_| {})
}

#[test]
fn a_clip_that_is_written_holds_nobody_up_and_can_be_stopped() {
    let Some(folder) =
        with_hanging_ffmpeg("a_clip_that_is_written_holds_nobody_up_and_can_be_stopped")
    else {
        return;
    };
    let server = server();
    let id = server.prompt(&saves(), "v");
    let process = running(&folder);
    // Names and settings are other matters.
    let sent = server.upload("/upload/image", "a.png", b"x", &[]);
    assert_eq!(sent.status, 200);
    assert_eq!(server.post("/settings/a", &json!(1)).status, 200);
    server.post("/interrupt", &json!({ "prompt_id": id }));
    let entry = server.wait(&id);
    let last = entry["status"]["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap();
    assert_eq!(last[0], "execution_interrupted", "{entry}");
    until("ffmpeg ends", || is_gone(&process));
    // The end of the server is a stop, too: the job is as if it had not been started.
    std::fs::remove_file(folder.join("pid")).unwrap();
    server.prompt(&saves(), "v");
    running(&folder);
    let since = Instant::now();
    let data = server.end();
    assert!(since.elapsed() < Duration::from_secs(4));
    let db = rusqlite::Connection::open(data.path().join("user/nino.sqlite")).unwrap();
    let select = "SELECT status, starts FROM jobs WHERE ended IS NULL";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let left: (String, i64) = db.query_row(select, [], row).unwrap();
    assert_eq!(left, ("pending".to_owned(), 0));
}

#[test]
fn a_clip_is_read_for_a_plan_as_long_as_somebody_waits() {
    let Some(folder) = with_hanging_ffmpeg("a_clip_is_read_for_a_plan_as_long_as_somebody_waits")
    else {
        return;
    };
    let server = server();
    server.upload("/upload/image", "a.mp4", b"no clip", &[]);
    let reads = json!({
        "1": { "class_type": "LoadVideo", "inputs": { "file": "a.mp4" } },
        "2": { "class_type": "GetVideoComponents", "inputs": { "video": ["1", 0] } },
        "3": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": "nino-emoji" } },
        "4": { "class_type": "VAEEncode", "inputs": { "pixels": ["2", 0], "vae": ["3", 2] } },
        "5": { "class_type": "SaveLatent",
               "inputs": { "samples": ["4", 0], "filename_prefix": "x" } },
    });
    let body = json!({ "prompt": reads }).to_string();
    let mut client = std::net::TcpStream::connect(server.address).unwrap();
    let head = format!(
        "POST /prompt HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).unwrap();
    client.write_all(body.as_bytes()).unwrap();
    let process = running(&folder);
    drop(client);
    until("ffmpeg ends", || is_gone(&process));
    let id = server.prompt(&graph(1, 1), "p");
    assert_eq!(server.wait(&id)["status"]["status_str"], "success");
    // Nothing was queued for who left.
    assert_eq!(server.json("/history").as_object().unwrap().len(), 1);
}
