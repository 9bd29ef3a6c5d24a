//! Pipes, programs that hang, and limits of the system: every verb answers, and nothing is left.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // clippy knows test functions, not their helpers

use crate::shell::{Folder, command};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

fn golden(name: &str) -> String {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens");
    goldens.join(name).to_str().unwrap().to_owned()
}

/// How it ended; a panic if it does not in time, which a busy machine gets plenty of.
#[track_caller]
fn ended(child: &mut Child, what: &str) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            panic!("{what} did not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn pipes_are_refused_and_not_waited_for() {
    let folder = Folder::new();
    let vae = golden("models/taesd.safetensors");
    let out = folder.at("out.safetensors");
    for (name, args) in [
        ("a.safetensors", &["inspect"][..]),
        ("a.json", &["inspect"]),
        ("b.safetensors", &["convert", "--type", "f16", &out]),
        (
            "a.png",
            &["encode", "--vae", &vae, "-o", &out, "--device", "cpu"],
        ),
        ("a.jpg", &["generate", "--device", "cpu", "--from-png"]),
        (
            "b.png",
            &["generate", "a fox", "--device", "cpu", "--image"],
        ),
    ] {
        let pipe = folder.at(name);
        assert!(
            Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        let (verb, more) = args.split_first().unwrap();
        // A flag takes the file as its value; else the file is the verb's first argument.
        let line = match more.last() {
            Some(last) if last.starts_with("--") => [&[*verb], more, &[&pipe]].concat(),
            _ => [&[*verb, pipe.as_str()], more].concat(),
        };
        let mut nino = command(&line);
        nino.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = nino.spawn().unwrap();
        let status = ended(&mut child, &line.join(" "));
        let said = child.wait_with_output().unwrap().stderr;
        let said = String::from_utf8_lossy(&said);
        assert_eq!(status.code(), Some(1), "{line:?}: {said}");
        assert!(said.contains("this is a pipe"), "{line:?}: {said}");
    }
    assert!(!Path::new(&out).exists());
}

/// A stand-in that fills the pipe of its errors, and then waits for ever.
#[test]
fn a_stop_ends_an_ffmpeg_that_hangs() {
    let folder = Folder::new();
    let (ffmpeg, started) = (folder.at("ffmpeg"), folder.at("started"));
    let script =
        format!("#!/bin/sh\nhead -c 1000000 /dev/zero >&2\ntouch '{started}'\nsleep 600\n");
    std::fs::write(&ffmpeg, script).unwrap();
    std::fs::set_permissions(&ffmpeg, PermissionsExt::from_mode(0o755)).unwrap();
    let clip = folder.at("clip.mp4");
    std::fs::write(&clip, "not a clip").unwrap();
    let vae = golden("models/wan21.safetensors");
    let out = folder.at("out.latent");
    let mut nino = command(&[
        "encode", &clip, "--vae", &vae, "-o", &out, "--device", "cpu",
    ]);
    let path = std::env::var("PATH").unwrap();
    nino.env("PATH", format!("{}:{path}", folder.path().display()));
    let mut child = nino.stderr(Stdio::null()).spawn().unwrap();
    let since = Instant::now();
    while !Path::new(&started).exists() {
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "its errors are not read"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").arg(&id).status().unwrap().success());
    assert_eq!(ended(&mut child, "encode").code(), Some(130));
    assert!(!Path::new(&out).exists());
}

/// The signal for files that grow too large would end the process and leave its temporary file.
#[test]
fn a_limit_on_files_is_an_ordinary_error() {
    let folder = Folder::new();
    let (from, to) = (golden("weights/all.gguf"), folder.at("out.gguf"));
    let nino = command(&["convert", &from, &to, "--type", "f16"]);
    let args: Vec<_> = nino.get_args().map(|a| a.to_string_lossy()).collect();
    let nino = nino.get_program().to_string_lossy();
    let script = format!("ulimit -f 1; exec '{nino}' '{}'", args.join("' '"));
    let said = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    let error = String::from_utf8_lossy(&said.stderr);
    assert!(error.contains("File too large"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// They came out raw, and a terminal acts on them.
#[test]
fn escape_sequences_in_names_are_shown_and_not_acted_on() {
    let folder = Folder::new();
    let file = folder.at("colors.safetensors");
    let name = "a\\u001b]0;title\\u0007\\u001b[31m";
    let header = format!(r#"{{"{name}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}}"#);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([0; 4]);
    std::fs::write(&file, bytes).unwrap();
    let missing = folder.at("no\u{1b}[31m.safetensors");
    for args in [
        &["inspect", "--tensors", &file][..],
        &["inspect", &file],
        &["inspect", &missing],
        &["generate", "a fox", "--model", &file, "--device", "cpu"],
    ] {
        let said = command(args).output().unwrap();
        let text = [said.stdout, said.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{args:?}: {text:?}");
    }
    let said = command(&["inspect", "--tensors", &file]).output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(text.contains("a\\u{1b}]0;title\\u{7}"), "{text}");
}
