//! Bodies that are not what was promised: too short, too long, other bytes, other ranges.

use crate::server::{Act, Seen, Server, raw, reply};
use crate::trial::{Trial, WHAT, content, hasty, head, honest, patient};
use nino_hub::ErrorKind::{self, Damaged, Network, Server as Wrong};

/// What the server answers to every GET, and what has to become of it.
struct Case {
    name: &'static str,
    body: fn(&Seen) -> Vec<u8>,
    kind: ErrorKind,
    words: &'static str,
}

fn chunked(pieces: &[&[u8]], end: &[u8]) -> Vec<u8> {
    let headers = [("transfer-encoding", "chunked")];
    let mut all = raw("200 OK", &headers, b"");
    for piece in pieces {
        all.extend(format!("{:x}\r\n", piece.len()).bytes());
        all.extend(*piece);
        all.extend(b"\r\n");
    }
    all.extend(end);
    all
}

fn changed() -> Vec<u8> {
    let mut bytes = content();
    bytes[50_000] ^= 1;
    bytes
}

fn partial(range: &str, body: &[u8]) -> Vec<u8> {
    reply("206 Partial Content", &[("content-range", range)], body)
}

const CASES: &[Case] = &[
    Case {
        name: "other bytes of the right length",
        body: |_| reply("200 OK", &[], &changed()),
        kind: Damaged,
        words: "SHA-256",
    },
    Case {
        name: "other bytes in chunks",
        body: |_| chunked(&[&changed()], b"0\r\n\r\n"),
        kind: Damaged,
        words: "SHA-256",
    },
    Case {
        name: "a length that is too short",
        body: |_| reply("200 OK", &[], &content()[..10]),
        kind: Damaged,
        words: "10 bytes arrived, expected 100000",
    },
    Case {
        name: "a length that is too long",
        body: |_| reply("200 OK", &[], &[content(), content()].concat()),
        kind: Damaged,
        words: "200000 bytes arrived",
    },
    Case {
        name: "a length of 10^18",
        body: |_| raw("200 OK", &[("content-length", "1000000000000000000")], b"x"),
        kind: Damaged,
        words: "expected 100000",
    },
    Case {
        name: "more than promised without a length",
        body: |_| raw("200 OK", &[], &[content(), b"more".to_vec()].concat()),
        kind: Damaged,
        words: "arrived",
    },
    Case {
        name: "more than promised in chunks",
        body: |_| chunked(&[&content(), b"more"], b"0\r\n\r\n"),
        kind: Damaged,
        words: "arrived",
    },
    Case {
        name: "less than promised in chunks, again and again",
        body: |_| chunked(&[&content()[..5]], b"0\r\n\r\n"),
        kind: Network,
        words: "it ended at byte 5",
    },
    Case {
        name: "nothing at all",
        body: |_| Vec::new(),
        kind: Network,
        words: "no response",
    },
    Case {
        name: "no HTTP",
        body: |_| b"220 ftp.example.com ready\r\n\r\n".to_vec(),
        kind: Network,
        words: "no response",
    },
    Case {
        name: "a broken chunk",
        body: |_| chunked(&[&content()[..5]], b"zz\r\n"),
        kind: Network,
        words: "",
    },
    Case {
        name: "an endless number of a chunk",
        body: |_| chunked(&[], &[b'1'; 40_000]),
        kind: Network,
        words: "",
    },
    Case {
        name: "a part of nowhere",
        body: |_| partial("bytes 500-99999/100000", &content()[500..]),
        kind: Wrong,
        words: "range",
    },
    Case {
        name: "a part without a range",
        body: |_| reply("206 Partial Content", &[], &content()),
        kind: Wrong,
        words: "range",
    },
    Case {
        name: "a part of a larger file",
        body: |_| partial("bytes 0-99999/200000", &content()),
        kind: Wrong,
        words: "range",
    },
    Case {
        name: "gzip that nobody asked for",
        body: |_| {
            reply(
                "200 OK",
                &[("content-encoding", "gzip")],
                &[0x1f, 0x8b, 8, 0],
            )
        },
        kind: Wrong,
        words: "encoding",
    },
    Case {
        name: "brotli that nobody asked for",
        body: |_| reply("200 OK", &[("content-encoding", "br")], b"x"),
        kind: Wrong,
        words: "encoding",
    },
    Case {
        name: "headers without an end",
        body: |_| [&b"HTTP/1.1 200 OK\r\nx: "[..], &[b'a'; 40_000]].concat(),
        kind: Network,
        words: "no response",
    },
    Case {
        name: "too many headers",
        body: |_| raw("200 OK", &[("x", "y"); 4000], b""),
        kind: Network,
        words: "no response",
    },
    Case {
        name: "two lengths",
        body: |_| {
            raw(
                "200 OK",
                &[("content-length", "5"), ("content-length", "7")],
                b"12345",
            )
        },
        kind: Network,
        words: "no response",
    },
    Case {
        name: "a status of letters",
        body: |_| b"HTTP/1.1 abc OK\r\n\r\n".to_vec(),
        kind: Network,
        words: "no response",
    },
];

