//! What lies in the cache already: damaged contents, links, other processes, and removing it.

use crate::server::{Server, sha256};
use crate::trial::{COMMIT, Trial, WHAT, content, honest, json};
use nino_hub::{ErrorKind, Removal, downloads};
use std::fs;

/// D6: a cached file of the right size with other bytes was believed.
#[test]
fn a_damaged_content_is_downloaded_again() {
    let server = Server::new(honest);
    let trial = Trial::new();
    trial.pull(&server, WHAT).files();
    let blob = trial.blobs().join(sha256(&content()));
    let mut bytes = content();
    bytes[7] ^= 1;
    fs::write(&blob, &bytes).unwrap();
    let again = trial.pull(&server, WHAT);
    assert!(!again.files()[0].cached);
    assert_eq!(fs::read(&blob).unwrap(), content());
    let heard = trial.ear.heard.lock().unwrap();
    assert!(heard.iter().any(|e| e.contains("Damaged")), "{heard:?}");
}

/// Another tool's download is read once, and not again as long as it stays the same.
#[test]
fn a_content_of_others_is_checked_once() {
    let server = Server::new(honest);
    let trial = Trial::new();
    fs::create_dir_all(trial.blobs()).unwrap();
    fs::write(trial.blobs().join(sha256(&content())), content()).unwrap();
    for checks in [1, 1] {
        assert!(trial.pull(&server, WHAT).files()[0].cached);
        let heard = trial.ear.heard.lock().unwrap();
        let found = heard.iter().filter(|e| e.contains("Checking")).count();
        assert_eq!(found, checks);
    }
    assert!(server.requests().iter().all(crate::server::Seen::is_head));
}

/// D7: what `.incomplete` pointed to was written over.
#[cfg(unix)]
#[test]
fn an_unfinished_file_that_is_a_link_is_refused() {
    let server = Server::new(honest);
    let trial = Trial::new();
    fs::create_dir_all(trial.blobs()).unwrap();
    let victim = trial.cache().join("victim");
    fs::write(&victim, "precious").unwrap();
    let unfinished = trial
        .blobs()
        .join(format!("{}.incomplete", sha256(&content())));
    std::os::unix::fs::symlink(&victim, &unfinished).unwrap();
    trial
        .pull(&server, WHAT)
        .fails(ErrorKind::Disk, "this is a link");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    fs::remove_file(&unfinished).unwrap();
    fs::create_dir(&unfinished).unwrap();
    trial
        .pull(&server, WHAT)
        .fails(ErrorKind::Disk, "this is a folder");
    fs::remove_dir(&unfinished).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(&unfinished)
        .status();
    assert!(made.unwrap().success());
    trial
        .pull(&server, WHAT)
        .fails(ErrorKind::Disk, "this is a pipe");
}

#[test]
fn two_downloads_of_one_file_do_not_mix() {
    let server = Server::new(honest);
    let trial = Trial::new();
    fs::create_dir_all(trial.blobs()).unwrap();
    let unfinished = trial
        .blobs()
        .join(format!("{}.incomplete", sha256(&content())));
    let other = fs::File::create(&unfinished).unwrap();
    other.lock().unwrap();
    trial
        .pull(&server, WHAT)
        .fails(ErrorKind::Busy, "another download");
    drop(other);
    trial.pull(&server, WHAT).files();
}

#[test]
fn too_much_of_a_file_is_none_of_it() {
    let server = Server::new(honest);
    let trial = Trial::new();
    fs::create_dir_all(trial.blobs()).unwrap();
    let unfinished = trial
        .blobs()
        .join(format!("{}.incomplete", sha256(&content())));
    fs::write(&unfinished, vec![1; 200_000]).unwrap();
    trial.pull(&server, WHAT).files();
    assert_eq!(server.requests().last().unwrap().start(), 0);
}

