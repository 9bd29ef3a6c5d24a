//! Servers that say no, not now, or not any more.

use crate::server::{Act, Server, reply};
use crate::trial::{TOKEN, Trial, WHAT, honest};
use nino_hub::ErrorKind;

#[test]
fn every_no_has_its_kind() {
    for (status, kind, asked) in [
        ("400 Bad Request", ErrorKind::Server, 1),
        ("401 Unauthorized", ErrorKind::Denied, 1),
        ("403 Forbidden", ErrorKind::Denied, 1),
        ("404 Not Found", ErrorKind::NotFound, 1),
        ("410 Gone", ErrorKind::NotFound, 1),
        ("418 I'm a teapot", ErrorKind::Server, 1),
        ("408 Request Timeout", ErrorKind::Network, 3),
        ("429 Too Many Requests", ErrorKind::Network, 3),
        ("500 Internal Server Error", ErrorKind::Network, 3),
        ("502 Bad Gateway", ErrorKind::Network, 3),
        ("503 Service Unavailable", ErrorKind::Network, 3),
        ("504 Gateway Timeout", ErrorKind::Network, 3),
        ("304 Not Modified", ErrorKind::Server, 1),
        ("999 Whatever", ErrorKind::Network, 3),
    ] {
        for what in [WHAT, "org/repo"] {
            let server = Server::new(move |_| vec![Act::Send(reply(status, &[], b"<html>"))]);
            let mut trial = Trial::new();
            trial.token = Some(TOKEN);
            let done = trial.pull(&server, what);
            done.fails(kind, &status[..3]);
            assert!(!done.result.unwrap_err().to_string().contains(TOKEN));
            assert_eq!(server.requests().len(), asked, "{status} {what}");
        }
    }
}

#[test]
fn a_server_that_recovers_is_asked_again() {
    for retry_after in ["", "0", "Wed, 21 Oct 2026 07:28:00 GMT", "-5", "nonsense"] {
        let server = Server::new(move |seen| {
            if seen.before < 2 {
                let headers = [("retry-after", retry_after)];
                return vec![Act::Send(reply("503 Service Unavailable", &headers, b""))];
            }
            honest(seen)
        });
        Trial::new().pull(&server, WHAT).files();
    }
}

#[test]
fn nobody_waits_for_a_day() {
    for seconds in ["86400", "18446744073709551615"] {
        let server = Server::new(move |_| {
            let headers = [("retry-after", seconds)];
            vec![Act::Send(reply("429 Too Many Requests", &headers, b""))]
        });
        let done = Trial::new().pull(&server, WHAT);
        done.fails(ErrorKind::Network, &format!("asks to wait {seconds} s"));
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn a_download_survives_a_server_that_was_restarted() {
    let server = Server::new(|seen| {
        if !seen.is_head() && seen.before == 1 {
            return vec![Act::Send(reply("502 Bad Gateway", &[], b""))];
        }
        if !seen.is_head() && seen.before == 0 {
            let headers = [("content-length", "100000")];
            let part = &crate::trial::content()[..40_000];
            return vec![Act::Send(crate::server::raw("200 OK", &headers, part))];
        }
        honest(seen)
    });
    let trial = Trial::new();
    trial.pull(&server, WHAT).files();
    let starts: Vec<usize> = server
        .requests()
        .iter()
        .map(crate::server::Seen::start)
        .collect();
    assert_eq!(starts, [0, 0, 40_000, 40_000]);
    assert!(
        trial
            .ear
            .heard
            .lock()
            .unwrap()
            .iter()
            .any(|e| e.contains("Retrying"))
    );
}

#[test]
fn nobody_listens() {
    let mut server = Server::new(honest);
    // A port that was just given back.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    server.address = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    Trial::new()
        .pull(&server, WHAT)
        .fails(ErrorKind::Network, "no response");
}

#[test]
fn endpoints_and_tokens_that_cannot_be() {
    use nino_hub::{Hub, HubOptions, Limits};
    let options = |endpoint: &str, token: &str| HubOptions {
        endpoint: Some(endpoint.to_owned()),
        token: Some(token.to_owned()),
        cache: "cache".into(),
        limits: Limits::default(),
        proxy: false,
    };
    for endpoint in [
        "",
        "huggingface.co",
        "ftp://a",
        "https://",
        "https://a b",
        "https://a:x",
    ] {
        let error = Hub::new(options(endpoint, "t")).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Usage, "{endpoint}");
    }
    let error = Hub::new(options("https://a", "a\r\nx: y")).err().unwrap();
    assert!(!error.to_string().contains("x: y"), "{error}");
}