#[test]
fn wrong_bodies_leave_nothing() {
    for case in CASES {
        let body = case.body;
        let server = Server::new(move |seen| {
            if seen.is_head() {
                return head(&[]);
            }
            vec![Act::Send(body(seen))]
        });
        let mut trial = Trial::new();
        // A body of few bytes is slow, too; only the time cases are about that.
        trial.limits = nino_hub::Limits {
            stall: hasty().stall * 10,
            answer: hasty().answer * 10,
            ..patient()
        };
        let done = trial.pull(&server, WHAT);
        let error = done.result.as_ref().err().map(ToString::to_string);
        let kind = done.result.as_ref().err().map(nino_hub::HubError::kind);
        assert_eq!(kind, Some(case.kind), "{}: {error:?}", case.name);
        assert!(
            error.unwrap().contains(case.words),
            "{}: {:?}",
            case.name,
            done.result
        );
        assert!(server.requests().len() <= 8, "{}", case.name);
        assert!(
            !trial.cache().join("models--org--repo/snapshots").exists(),
            "{}",
            case.name
        );
    }
}

/// D1: a server without ranges that gives less every time was asked 30,000 times in 12 s.
#[test]
fn starting_anew_is_no_progress() {
    let server = Server::new(|seen| {
        if seen.is_head() {
            return head(&[]);
        }
        let n = if seen.before.is_multiple_of(2) {
            2000
        } else {
            1000
        };
        let body = &content()[..n];
        vec![Act::Send(chunked(&[body], b"0\r\n\r\n"))]
    });
    let mut trial = Trial::new();
    trial.pull(&server, WHAT).fails(Network, "it ended at byte");
    assert!(server.requests().len() <= 4, "{}", server.requests().len());
    trial.limits.attempts = 100;
    trial
        .pull(&server, WHAT)
        .fails(Wrong, "restarted the download 2 times");
    assert!(server.requests().len() <= 10, "{}", server.requests().len());
}

/// The same with ranges, one byte a request.
#[test]
fn crumbs_are_no_progress() {
    let server = Server::new(|seen| {
        if seen.is_head() {
            return head(&[]);
        }
        let (start, all) = (seen.start(), content());
        let range = format!("bytes {start}-{start}/{}", all.len());
        let headers = [
            ("content-range", range.as_str()),
            ("transfer-encoding", "chunked"),
        ];
        let body = format!("1\r\n{}\r\n0\r\n\r\n", char::from(all[start] & 0x7f));
        vec![Act::Send(raw(
            "206 Partial Content",
            &headers,
            body.as_bytes(),
        ))]
    });
    let done = Trial::new().pull(&server, WHAT);
    done.fails(Network, "ended at byte");
    assert!(server.requests().len() <= 5);
}

#[test]
fn a_file_that_changes_on_the_way_is_thrown_away() {
    // The first half is of one file, the rest of another.
    let server = Server::new(|seen| {
        if seen.is_head() {
            return head(&[]);
        }
        if seen.before == 0 {
            let headers = [("content-length", "100000")];
            return vec![Act::Send(raw("200 OK", &headers, &content()[..60_000]))];
        }
        let start = seen.start();
        let range = format!("bytes {start}-99999/100000");
        vec![Act::Send(partial(&range, &vec![7; 100_000 - start]))]
    });
    let trial = Trial::new();
    trial.pull(&server, WHAT).fails(Damaged, "SHA-256");
    assert_eq!(std::fs::read_dir(trial.blobs()).unwrap().count(), 0);
    // And the next run gets it whole.
    trial.pull(&Server::new(honest), WHAT).files();
}

#[test]
fn a_file_that_shrank_on_the_server_is_started_anew() {
    let server = Server::new(|seen| {
        if !seen.is_head() && seen.start() > 0 {
            return vec![Act::Send(reply("416 Range Not Satisfiable", &[], b""))];
        }
        honest(seen)
    });
    let trial = Trial::new();
    std::fs::create_dir_all(trial.blobs()).unwrap();
    let hash = crate::server::sha256(&content());
    std::fs::write(trial.blobs().join(format!("{hash}.incomplete")), b"rubbish").unwrap();
    assert_eq!(
        std::fs::read(&trial.pull(&server, WHAT).files()[0].path).unwrap(),
        content()
    );
}
