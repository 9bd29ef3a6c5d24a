//! `nino pull` against a server in this process: whole files, resumed ones, broken and wrong ones.

#![allow(clippy::unwrap_used)] // clippy knows test functions, not their helpers

use crate::shell::{Said, command};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the server holds and how it misbehaves.
#[derive(Default)]
struct Content {
    files: HashMap<String, Vec<u8>>,
    /// Bytes after which the connection is cut, once.
    cut: Mutex<Option<usize>>,
    /// Wanted in every request for what is not storage.
    token: Option<String>,
    lie_about_hash: bool,
    /// Bodies begin, and nothing follows.
    stall: bool,
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
        let body = &content.files[&file.replace("%20", " ")];
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
        if content.stall {
            let head = format!(
                "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\nx",
                body.len()
            );
            let _ = out.write_all(head.as_bytes());
            std::thread::sleep(Duration::from_mins(1));
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
    // Repositories that short names know have the same files.
    let is_known = |repo: &str| repo == "/org/repo" || repo.starts_with("/Comfy-Org/");
    let Some(file) = path
        .split_once("/resolve/main/")
        .or_else(|| path.split_once("/resolve/abc123/"))
        .filter(|(repo, _)| is_known(repo))
        .map(|(_, f)| f.replace("%20", " "))
        .filter(|f| content.files.contains_key(f))
    else {
        return reply("404 Not Found", "", b"");
    };
    let body = &content.files[&file];
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
    run(prepared(server, cache, &["pull", what, "--json"]).envs(extra.iter().copied()))
}

/// `nino` with this server and cache, and none of the variables of whoever runs the tests.
fn prepared(server: &Server, cache: &Path, args: &[&str]) -> Command {
    let mut command = command(args);
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
    command
}

fn run(command: &mut Command) -> Said {
    let output = command.output().unwrap();
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
fn a_pipeline_comes_in_f16_and_without_its_other_variants() {
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
            "unet/diffusion_pytorch_model.fp16.safetensors"
        ]
    );
}

/// D4: a hex dump of the request was in the log.
#[test]
fn no_log_shows_the_token() {
    for filter in [
        "trace",
        "ureq=trace,ureq_proto=trace",
        "ureq_proto::util=trace",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let server = serve(Content {
            token: Some("hf_secretsecretsecret".into()),
            ..content(&[("model.gguf", 1000)])
        });
        let extra = [("HF_TOKEN", "hf_secretsecretsecret"), ("NINO_LOG", filter)];
        let said = pull(&server, dir.path(), "org/repo", &extra);
        assert_eq!(said.code, 0, "{}", said.err);
        let all = said.err + &said.out;
        // Split over two lines of a dump, a part of it would still be there.
        assert!(
            !all.contains("secret") && !all.contains("earer"),
            "{filter}: {all}"
        );
    }
}

