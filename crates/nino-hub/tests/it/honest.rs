//! Servers that mean well: whole files, resumed ones, chosen ones, plain addresses.

use crate::server::{Act, Seen, Server, git_sha1, raw, reply, sha256};
use crate::trial::{COMMIT, FILE, TOKEN, Trial, WHAT, content, head, honest, json, rest};
use nino_hub::{Choice, ErrorKind, Revision};

#[test]
fn a_file_arrives_checked_and_is_found_again() {
    let server = Server::new(honest);
    let trial = Trial::new();
    let done = trial.pull(&server, WHAT);
    let [file] = done.files() else { panic!() };
    let path = trial
        .cache()
        .join("models--org--repo/snapshots/c0ffee/model.safetensors");
    assert_eq!(file.path, path);
    assert_eq!(std::fs::read(&path).unwrap(), content());
    assert_eq!((file.checked, file.cached), (Some("SHA-256"), false));
    assert_eq!(file.sha256, Some(sha256(&content())));
    let main = trial.cache().join("models--org--repo/refs/main");
    assert_eq!(std::fs::read_to_string(main).unwrap(), COMMIT);
    assert!(trial.pull(&server, WHAT).files()[0].cached);
    let gets = server
        .requests()
        .iter()
        .filter(|s| s.method == "GET")
        .count();
    assert_eq!(gets, 1);
    // What was downloaded was checked then, and is not read again.
    assert!(
        !trial
            .ear
            .heard
            .lock()
            .unwrap()
            .iter()
            .any(|e| e.contains("Checking"))
    );
}

#[test]
fn a_repository_is_chosen_from_by_one_request() {
    let server = Server::new(honest);
    let trial = Trial::new();
    assert_eq!(trial.pull(&server, "org/repo").files().len(), 1);
    let paths: Vec<String> = server.requests().into_iter().map(|s| s.path).collect();
    assert_eq!(
        paths,
        [
            "/api/models/org/repo/revision/main?blobs=true",
            "/org/repo/resolve/c0ffee/model.safetensors"
        ]
    );
}

/// A list without sizes and hashes, as mirrors give it.
#[test]
fn a_poor_list_is_made_up_for() {
    let server = Server::new(|seen| {
        if seen.is_list() {
            return json(&serde_json::json!({ "siblings": [{ "rfilename": FILE }] }));
        }
        honest(seen)
    });
    let trial = Trial::new();
    assert_eq!(
        trial.pull(&server, "org/repo").files()[0].checked,
        Some("SHA-256")
    );
}

#[test]
fn small_files_are_checked_by_gits_hash() {
    let text = b"{\"a\": 1}\n";
    let etag = format!("\"{}\"", git_sha1(text));
    let server = Server::new(move |seen| {
        let headers = [("etag", etag.as_str()), ("x-repo-commit", COMMIT)];
        let body: &[u8] = if seen.is_head() { b"" } else { text };
        let length = text.len().to_string();
        let headers = [&headers[..], &[("content-length", length.as_str())]].concat();
        vec![Act::Send(raw("200 OK", &headers, body))]
    });
    let trial = Trial::new();
    let done = trial.pull(&server, "org/repo:config.json");
    assert_eq!(done.files()[0].checked, Some("git SHA-1"));
    assert_eq!(std::fs::read(&done.files()[0].path).unwrap(), text);
}

#[test]
fn broken_and_interrupted_downloads_resume() {
    // The first body breaks off after 30,000 bytes.
    let server = Server::new(|seen| {
        if !seen.is_head() && seen.before == 0 {
            let start = seen.start();
            let all = content();
            let length = (all.len() - start).to_string();
            let range = format!("bytes {start}-{}/{}", all.len() - 1, all.len());
            let headers = [
                ("content-length", length.as_str()),
                ("content-range", &range),
            ];
            let part = &all[start..start + 30_000];
            return vec![Act::Send(raw("206 Partial Content", &headers, part))];
        }
        honest(seen)
    });
    let trial = Trial::new();
    // An earlier run left its first part.
    std::fs::create_dir_all(trial.blobs()).unwrap();
    let left = trial
        .blobs()
        .join(format!("{}.incomplete", sha256(&content())));
    std::fs::write(left, &content()[..20_000]).unwrap();
    let done = trial.pull(&server, WHAT);
    assert_eq!(std::fs::read(&done.files()[0].path).unwrap(), content());
    let starts: Vec<usize> = server
        .requests()
        .iter()
        .filter(|s| !s.is_head())
        .map(Seen::start)
        .collect();
    assert_eq!(starts, [20_000, 50_000]);
    assert!(trial.ear.heard.lock().unwrap()[0].contains("Resumed"));
}

/// D7: a space made the address invalid.
#[test]
fn names_are_escaped() {
    for (name, path) in [
        ("my model.safetensors", "my%20model.safetensors"),
        ("a/100% #1.safetensors", "a/100%25%20%231.safetensors"),
        ("模型.gguf", "%E6%A8%A1%E5%9E%8B.gguf"),
        ("a+b&c=d.gguf", "a%2Bb%26c%3Dd.gguf"),
    ] {
        let server = Server::new(honest);
        let trial = Trial::new();
        let done = trial.pull(&server, &format!("org/repo:{name}"));
        assert!(done.files()[0].path.ends_with(name), "{name}");
        // The branch is asked for its commit, of which the file is.
        let requests = server.requests();
        assert_eq!(requests[0].path, format!("/org/repo/resolve/main/{path}"));
        let of_a_commit = |p: &str| !p.contains("/main/") && p.ends_with(&format!("/{path}"));
        assert!(
            requests.iter().skip(1).all(|r| of_a_commit(&r.path)),
            "{name}"
        );
    }
}

