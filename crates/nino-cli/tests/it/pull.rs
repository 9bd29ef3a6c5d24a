//! `nino pull` against a server in this process: whole files, resumed ones, broken and wrong ones.

#![allow(clippy::unwrap_used)] // clippy knows test functions, not their helpers

use crate::shell::{Said, command};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What the server holds and how it misbehaves.
#[derive(Default)]
struct Content {
    files: HashMap<String, Vec<u8>>,
    /// Bytes after which the connection is cut, once.
    cut: Mutex<Option<usize>>,
    /// Wanted in every request to the hub; must never reach the storage.
    token: Option<String>,
    lie_about_hash: bool,
    requests: Mutex<Vec<String>>,
}

struct Server {
    address: String,
    content: Arc<Content>,
}

fn serve(content: Content) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let content = Arc::new(content);
    let shared = content.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let shared = shared.clone();
            std::thread::spawn(move || answer(&stream.unwrap(), &shared));
        }
    });
    Server { address, content }
}

/// One request a connection: the hub redirects large files to `/storage/`, as the real one does.
fn answer(stream: &TcpStream, content: &Content) {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap().unwrap();
    let headers: Vec<String> = lines
        .map(|l| l.unwrap().to_lowercase())
        .take_while(|l| !l.is_empty())
        .collect();
    let header = |name: &str| {
        headers
            .iter()
            .find_map(|h| h.strip_prefix(&format!("{name}: ")))
            .map(str::to_owned)
    };
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    content.requests.lock().unwrap().push(format!(
        "{method} {path} {}",
        header("range").unwrap_or_default()
    ));
    let mut out = stream;
    let mut reply = |status: &str, headers: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        let _ = out.write_all(head.as_bytes());
        if method != "HEAD" {
            let _ = out.write_all(body);
        }
    };
    if let Some(file) = path.strip_prefix("/storage/") {
        assert!(
            header("authorization").is_none() || content.token.is_none(),
            "the token went to the storage"
        );
        let body = &content.files[file];
        let start = header("range").map_or(0, |r| {
            r["bytes=".len()..].trim_end_matches('-').parse().unwrap()
        });
        let range = format!(
            "content-range: bytes {start}-{}/{}\r\n",
            body.len() - 1,
            body.len()
        );
        let (status, headers) = if start > 0 {
            ("206 Partial Content", range.as_str())
        } else {
            ("200 OK", "")
        };
        if let Some(cut) = content.cut.lock().unwrap().take() {
            let head = format!(
                "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n",
                body.len() - start
            );
            let _ = out.write_all(head.as_bytes());
            let _ = out.write_all(&body[start..start + cut]);
            return;
        }
        return reply(status, headers, &body[start..]);
    }
    let wanted = content.token.as_ref().map(|t| format!("bearer {t}"));
    if wanted.is_some() && header("authorization") != wanted {
        return reply("401 Unauthorized", "", b"");
    }
    if path.starts_with("/api/models/org/repo/revision/main") {
        let names: Vec<_> = content
            .files
            .keys()
            .map(|f| serde_json::json!({ "rfilename": f }))
            .collect();
        return reply(
            "200 OK",
            "",
            serde_json::json!({ "siblings": names })
                .to_string()
                .as_bytes(),
        );
    }
    let Some(file) = path
        .strip_prefix("/org/repo/resolve/main/")
        .filter(|f| content.files.contains_key(*f))
    else {
        return reply("404 Not Found", "", b"");
    };
    let body = &content.files[file];
    let mut hash = sha(body);
    if content.lie_about_hash {
        hash.replace_range(..4, "0000");
    }
    let headers = format!(
        "location: /storage/{file}\r\nx-linked-etag: \"{hash}\"\r\nx-linked-size: {}\r\nx-repo-commit: abc123\r\n",
        body.len()
    );
    reply("302 Found", &headers, b"");
}

fn sha(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |mut s, b| {
            let _ = write!(s, "{b:02x}");
            s
        })
}