/// D2: one SIGTERM did not end a download that stalled.
#[cfg(unix)]
#[test]
fn a_stop_ends_a_download_that_stalls() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(Content {
        stall: true,
        ..content(&[("model.gguf", 1000)])
    });
    let mut child = prepared(&server, dir.path(), &["pull", "org/repo"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let since = Instant::now();
    let is_stalled = || {
        let requests = server.content.requests.lock().unwrap();
        requests.iter().any(|r| r.starts_with("GET /storage/"))
    };
    while !is_stalled() {
        assert!(since.elapsed() < Duration::from_secs(30), "it never began");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(100));
    let id = child.id().to_string();
    assert!(Command::new("kill").arg(&id).status().unwrap().success());
    let asked = Instant::now();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(
        asked.elapsed() < Duration::from_secs(3),
        "{:?}",
        asked.elapsed()
    );
}

/// D5: such revisions wrote outside the cache.
#[test]
fn a_revision_stays_in_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let server = serve(content(&[("model.gguf", 1000)]));
    let outside = dir.path().join("outside").to_string_lossy().into_owned();
    for revision in [outside.as_str(), "a/../../../../outside", "..", "a\\b", ""] {
        let line = ["pull", "org/repo:model.gguf", "--revision", revision];
        let said = run(&mut prepared(&server, &cache, &line));
        assert_eq!(said.code, 2, "{revision}: {}", said.err);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    assert!(server.content.requests.lock().unwrap().is_empty());
}

#[test]
fn the_size_comes_first_and_the_command_to_use_it_last() {
    let dir = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/models");
    let vae = std::fs::read(golden.join("taesd_real.safetensors")).unwrap();
    let server = serve(Content {
        files: HashMap::from([("my vae.safetensors".to_owned(), vae.clone())]),
        ..Content::default()
    });
    let line = ["pull", "org/repo:my vae.safetensors"];
    let dry = run(&mut prepared(
        &server,
        dir.path(),
        &[&line[..], &["--dry-run"]].concat(),
    ));
    assert_eq!(dry.code, 0, "{}", dry.err);
    assert!(dry.out.contains("1 file, "), "{}", dry.out);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let said = run(&mut prepared(&server, dir.path(), &line));
    assert_eq!(said.code, 0, "{}", said.err);
    let first = said.out.lines().next().unwrap();
    assert!(first.contains("1 file, "), "{first}");
    let last = said.out.lines().last().unwrap();
    assert!(last.starts_with("use it: nino "), "{last}");
    assert!(last.ends_with("'my vae'"), "{last}");
    let quiet = run(&mut prepared(
        &server,
        dir.path(),
        &[&line[..], &["-q"]].concat(),
    ));
    let path = dir
        .path()
        .join("models--org--repo/snapshots/abc123/my vae.safetensors");
    assert_eq!(quiet.out.trim_end(), path.to_str().unwrap());
    let json = pull(&server, dir.path(), line[1], &[]).json();
    assert_eq!(json["bytes"], vae.len());
    assert_eq!(json["missing_bytes"], 0);
    assert_eq!(json["use"]["name"], "my vae");
    assert_eq!(json["files"][0]["checked"], "SHA-256");
}

#[test]
fn short_names_are_listed() {
    let said = crate::shell::nino(&["pull"]);
    assert_eq!(said.code, 0, "{}", said.err);
    for name in ["sd15 ", "sdxl ", "sdxl-turbo ", "taesd "] {
        assert!(
            said.out.lines().any(|l| l.starts_with(name)),
            "{name}: {}",
            said.out
        );
    }
    assert!(
        said.out.lines().all(|l| l.chars().count() <= 80),
        "{}",
        said.out
    );
    let json = crate::shell::nino(&["pull", "--list", "--json"]).json();
    let names = json["aliases"].as_array().unwrap();
    assert!(
        names
            .iter()
            .any(|a| a["name"] == "sd15" && a["flag"] == "--model")
    );
}

#[test]
fn parts_in_another_repository_come_with_a_short_name() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [
        "diffusion_models/wan2.2_ti2v_5B_fp16",
        "vae/wan2.2_vae",
        "text_encoders/umt5_xxl_fp8_e4m3fn_scaled",
    ]
    .map(|part| format!("split_files/{part}.safetensors"));
    let server = serve(content(&[
        (&parts[0], 3000),
        (&parts[1], 2000),
        (&parts[2], 1000),
    ]));
    let said = pull(&server, dir.path(), "wan2.2-ti2v-5b", &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    let json = said.json();
    let repos = [
        "Wan_2.2_ComfyUI_Repackaged",
        "Wan_2.2_ComfyUI_Repackaged",
        "Wan_2.1_ComfyUI_repackaged",
    ];
    for (i, (part, repo)) in parts.iter().zip(repos).enumerate() {
        let path = json["files"][i]["path"].as_str().unwrap();
        assert!(
            path.contains(&format!("models--Comfy-Org--{repo}/")),
            "{path}"
        );
        assert!(path.ends_with(part) && std::path::Path::new(path).is_file());
    }
}

#[test]
fn what_cannot_be_downloaded_is_told_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(content(&[("a.gguf", 10)]));
    for (what, words) in [
        ("https://civitai.com/models/1", "browser"),
        ("https://huggingface.co/datasets/a/b", "dataset"),
        ("https://example.com/x", "is not a model file"),
        ("a/b/c", "not a repository"),
    ] {
        let said = pull(&server, dir.path(), what, &[]);
        assert!(
            said.code == 2 && said.err.contains(words),
            "{what}: {}",
            said.err
        );
    }
    let line = ["pull", "org/repo:a.gguf", "--variant", "fp16"];
    let said = run(&mut prepared(&server, dir.path(), &line));
    assert!(
        said.code == 2 && said.err.contains("leave one out"),
        "{}",
        said.err
    );
    assert!(server.content.requests.lock().unwrap().is_empty());
}
