//! Names that become paths: what is typed, and ETags, commits and sizes that a server says.

use crate::server::Server;
use crate::trial::{Trial, WHAT, head, honest, rest};
use nino_hub::{ErrorKind, FileName, RepoName, Revision};

const PATHS: [&str; 17] = [
    "../x",
    "../../../../x",
    "a/../../x",
    "/etc/x",
    "//x",
    "a//b",
    ".",
    "..",
    "a/..",
    "",
    "C:\\x",
    "a\\b",
    "a:b",
    "a\0b",
    "a\nb",
    "a\u{1b}[31mb",
    "a/b/../../../c",
];

/// D5: an absolute path and `a/../../../../x` wrote outside the cache.
#[test]
fn paths_that_leave_are_no_names() {
    for path in PATHS {
        assert!(Revision::new(path).is_err(), "{path:?}");
        assert!(FileName::new(path).is_err(), "{path:?}");
        assert!(RepoName::new(path).is_err(), "{path:?}");
    }
    for good in ["main", "refs/pr/1", "v1.0", "a b", "fp16"] {
        assert!(Revision::new(good).is_ok(), "{good}");
    }
    for bad in [
        "a/b/c", "a--b/c", "a b/c", "a/b%2f", "a/b?c", "a/b#c", "ü/b", "a..b/c",
    ] {
        assert!(RepoName::new(bad).is_err(), "{bad}");
    }
}

#[test]
fn paths_that_leave_are_not_asked_for() {
    let server = Server::new(honest);
    for path in PATHS {
        for what in [format!("org/repo:{path}"), format!("{path}:x.gguf")] {
            let done = Trial::new().pull(&server, &what);
            let kind = done.result.as_ref().err().map(nino_hub::HubError::kind);
            assert_eq!(kind, Some(ErrorKind::Usage), "{what:?}");
        }
    }
    assert!(server.requests().is_empty());
}

#[test]
fn etags_and_commits_that_leave_are_refused() {
    for bad in [
        "\"../x\"",
        "\"../../../x\"",
        "\"/etc/x\"",
        "\"a/b\"",
        "\"a\\b\"",
        "\"..\"",
        "\"\"",
        "\"a b\"",
        "\"C:x\"",
        "W/\"../x\"",
    ] {
        for header in ["x-linked-etag", "x-repo-commit"] {
            let server = Server::new(move |seen| {
                if seen.is_head() {
                    return head(&[(header, Some(bad))]);
                }
                rest(seen)
            });
            let trial = Trial::new();
            let done = trial.pull(&server, WHAT);
            done.fails(ErrorKind::Server, "is invalid");
            assert!(!trial.cache().exists(), "{bad}");
        }
    }
    let long = "a".repeat(1000);
    let server = Server::new(move |_| head(&[("x-linked-etag", Some(&long))]));
    Trial::new()
        .pull(&server, WHAT)
        .fails(ErrorKind::Server, "128");
}

#[test]
fn sizes_that_are_none() {
    for size in ["-1", "1e9", "", "abc", "99999999999999999999999"] {
        let server = Server::new(move |_| head(&[("x-linked-size", Some(size))]));
        Trial::new()
            .pull(&server, WHAT)
            .fails(ErrorKind::Server, "not a number of bytes");
    }
    let server = Server::new(|_| head(&[("x-linked-size", Some("1000000000000000000"))]));
    let done = Trial::new().pull(&server, WHAT);
    done.fails(ErrorKind::Server, "exceed the limit for a model");
    let server = Server::new(|_| head(&[("x-linked-etag", None)]));
    Trial::new()
        .pull(&server, WHAT)
        .fails(ErrorKind::Server, "sent no ETag");
    let missing = [("x-linked-size", None), ("content-length", None)];
    let server = Server::new(move |_| head(&missing));
    Trial::new()
        .pull(&server, WHAT)
        .fails(ErrorKind::Server, "sent no length");
}

/// A size smaller than the file: what arrives is more than was promised.
#[test]
fn a_size_that_is_a_lie() {
    for size in ["10", "99999", "100001", "0"] {
        let server = Server::new(move |seen| {
            if seen.is_head() {
                return head(&[("x-linked-size", Some(size))]);
            }
            rest(seen)
        });
        let done = Trial::new().pull(&server, WHAT);
        let kind = done.result.as_ref().err().map(nino_hub::HubError::kind);
        assert_eq!(kind, Some(ErrorKind::Damaged), "{size}: {:?}", done.result);
    }
}

/// A server without commits has one state of each revision.
#[test]
fn a_server_without_commits_works() {
    let server = Server::new(|seen| {
        if seen.is_head() {
            return head(&[("x-repo-commit", None)]);
        }
        rest(seen)
    });
    let done = Trial::new().pull(&server, WHAT);
    assert!(
        done.files()[0]
            .path
            .ends_with("snapshots/main/model.safetensors")
    );
}
