//! Servers that make one wait, and stops.

use crate::server::{Act, Server, raw, reply};
use crate::trial::{Trial, WHAT, content, hasty, head, json};
use nino_hub::ErrorKind;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

fn trial() -> Trial {
    Trial {
        limits: hasty(),
        ..Trial::new()
    }
}

/// D2: a body that stalled, and one of two bytes a second, were waited for without end.
#[test]
fn a_body_that_stalls_is_given_up() {
    for sent in [0, 1, 50_000] {
        let server = Server::new(move |seen| {
            if seen.is_head() {
                return head(&[]);
            }
            let part = raw(
                "200 OK",
                &[("content-length", "100000")],
                &content()[..sent],
            );
            vec![Act::Send(part), Act::Hold]
        });
        let done = trial().pull(&server, WHAT);
        done.fails(ErrorKind::Network, "");
        assert!(server.requests().len() <= 4);
    }
}

#[test]
fn a_body_that_drips_is_given_up() {
    let server = Server::new(|seen| {
        if seen.is_head() {
            return head(&[]);
        }
        let start = raw("200 OK", &[("content-length", "100000")], b"");
        let pause = Duration::from_millis(20);
        vec![Act::Send(start), Act::Drip(content(), pause)]
    });
    let done = trial().pull(&server, WHAT);
    done.fails(ErrorKind::Network, "bytes arrived in");
}

#[test]
fn headers_that_stall_or_drip_are_given_up() {
    let drip = || {
        Act::Drip(
            raw("200 OK", &[("x", &"y".repeat(2000))], b""),
            Duration::from_millis(20),
        )
    };
    let server = Server::new(move |_| vec![drip()]);
    trial()
        .pull(&server, WHAT)
        .fails(ErrorKind::Network, "no response");
    let server = Server::new(|_| vec![Act::Hold]);
    trial()
        .pull(&server, WHAT)
        .fails(ErrorKind::Network, "no response");
    let server = Server::new(|_| vec![Act::Send(b"HTTP/1.1 200".to_vec()), Act::Hold]);
    trial()
        .pull(&server, WHAT)
        .fails(ErrorKind::Network, "no response");
}

#[test]
fn lists_that_stall_or_drip_are_given_up() {
    let start = raw("200 OK", &[("content-length", "100000")], b"{");
    let stalls = Server::new(move |_| vec![Act::Send(start.clone()), Act::Hold]);
    trial()
        .pull(&stalls, "org/repo")
        .fails(ErrorKind::Network, "");
    let start = raw("200 OK", &[("content-length", "100000")], b"{");
    let drips = Server::new(move |_| {
        let pause = Duration::from_millis(20);
        vec![
            Act::Send(start.clone()),
            Act::Drip(vec![b' '; 100_000], pause),
        ]
    });
    trial()
        .pull(&drips, "org/repo")
        .fails(ErrorKind::Network, "");
    let endless = Server::new(|_| {
        let body = vec![b' '; 1 << 20];
        vec![Act::Send(raw("200 OK", &[], &body)), Act::Hold]
    });
    trial()
        .pull(&endless, "org/repo")
        .fails(ErrorKind::Server, "longer than 65536 bytes");
}

#[test]
fn an_address_that_does_not_answer_is_given_up() {
    let mut server = Server::new(|_| Vec::new());
    // A network for documentation: nothing is there, and most machines do not even say so.
    server.address = "http://192.0.2.1".to_owned();
    let done = trial().pull(&server, WHAT);
    done.fails(ErrorKind::Network, "no response");
}

/// A stop ends every wait: for a connection, an answer, a body, a pause.
#[test]
fn a_stop_ends_every_wait() {
    let answer: [(&str, fn(bool) -> Vec<Act>); 5] = [
        ("an answer", |_| vec![Act::Hold]),
        ("a body", |is_head| match is_head {
            true => head(&[]),
            false => vec![
                Act::Send(raw("200 OK", &[("content-length", "100000")], b"x")),
                Act::Hold,
            ],
        }),
        ("a slow body", |is_head| match is_head {
            true => head(&[]),
            false => vec![
                Act::Send(raw("200 OK", &[("content-length", "100000")], b"x")),
                Act::Drip(content(), Duration::from_millis(30)),
            ],
        }),
        ("a pause", |_| {
            vec![Act::Send(reply(
                "503 Service Unavailable",
                &[("retry-after", "50")],
                b"",
            ))]
        }),
        ("a list", |_| {
            vec![Act::Send(raw("200 OK", &[], b"{")), Act::Hold]
        }),
    ];
    for (name, acts) in answer {
        let server = Server::new(move |seen| acts(seen.is_head()));
        let mut trial = Trial::new();
        trial.limits.longest_pause = Duration::from_mins(1);
        let what = if name == "a list" { "org/repo" } else { WHAT };
        std::thread::scope(|scope| {
            let pulling = scope.spawn(|| trial.pull(&server, what));
            let since = Instant::now();
            let wanted = if name.ends_with("body") { 2 } else { 1 };
            while server.requests().len() < wanted {
                assert!(since.elapsed() < Duration::from_secs(20), "{name}");
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(50));
            let asked = Instant::now();
            trial.ear.stop.store(true, Ordering::SeqCst);
            let done = pulling.join().unwrap();
            assert!(
                asked.elapsed() < Duration::from_secs(1),
                "{name}: {:?}",
                asked.elapsed()
            );
            done.fails(ErrorKind::Stopped, "stopped");
        });
    }
    let mut trial = trial();
    trial.ear.stop = true.into();
    let server = Server::new(|_| json(&serde_json::json!({})));
    trial
        .pull(&server, WHAT)
        .fails(ErrorKind::Stopped, "stopped");
}
