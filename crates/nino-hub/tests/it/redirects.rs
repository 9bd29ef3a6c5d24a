//! Redirects: where they may lead, and where the token may go.

use crate::server::{Act, Seen, Server, raw, reply};
use crate::trial::{COMMIT, TOKEN, Trial, WHAT, content, head, honest, rest};
use nino_hub::ErrorKind;

fn to(location: &str) -> Vec<Act> {
    vec![Act::Send(reply(
        "302 Found",
        &[("location", location)],
        b"",
    ))]
}

/// A hub that wants the token and sends GET requests on to `location`.
fn hub_to(location: impl Fn(&Seen) -> String + Send + Sync + 'static) -> Server {
    Server::new(move |seen| {
        if !seen.path.starts_with("/org/") {
            return rest(seen);
        }
        if seen.header("authorization") != Some("Bearer hf_secret") {
            return vec![Act::Send(reply("401 Unauthorized", &[], b""))];
        }
        if seen.is_head() {
            return head(&[]);
        }
        to(&location(seen))
    })
}

fn with_token() -> Trial {
    Trial {
        token: Some(TOKEN),
        ..Trial::new()
    }
}

/// D3: the library gave it to another port of the same host.
#[test]
fn the_token_goes_to_the_one_origin() {
    let other_port = Server::new(rest);
    let other_host = Server::on("127.0.0.2", rest);
    let plain = other_port
        .address
        .strip_prefix("http://")
        .unwrap()
        .to_owned();
    let host = other_host.address.clone();
    for location in [
        format!("http://{plain}/x"),
        format!("http://user:pw@{plain}/x"),
        format!("http://hf_secret@{plain}/x"),
        format!("//{plain}/x"),
        format!("HTTP://{}/x", plain.to_uppercase()),
        format!("{host}/x"),
        format!("http://user:pw@{}/x", &host["http://".len()..]),
    ] {
        let from = location.clone();
        let hub = hub_to(move |_| from.clone());
        let done = with_token().pull(&hub, WHAT);
        assert_eq!(done.files().len(), 1, "{location}");
    }
    let others = [other_port.requests(), other_host.requests()].concat();
    assert_eq!(others.len(), 7);
    for seen in &others {
        assert_eq!(seen.header("authorization"), None, "{seen:?}");
        assert!(!format!("{seen:?}").contains("pw"), "{seen:?}");
    }
}

#[test]
fn the_token_stays_within_the_origin_and_comes_back_to_it() {
    // hub -> other port -> hub
    let hub = Server::new(|seen| match (seen.path.as_str(), seen.is_head()) {
        (_, true) => head(&[]),
        ("/back", _) => rest(seen),
        _ => to("/next"),
    });
    let back = hub.address.clone();
    let other = Server::new(move |_| to(&format!("{back}/back")));
    let next = other.address.clone();
    let relay = Server::new(move |seen| if seen.is_head() { head(&[]) } else { to(&next) });
    with_token().pull(&relay, WHAT).files();
    assert!(
        relay
            .requests()
            .iter()
            .all(|s| s.header("authorization").is_some())
    );
    assert!(
        other
            .requests()
            .iter()
            .all(|s| s.header("authorization").is_none())
    );
    assert!(
        hub.requests()
            .iter()
            .all(|s| s.header("authorization").is_none())
    );
}

#[test]
fn redirects_end() {
    let cases: [(&str, fn(&Seen) -> String); 3] = [
        ("to itself", |seen| seen.path.clone()),
        ("ever longer", |seen| format!("{}/x", seen.path)),
        ("in a circle", |seen| match seen.path.ends_with("/a") {
            true => "b".to_owned(),
            false => "a".to_owned(),
        }),
    ];
    for (name, location) in cases {
        for heads_too in [false, true] {
            let server = Server::new(move |seen| {
                if seen.is_head() && !heads_too {
                    return head(&[]);
                }
                to(&location(seen))
            });
            let done = Trial::new().pull(&server, WHAT);
            done.fails(ErrorKind::Server, "more than 10 redirects");
            assert!(server.requests().len() <= 12, "{name}");
        }
    }
}

