//! Programs that say too much, never end, or fail.

use super::within;
use crate::{Child, ChildError, Pipes, Stop};
use std::io::{Read, Write};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);
const READ: Pipes = Pipes {
    input: false,
    output: true,
};
const WRITE: Pipes = Pipes {
    input: true,
    output: false,
};

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// A pipe holds 64 KiB; this fills it many times before the output comes.
#[test]
fn a_program_that_says_much_is_heard_to_the_end() {
    let script = "head -c 4000000 /dev/zero >&2; echo done; echo last >&2; exit 3";
    let (out, error) = within(SOON, || {
        let mut child = Child::start(sh(script), READ, Stop::never()).unwrap();
        let mut out = String::new();
        child.read_to_string(&mut out).unwrap();
        (out, child.finish().unwrap_err())
    });
    assert_eq!(out, "done\n");
    assert!(matches!(error, ChildError::Failed { .. }), "{error}");
}

#[test]
fn the_first_line_of_a_failure_is_told() {
    let script = "cat > /dev/null; echo 'no such codec' >&2; echo more >&2; exit 1";
    let mut child = Child::start(sh(script), WRITE, Stop::never()).unwrap();
    child.write_all(&vec![0; 100_000]).unwrap();
    let error = child.finish().unwrap_err().to_string();
    assert!(error.ends_with("1): no such codec"), "{error}");
    let missing = Command::new("no-such-program-anywhere");
    let Err(error) = Child::start(missing, READ, Stop::never()) else {
        panic!("there is no such program");
    };
    assert!(matches!(error, ChildError::NotFound { .. }), "{error}");
    let mut child = Child::start(sh("cat"), WRITE, Stop::never()).unwrap();
    child.write_all(b"x").unwrap();
    child.finish().unwrap();
}

/// The program that waits is a child of the child: it holds the pipes as well.
#[test]
fn a_stop_ends_a_program_that_never_ends() {
    for (script, pipes) in [
        ("sleep 600; true", READ),
        ("yes >&2", READ),
        ("sleep 600; true", WRITE),
    ] {
        let asked = Arc::new(AtomicBool::new(false));
        let stop = {
            let asked = Arc::clone(&asked);
            Stop::when(move || asked.load(Ordering::SeqCst))
        };
        let mut child = Child::start(sh(script), pipes, stop).unwrap();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            asked.store(true, Ordering::SeqCst);
        });
        let started = Instant::now();
        let error = within(SOON, move || {
            if pipes.output {
                child.read_to_end(&mut Vec::new()).unwrap();
            } else {
                while child.write_all(&[0; 4096]).is_ok() {}
            }
            child.finish().unwrap_err()
        });
        assert!(matches!(error, ChildError::Stopped { .. }), "{error}");
        assert!(started.elapsed() < Duration::from_millis(1200), "{script}");
    }
}

#[test]
fn a_program_ends_with_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let alive = dir.path().join("alive");
    let script = format!("(sleep 1; touch '{}') & sleep 600", alive.display());
    drop(Child::start(sh(&script), READ, Stop::never()).unwrap());
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!alive.exists(), "what it started went on");
}
