//! A stop stops: whatever a verb is at, it ends soon after it is told to, and leaves nothing.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // clippy knows test functions, not their helpers

use crate::shell::{Folder, command};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A second, and what a busy machine takes to start a thread.
const SOON: Duration = Duration::from_secs(5);

fn send(signal: &str, child: &Child) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args([signal, &id]).status().unwrap();
    assert!(sent.success());
}

#[track_caller]
fn ends_soon(child: &mut Child, what: &str) {
    let told = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(130), "{what}");
            return;
        }
        if told.elapsed() > SOON {
            child.kill().unwrap();
            panic!("{what} did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn start(args: &[&str]) -> Child {
    let mut nino = command(args);
    nino.stdout(Stdio::null()).stderr(Stdio::null());
    nino.spawn().unwrap()
}

/// A model of 4 GiB of zeros, nearly all of it a hole.
fn large(folder: &Folder) -> String {
    let path = folder.at("large.safetensors");
    let header = r#"{"w":{"dtype":"F32","shape":[32768,32768],"data_offsets":[0,4294967296]}}"#;
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes())
        .unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.set_len(8 + header.len() as u64 + (4 << 30)).unwrap();
    path
}

/// One SIGTERM did not end some of these, and SIGHUP left their files behind.
#[test]
fn every_signal_ends_every_verb() {
    let folder = Folder::new();
    let from = large(&folder);
    let out = Folder::new();
    let (png, gguf) = (out.at("out.png"), out.at("out.gguf"));
    let steps = ["--steps", "10000", "--size", "512x512", "--device", "cpu"];
    let generate = [&["generate", "a fox", "-o", &png][..], &steps].concat();
    let convert = ["convert", &from, &gguf, "--type", "q6_k"];
    for args in [&generate[..], &convert] {
        for signal in ["-TERM", "-INT", "-HUP"] {
            let mut child = start(args);
            std::thread::sleep(Duration::from_millis(1500));
            assert!(
                child.try_wait().unwrap().is_none(),
                "{args:?} ended by itself"
            );
            send(signal, &child);
            ends_soon(&mut child, &format!("{signal} {args:?}"));
        }
    }
    let left = std::fs::read_dir(out.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|e| e.file_name()).collect();
    // What a stopped run had come to is kept on purpose.
    let kept = |n: &std::ffi::OsString| n.to_string_lossy().ends_with(".latent");
    assert!(left.iter().all(kept), "{left:?}");
}

/// `nohup` means that a terminal may close.
#[test]
fn a_signal_that_the_parent_ignores_stays_ignored() {
    let out = Folder::new();
    let png = out.at("out.png");
    let nino = env!("CARGO_BIN_EXE_nino");
    let script =
        format!("trap '' HUP; exec '{nino}' generate fox --steps 10000 --device cpu -o '{png}'");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = shell
        .env("NINO_CACHE", env!("CARGO_TARGET_TMPDIR"))
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    send("-HUP", &child);
    std::thread::sleep(Duration::from_millis(1500));
    assert!(child.try_wait().unwrap().is_none(), "SIGHUP ended it");
    send("-TERM", &child);
    ends_soon(&mut child, "generate");
}

/// Whoever waits for a reader that does not read holds the lock that a message needs.
#[test]
fn a_standard_error_that_nobody_reads_does_not_keep_it() {
    let out = Folder::new();
    let png = out.at("out.png");
    let mut nino = command(&[
        "-vv", "generate", "fox", "--steps", "10000", "--device", "cpu", "-o", &png,
    ]);
    let mut child = nino
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    send("-TERM", &child);
    ends_soon(&mut child, "generate");
}
