//! Lists of files that are wrong, huge, or name what must not be written.

use crate::server::{Act, Server, reply};
use crate::trial::{COMMIT, Trial, honest, json};
use nino_hub::ErrorKind;
use serde_json::json as value;

#[test]
fn lists_that_are_none() {
    let long = "x".repeat(100_000);
    let deep = format!("{{\"siblings\":{}", "[".repeat(50_000));
    for (name, body) in [
        ("no JSON", "<html>sorry</html>".to_owned()),
        ("nothing", String::new()),
        ("cut", "{\"siblings\": [{\"rfilename\": \"a".to_owned()),
        ("a list", "[]".to_owned()),
        ("null", "null".to_owned()),
        ("no siblings", "{}".to_owned()),
        ("siblings of another type", "{\"siblings\": 7}".to_owned()),
        ("files of another type", "{\"siblings\": [1]}".to_owned()),
        (
            "a name of another type",
            "{\"siblings\": [{\"rfilename\": 1}]}".to_owned(),
        ),
        (
            "a size below zero",
            "{\"siblings\":[{\"rfilename\":\"a.gguf\",\"size\":-1}]}".to_owned(),
        ),
        (
            "a size of 10^30",
            "{\"siblings\":[{\"rfilename\":\"a.gguf\",\"size\":1e30}]}".to_owned(),
        ),
        (
            "not UTF-8",
            "{\"siblings\": [{\"rfilename\": \"\u{0}\"}]}".to_owned(),
        ),
        ("deep", deep),
        ("long", format!("{{\"x\": \"{long}\", \"siblings\": []}}")),
        (
            "a commit that is a path",
            "{\"sha\":\"../../x\",\"siblings\":[]}".to_owned(),
        ),
    ] {
        let server = Server::new(move |_| vec![Act::Send(reply("200 OK", &[], body.as_bytes()))]);
        let done = Trial::new().pull(&server, "org/repo");
        let error = done.result.as_ref().err();
        assert_eq!(
            error.map(nino_hub::HubError::kind),
            Some(ErrorKind::Server),
            "{name}: {error:?}"
        );
        assert_eq!(server.requests().len(), 1, "{name}");
    }
}

/// D8: a size of 10^18 was accepted.
#[test]
fn absurd_sizes_are_refused_before_anything_is_made() {
    for size in [u64::MAX, 1_000_000_000_000_000_000, (1 << 30) + 1] {
        let list = value!({ "sha": COMMIT, "siblings": [{
            "rfilename": "a.gguf", "size": size, "blobId": "a".repeat(40),
        }]});
        let server = Server::new(move |_| json(&list));
        let trial = Trial::new();
        let done = trial.pull(&server, "org/repo");
        done.fails(ErrorKind::Server, "exceed the limit for a model");
        assert!(!trial.cache().exists());
    }
}

#[test]
fn a_full_disk_is_noticed_first() {
    let size = 1_u64 << 60;
    let list = value!({ "sha": COMMIT, "siblings": [{
        "rfilename": "a.gguf", "size": size, "blobId": "a".repeat(40),
    }]});
    let server = Server::new(move |_| json(&list));
    let mut trial = Trial::new();
    trial.limits.most_file_bytes = u64::MAX;
    trial
        .pull(&server, "org/repo")
        .fails(ErrorKind::Disk, "are free");
    assert!(!trial.cache().exists());
}

/// Names that leave the folder are not files of the repository.
#[test]
fn names_that_leave_the_folder_are_left_out() {
    let bad = [
        "../x.gguf",
        "a/../../x.gguf",
        "/etc/x.gguf",
        "C:/x.gguf",
        "a\\..\\x.gguf",
        "a//x.gguf",
        "./x.gguf",
        "a/./x.gguf",
        "",
        "x.gguf\u{0}",
        "x\n.gguf",
        "\u{1b}[2Jx.gguf",
        "nul.gguf",
        "a./x.gguf",
        "x.gguf ",
    ];
    let long = format!("{}.gguf", "a".repeat(300));
    let names = bad.iter().copied().chain([long.as_str()]);
    let files: Vec<_> = names.map(|n| value!({ "rfilename": n })).collect();
    let list = value!({ "sha": COMMIT, "siblings": files });
    let server = Server::new(move |_| json(&list));
    let done = Trial::new().pull(&server, "org/repo");
    done.fails(ErrorKind::Usage, "has no model files");
    let mut trial = Trial::new();
    trial.choice.include = vec!["*".to_owned()];
    trial
        .pull(&server, "org/repo")
        .fails(ErrorKind::Usage, "no file that matches");
}

#[test]
fn several_models_are_a_question() {
    let names = ["a-Q4.gguf", "a-Q8.gguf"];
    let list = value!({ "sha": COMMIT, "siblings": names.map(|n| value!({ "rfilename": n })) });
    let server = Server::new(move |seen| match seen.is_list() {
        true => json(&list),
        false => honest(seen),
    });
    let done = Trial::new().pull(&server, "org/repo");
    done.fails(ErrorKind::Usage, "org/repo:a-Q4.gguf, org/repo:a-Q8.gguf");
}
