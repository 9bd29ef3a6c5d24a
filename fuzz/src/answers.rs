//! What a server may answer to `nino pull`. The file of a case is the raw answer to every request:
//! status, headers and body. No seed has a `Location`, so nothing outside this machine is asked.

use crate::seeds::Seed;
use nino_hub::{Address, Choice, Event, Hub, HubError, HubOptions, Limits, Target, Watcher};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

struct Quiet;

impl Watcher for Quiet {
    fn stopped(&self) -> bool {
        false
    }

    fn event(&self, _event: Event<'_>) {}
}

pub(crate) fn seeds(_folder: &Path) -> Vec<Seed> {
    let list = r#"{"sha":"0123abcd","siblings":[{"rfilename":"model_index.json","size":9},
        {"rfilename":"vae/model.fp16.safetensors","size":9,"lfs":{"sha256":"aa","size":9}},
        {"rfilename":"v1-fp16.safetensors","size":9,"blobId":"bb"}]}"#;
    let length = list.len();
    let hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let answers = [
        format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nx-repo-commit: 0123abcd\r\n\r\n{list}"),
        format!(
            "HTTP/1.1 200 OK\r\nx-linked-etag: \"{hash}\"\r\nx-linked-size: 5\r\n\
             x-repo-commit: abc\r\ncontent-length: 5\r\n\r\nhello"
        ),
        format!("HTTP/1.1 200 OK\r\netag: W/\"{hash}\"\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 0-4/5\r\ncontent-length: 5\r\n\r\nhello"
            .to_owned(),
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 120\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nhello".to_owned(),
        "https://huggingface.co/org/repo/resolve/main/a%20b.safetensors?download=true".to_owned(),
    ];
    let seed = |text: String| Seed {
        extension: "http".to_owned(),
        bytes: text.into_bytes(),
    };
    answers.map(seed).into()
}

pub(crate) fn run(path: &Path) {
    let bytes = std::fs::read(path).unwrap_or_default();
    parse(&String::from_utf8_lossy(&bytes));
    // Without a folder or a port of its own the case says nothing.
    let (Ok(cache), Ok(listener)) = (tempfile::tempdir(), TcpListener::bind("127.0.0.1:0")) else {
        return;
    };
    let Ok(address) = listener.local_addr() else {
        return;
    };
    let answer = Arc::new(bytes);
    std::thread::spawn(move || serve(&listener, &answer));
    let limits = Limits {
        attempts: 1,
        answer: Duration::from_secs(2),
        stall: Duration::from_secs(2),
        ..Limits::default()
    };
    let hub = Hub::new(HubOptions {
        endpoint: Some(format!("http://{address}")),
        token: None,
        cache: cache.path().join("cache"),
        limits,
        proxy: false,
    });
    for what in ["org/repo", "org/repo:a.gguf"] {
        if let Ok(hub) = &hub {
            let _ = pull(hub, what);
        }
    }
    // The last request ends the server.
    let _ = std::net::TcpStream::connect(address).and_then(|mut s| s.write_all(b"END"));
    let names = std::fs::read_dir(cache.path())
        .into_iter()
        .flatten()
        .flatten();
    let outside = names.filter(|entry| entry.file_name() != "cache").count();
    assert_eq!(outside, 0, "something was written outside the cache");
}

fn pull(hub: &Hub, what: &str) -> Result<(), HubError> {
    let plan = hub.plan(&hub.target(what)?, None, &Choice::default(), &Quiet)?;
    hub.check_room(&plan)?;
    plan.files
        .iter()
        .try_for_each(|file| hub.fetch(file, &Quiet).map(drop))
}

/// Addresses and what people paste.
fn parse(text: &str) {
    let Ok(endpoint) = Address::parse("https://example.com/a/b") else {
        return;
    };
    let _ = Target::parse(text, &endpoint);
    if let Ok(next) = endpoint.redirected(text) {
        let shown = next.to_string();
        assert!(
            !shown.contains(char::is_control) && !shown.contains(' '),
            "{shown:?}"
        );
        assert!(shown.starts_with("http"), "{shown:?}");
    }
    let below = endpoint.below([text]);
    assert_eq!(below.parts().len(), if text.is_empty() { 2 } else { 3 });
}

fn serve(listener: &TcpListener, answer: &[u8]) {
    for mut stream in listener.incoming().flatten() {
        let mut request = [0; 4096];
        let n = stream.read(&mut request).unwrap_or(0);
        if request[..n].starts_with(b"END") {
            return;
        }
        let _ = stream.write_all(answer);
    }
}