/// A repository with two names of one content and one of another.
fn three_names(trial: &Trial) -> Server {
    let names = ["a.gguf", "sub/b.gguf", "c.txt"];
    let server = Server::new(move |seen| {
        if seen.is_list() {
            let files = names.map(|n| serde_json::json!({ "rfilename": n }));
            return json(&serde_json::json!({ "sha": COMMIT, "siblings": files }));
        }
        if seen.path.ends_with("c.txt") {
            let hash = format!("\"{}\"", crate::server::git_sha1(b"text"));
            let body: &[u8] = if seen.is_head() { b"" } else { b"text" };
            let headers = [("etag", hash.as_str()), ("content-length", "4")];
            let headers = [&headers[..], &[("x-repo-commit", COMMIT)]].concat();
            return vec![crate::server::Act::Send(crate::server::raw(
                "200 OK", &headers, body,
            ))];
        }
        honest(seen)
    });
    for name in names {
        trial.pull(&server, &format!("org/repo:{name}")).files();
    }
    server
}

#[cfg(unix)]
#[test]
fn a_shared_content_stays_until_its_last_name_goes() {
    let trial = Trial::new();
    three_names(&trial);
    let all = downloads(&trial.cache());
    assert_eq!(all[0].repo.as_str(), "org/repo");
    assert_eq!(all[0].files.len(), 3);
    assert!(
        (100_004..110_000).contains(&all[0].bytes),
        "{}",
        all[0].bytes
    );
    let blob = trial.blobs().join(sha256(&content()));

    let first = Removal::find(&trial.cache(), "org/repo/a.gguf").unwrap();
    assert_eq!(
        (first.frees, first.files.as_slice()),
        (0, &["a.gguf".to_owned()][..])
    );
    first.run().unwrap();
    assert!(blob.exists());

    let second = Removal::find(&trial.cache(), "b").unwrap();
    assert_eq!(
        (second.name.as_str(), second.frees),
        ("org/repo/sub/b.gguf", 100_000)
    );
    second.run().unwrap();
    assert!(!blob.exists());
    let snapshot = trial
        .cache()
        .join("models--org--repo/snapshots")
        .join(COMMIT);
    assert!(!snapshot.join("sub").exists());

    // The last name takes the repository with it.
    Removal::find(&trial.cache(), "org/repo:c.txt")
        .unwrap()
        .run()
        .unwrap();
    assert!(!trial.cache().join("models--org--repo").exists());
}

#[cfg(unix)]
#[test]
fn nothing_outside_the_cache_is_removed() {
    let trial = Trial::new();
    three_names(&trial);
    let outside = tempfile::tempdir().unwrap();
    let precious = outside.path().join("precious.gguf");
    fs::write(&precious, "precious").unwrap();
    let repo = trial.cache().join("models--org--repo");
    let snapshot = repo.join("snapshots").join(COMMIT);
    std::os::unix::fs::symlink(&precious, snapshot.join("d.gguf")).unwrap();
    std::os::unix::fs::symlink(outside.path(), snapshot.join("folder")).unwrap();
    std::os::unix::fs::symlink(outside.path(), trial.cache().join("models--x--y")).unwrap();
    let names: Vec<String> = downloads(&trial.cache())
        .iter()
        .map(|d| d.repo.to_string())
        .collect();
    assert_eq!(names, ["org/repo"]);
    Removal::find(&trial.cache(), "d").unwrap().run().unwrap();
    for bad in ["x/y", "../cache", "", ".", "precious", "/"] {
        let error = Removal::find(&trial.cache(), bad).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Usage, "{bad}");
    }
    Removal::find(&trial.cache(), "ORG/repo")
        .unwrap()
        .run()
        .unwrap();
    assert!(!repo.exists());
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

#[cfg(unix)]
#[test]
fn a_name_of_two_downloads_is_a_question() {
    let trial = Trial::new();
    let server = Server::new(honest);
    trial.pull(&server, "org/repo:model.safetensors").files();
    trial.pull(&server, "org/other:model.safetensors").files();
    let error = Removal::find(&trial.cache(), "model").err().unwrap();
    assert!(error.to_string().contains("org/other"), "{error}");
    let error = Removal::find(&trial.cache(), "oth").err().unwrap();
    assert!(
        error.to_string().contains("similar are org/other"),
        "{error}"
    );
}
