//! Models that the page downloads, from a server in this process.

use crate::client::{Running, start, start_with};
use nino_hub::{HubOptions, Limits};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

const FILE: &str = "model.safetensors";

/// A hub that has one file of a repository. Every second kibibyte comes after a pause.
fn hub(content: Vec<u8>, pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let content = content.clone();
            std::thread::spawn(move || answer(&stream, &content, pause));
        }
    });
    address
}

fn answer(mut stream: &TcpStream, content: &[u8], pause: Duration) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let hash = Sha256::digest(content)
        .iter()
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
    let found = first.contains(FILE);
    let status = if found { "200 OK" } else { "404 Not Found" };
    let length = if found { content.len() } else { 0 };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nx-repo-commit: c0ffee\r\n\
         x-linked-etag: \"{hash}\"\r\nx-linked-size: {length}\r\netag: \"{hash}\"\r\n\
         connection: close\r\n\r\n"
    );
    let mut sent = stream.write_all(head.as_bytes());
    if first.starts_with("GET") && found {
        for part in content.chunks(1024) {
            std::thread::sleep(pause);
            sent = sent.and_then(|()| stream.write_all(part));
        }
    }
    // A client may have gone.
    drop(sent);
}

fn with_hub(endpoint: String) -> Running {
    let data = tempfile::tempdir().unwrap();
    let cache = data.path().join("hub");
    start_with(data, |config| {
        config.downloads = Some(HubOptions {
            endpoint: Some(endpoint),
            token: None,
            cache,
            limits: Limits::default(),
            proxy: false,
        });
    })
}

fn wait(server: &Running, id: &Value, wanted: &str) -> Value {
    let since = Instant::now();
    loop {
        let all = server.json("/nino/downloads");
        let list = all["downloads"].as_array().unwrap().clone();
        let found = list.into_iter().find(|d| d["id"] == *id).unwrap();
        if found["state"] == wanted {
            return found;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{found}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_model_is_downloaded_with_progress() {
    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/models/taesd.safetensors");
    let content = std::fs::read(golden).unwrap();
    let server = with_hub(hub(content.clone(), Duration::ZERO));
    let all = server.json("/nino/downloads");
    assert_eq!(all["available"], true);
    assert!(all["names"].to_string().contains("sd15"), "{all}");
    let what = json!({ "what": format!("org/repo/{FILE}") });
    let id = server.post("/nino/downloads", &what).json()["id"].clone();
    let done = wait(&server, &id, "done");
    assert_eq!(done["have"], content.len());
    assert_eq!(
        (&done["size"], &done["file"]),
        (&content.len().into(), &FILE.into())
    );
    let file = server
        .data
        .path()
        .join(format!("hub/models--org--repo/snapshots/c0ffee/{FILE}"));
    assert_eq!(std::fs::read(file).unwrap(), content);
    let absent = server.post(
        "/nino/downloads",
        &json!({ "what": "org/repo/none.safetensors" }),
    );
    let failed = wait(&server, &absent.json()["id"], "failed");
    assert!(!failed["note"].as_str().unwrap().is_empty(), "{failed}");
}

#[test]
fn a_download_can_be_stopped_and_many_are_refused() {
    let server = with_hub(hub(vec![7; 1 << 20], Duration::from_millis(20)));
    let what = json!({ "what": format!("org/repo/{FILE}") });
    let mut ids = Vec::new();
    let refused = loop {
        let answer = server.post("/nino/downloads", &what);
        if answer.status != 200 {
            break answer;
        }
        ids.push(answer.json()["id"].clone());
        assert!(ids.len() < 100);
    };
    assert_eq!((refused.status, ids.len()), (429, 8));
    wait(&server, &ids[0], "running");
    for id in &ids {
        assert_eq!(
            server
                .post("/nino/downloads/stop", &json!({ "id": id }))
                .status,
            200
        );
    }
    for id in &ids {
        wait(&server, id, "stopped");
    }
    assert_eq!(
        server
            .post("/nino/downloads/stop", &json!({ "id": 99 }))
            .status,
        404
    );
}

#[test]
fn addresses_are_not_fetched() {
    let endpoint = hub(vec![1], Duration::ZERO);
    let server = with_hub(endpoint.clone());
    for what in [
        "http://127.0.0.1:1/x.safetensors",
        "https://example.org/model.safetensors",
        "../../etc/passwd",
        "",
    ] {
        let answer = server.post("/nino/downloads", &json!({ "what": what }));
        assert_eq!(answer.status, 400, "{what}");
    }
    // A server without a place for downloads says so.
    let without = start();
    assert_eq!(without.json("/nino/downloads")["available"], false);
    assert_eq!(
        without
            .post("/nino/downloads", &json!({ "what": "sd15" }))
            .status,
        501
    );
}