#[test]
fn a_revision_is_one_part_of_the_address() {
    let server = Server::new(honest);
    let mut trial = Trial::new();
    trial.revision = Some(Revision::new("refs/pr/1").unwrap());
    trial.pull(&server, WHAT).files();
    let path = &server.requests()[0].path;
    assert_eq!(path, "/org/repo/resolve/refs%2Fpr%2F1/model.safetensors");
    assert!(
        trial
            .cache()
            .join("models--org--repo/refs/refs/pr/1")
            .is_file()
    );
}

#[test]
fn pages_of_the_hub_are_repositories() {
    let server = Server::new(honest);
    for page in [
        "org/repo/blob/main/model.safetensors",
        "org/repo/resolve/main/model.safetensors?download=true",
        "org/repo/tree/main",
        "org/repo",
        "org/repo/",
    ] {
        let trial = Trial::new();
        let done = trial.pull(&server, &format!("{}/{page}", server.address));
        assert!(done.files()[0].path.ends_with(FILE), "{page}");
    }
}

#[test]
fn a_plain_address_is_one_file() {
    let other = Server::new(|seen| {
        let size = content().len().to_string();
        let headers = [("etag", "\"v1\""), ("content-length", size.as_str())];
        if seen.is_head() {
            return vec![Act::Send(raw("200 OK", &headers, b""))];
        }
        rest(seen)
    });
    let server = Server::new(honest);
    let mut trial = Trial::new();
    trial.token = Some(TOKEN);
    let url = format!("{}/files/my%20model.safetensors?key=1", other.address);
    let done = trial.pull(&server, &url);
    let file = &done.files()[0];
    assert!(file.path.ends_with("my model.safetensors"));
    assert_eq!(
        (file.checked, &file.sha256),
        (None, &Some(sha256(&content())))
    );
    assert_eq!(std::fs::read(&file.path).unwrap(), content());
    let requests = other.requests();
    assert!(requests.iter().all(|s| s.header("authorization").is_none()));
    assert!(
        requests
            .iter()
            .all(|s| s.path == "/files/my%20model.safetensors?key=1")
    );
    assert!(trial.pull(&server, &url).files()[0].cached);
    assert_eq!(
        other.requests().len(),
        3,
        "the second time only its state is asked for"
    );
    let names = nino_hub::downloads(&trial.cache());
    assert_eq!(names[0].repo.as_str(), "127.0.0.1/my_model");
}

#[test]
fn a_web_page_is_not_a_model() {
    let other = Server::new(|_| {
        let headers = [("content-type", "text/html; charset=utf-8")];
        vec![Act::Send(reply("200 OK", &headers, b""))]
    });
    let server = Server::new(honest);
    let url = format!("{}/x/model.gguf", other.address);
    let done = Trial::new().pull(&server, &url);
    done.fails(ErrorKind::Server, "a web page");
}

#[test]
fn patterns_and_variants_choose() {
    let names = ["a.fp16.safetensors", "a.safetensors", "b/c.txt"];
    let server = Server::new(move |seen| {
        if seen.is_list() {
            let files = names.map(|n| serde_json::json!({ "rfilename": n }));
            return json(&serde_json::json!({ "sha": COMMIT, "siblings": files }));
        }
        honest(seen)
    });
    let pulled = |choice: Choice| {
        let mut trial = Trial::new();
        trial.choice = choice;
        let done = trial.pull(&server, "org/repo");
        let name = |f: &nino_hub::Fetched| {
            let root = trial.cache().join("models--org--repo/snapshots/c0ffee");
            f.path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        };
        done.files().iter().map(name).collect::<Vec<_>>()
    };
    let include = |p: &str| Choice {
        include: vec![p.to_owned()],
        variant: None,
    };
    assert_eq!(pulled(Choice::default()), ["a.fp16.safetensors"]);
    assert_eq!(pulled(include("*.txt")), ["b/c.txt"]);
    assert_eq!(
        pulled(include("a.*")),
        ["a.fp16.safetensors", "a.safetensors"]
    );
    let mut trial = Trial::new();
    trial.choice.variant = Some("int3".to_owned());
    let done = trial.pull(&server, "org/repo");
    done.fails(ErrorKind::Usage, "int3");
    // A relative redirect within the hub is followed to the facts, as for small files.
    let server = Server::new(|seen| match seen.path.as_str() {
        "/cache/x" if seen.is_head() => head(&[("x-repo-commit", None)]),
        "/cache/x" => rest(seen),
        _ => {
            let headers = [("location", "/cache/x"), ("x-repo-commit", COMMIT)];
            vec![Act::Send(reply("307 Temporary Redirect", &headers, b""))]
        }
    });
    let done = Trial::new().pull(&server, WHAT);
    assert!(done.files()[0].path.to_str().unwrap().contains(COMMIT));
}