fn pull(server: &Server, cache: &Path, what: &str, extra: &[(&str, &str)]) -> Said {
    let mut command = command(&["pull", what, "--json"]);
    for name in [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "HF_TOKEN",
        "HF_HOME",
    ] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command
        .env("HF_ENDPOINT", &server.address)
        .env("HF_HUB_CACHE", cache);
    let output = command.envs(extra.iter().copied()).output().unwrap();
    Said {
        code: output.status.code().unwrap(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

fn content(files: &[(&str, usize)]) -> Content {
    let files = files
        .iter()
        .map(|(name, n)| ((*name).to_owned(), bytes(*n)))
        .collect();
    Content {
        files,
        ..Content::default()
    }
}

#[test]
fn a_file_arrives_checked_and_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(content(&[("sub/model.safetensors", 3_000_000)]));
    let said = pull(&server, dir.path(), "org/repo:sub/model.safetensors", &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    let json = said.json();
    let path = dir
        .path()
        .join("models--org--repo/snapshots/abc123/sub/model.safetensors");
    assert_eq!(json["files"][0]["path"].as_str(), path.to_str());
    assert_eq!(std::fs::read(&path).unwrap(), bytes(3_000_000));
    assert_eq!(json["files"][0]["sha256"], sha(&bytes(3_000_000)));
    assert_eq!(
        std::fs::read_to_string(dir.path().join("models--org--repo/refs/main")).unwrap(),
        "abc123"
    );
    let again = pull(&server, dir.path(), "org/repo:sub/model.safetensors", &[]);
    assert_eq!(again.json()["files"][0]["cached"], true);
    let downloads = server
        .content
        .requests
        .lock()
        .unwrap()
        .iter()
        .filter(|r| r.contains("/storage/"))
        .count();
    assert_eq!(downloads, 1);
}

#[test]
fn broken_and_interrupted_downloads_resume() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(content(&[("model.gguf", 2_000_000)]));
    *server.content.cut.lock().unwrap() = Some(700_000);
    // An earlier run left its first part.
    let blobs = dir.path().join("models--org--repo/blobs");
    std::fs::create_dir_all(&blobs).unwrap();
    let all = bytes(2_000_000);
    std::fs::write(
        blobs.join(format!("{}.incomplete", sha(&all))),
        &all[..500_000],
    )
    .unwrap();
    let said = pull(&server, dir.path(), "org/repo", &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    let path = said.json()["files"][0]["path"].as_str().unwrap().to_owned();
    assert_eq!(std::fs::read(path).unwrap(), all);
    let requests = server.content.requests.lock().unwrap();
    let ranges: Vec<&str> = requests
        .iter()
        .filter(|r| r.starts_with("GET /storage/"))
        .map(|r| r.rsplit(' ').next().unwrap())
        .collect();
    assert_eq!(ranges, ["bytes=500000-", "bytes=1200000-"]);
}

#[test]
fn a_wrong_hash_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(Content {
        lie_about_hash: true,
        ..content(&[("model.gguf", 1000)])
    });
    let said = pull(&server, dir.path(), "org/repo:model.gguf", &[]);
    assert_eq!(said.code, 1);
    assert!(
        said.err.contains("SHA-256") && said.err.contains("model.gguf"),
        "{}",
        said.err
    );
    assert_eq!(
        std::fs::read_dir(dir.path().join("models--org--repo/blobs"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn gated_missing_and_ambiguous_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(Content {
        token: Some("secret".into()),
        ..content(&[("a.gguf", 10), ("b.gguf", 10)])
    });
    let said = pull(&server, dir.path(), "org/repo:a.gguf", &[]);
    assert_eq!(said.code, 1);
    assert!(
        said.err.contains("401") && said.err.contains("hint: ") && said.err.contains("HF_TOKEN"),
        "{}",
        said.err
    );
    let token = [("HF_TOKEN", "secret")];
    let said = pull(&server, dir.path(), "org/repo:absent.gguf", &token);
    assert!(said.code == 1 && said.err.contains("404"), "{}", said.err);
    let said = pull(&server, dir.path(), "org/repo", &token);
    assert!(
        said.code == 2 && said.err.contains("org/repo:a.gguf"),
        "{}",
        said.err
    );
    for bad in [
        "org/repo:../../x",
        "org/../repo",
        "a/b/c",
        "org/repo:",
        "org/repo:/etc/passwd",
    ] {
        assert_eq!(pull(&server, dir.path(), bad, &token).code, 2, "{bad}");
    }
}

#[test]
fn a_pipeline_comes_without_its_variants() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(content(&[
        ("model_index.json", 10),
        ("README.md", 10),
        ("all-in-one.safetensors", 10),
        ("unet/config.json", 10),
        ("unet/diffusion_pytorch_model.safetensors", 10),
        ("unet/diffusion_pytorch_model.fp16.safetensors", 10),
        ("unet/diffusion_pytorch_model.bin", 10),
        ("tokenizer/merges.txt", 10),
    ]));
    let said = pull(&server, dir.path(), "org/repo", &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    let json = said.json();
    let mut files: Vec<&str> = json["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["file"].as_str().unwrap())
        .collect();
    files.sort_unstable();
    assert_eq!(
        files,
        [
            "model_index.json",
            "tokenizer/merges.txt",
            "unet/config.json",
            "unet/diffusion_pytorch_model.safetensors"
        ]
    );
}