#[test]
fn redirects_to_nowhere_are_refused() {
    for location in [
        "file:///etc/passwd",
        "ftp://example.com/x",
        "javascript:alert(1)",
        "data:text/plain,x",
        "https://",
        "http://exa mple/x",
        "http://[::1/x",
        "http://a:99999/x",
        "http://a:0/x",
        "http://a:b/x",
        "http://\u{e9}.example/x",
    ] {
        let from = location.to_owned();
        let server = Server::new(move |seen| {
            if seen.is_head() {
                return head(&[]);
            }
            to(&from)
        });
        let done = Trial::new().pull(&server, WHAT);
        done.fails(ErrorKind::Server, "redirected to an invalid URL");
    }
}

/// A line break in a location is the end of the header, or no HTTP at all; never a second header
/// of ours.
#[test]
fn a_location_injects_nothing() {
    let target = Server::new(rest);
    let there = target.address.clone();
    let server = Server::new(move |seen| {
        if seen.is_head() {
            return head(&[]);
        }
        let location = format!("{there}/x%0d%0ax-injected:%20yes");
        to(&location)
    });
    Trial::new().pull(&server, WHAT).files();
    let requests = target.requests();
    assert!(requests.iter().all(|s| s.header("x-injected").is_none()));
    assert_eq!(requests[0].path, "/x%0d%0ax-injected:%20yes");
}

#[test]
fn locations_may_be_relative_and_odd() {
    for (location, path) in [
        ("/storage/x", "/storage/x"),
        ("other", "/org/repo/resolve/c0ffee/other"),
        (
            "?page=2",
            "/org/repo/resolve/c0ffee/model.safetensors?page=2",
        ),
        ("/a b\"c", "/a%20b%22c"),
        ("/x?sig=a%2Bb&c=d#fragment", "/x?sig=a%2Bb&c=d"),
    ] {
        let (from, wanted) = (location.to_owned(), path.to_owned());
        let server = Server::new(move |seen| {
            if seen.is_head() {
                return head(&[]);
            }
            if seen.path == wanted {
                return rest(seen);
            }
            to(&from)
        });
        Trial::new().pull(&server, WHAT).files();
        assert_eq!(server.requests().last().unwrap().path, path);
    }
}

#[test]
fn a_redirect_without_a_location_is_an_answer_without_a_file() {
    let server = Server::new(|seen| {
        if seen.is_head() {
            return head(&[]);
        }
        vec![Act::Send(reply("302 Found", &[], b""))]
    });
    Trial::new()
        .pull(&server, WHAT)
        .fails(ErrorKind::Server, "302");
}

/// A signature in the query is not for messages.
#[test]
fn errors_name_no_query() {
    let storage = Server::new(|_| vec![Act::Send(reply("403 Forbidden", &[], b""))]);
    let there = storage.address.clone();
    let server = Server::new(move |seen| {
        if seen.is_head() {
            return head(&[]);
        }
        to(&format!("{there}/x?X-Amz-Signature=0123"))
    });
    let done = Trial::new().pull(&server, WHAT);
    done.fails(ErrorKind::Denied, "403");
    assert!(!done.result.unwrap_err().to_string().contains("0123"));
}

/// The hash is the hub's word; a HEAD request does not ask the storage for it.
#[test]
fn facts_are_the_hubs_own() {
    let storage = Server::new(|seen| {
        assert!(!seen.is_head(), "the storage was asked for facts");
        rest(seen)
    });
    let there = storage.address.clone();
    let server = Server::new(move |seen| {
        if !seen.is_head() {
            return to(&there);
        }
        let hash = format!("\"{}\"", crate::server::sha256(&content()));
        let headers = [
            ("location", there.as_str()),
            ("etag", &hash),
            ("x-linked-size", "100000"),
            ("x-repo-commit", COMMIT),
            ("content-length", "0"),
        ];
        vec![Act::Send(raw("302 Found", &headers, b""))]
    });
    Trial::new().pull(&server, WHAT).files();
    Trial::new().pull(&Server::new(honest), WHAT).files();
}
