//! What people type and paste, and addresses.

use crate::names::{FileName, RepoName};
use crate::{Address, Alias, Files, Target, TargetError};

fn target(text: &str) -> Result<Target, TargetError> {
    let endpoint = Address::parse("https://huggingface.co").unwrap();
    Target::parse(text, &endpoint)
}

/// Repository, revision and files as one line.
fn line(text: &str) -> String {
    match target(text) {
        Ok(Target::Repo {
            repo,
            revision,
            files,
            ..
        }) => {
            let revision = revision.map_or("-".to_owned(), |r| r.to_string());
            let files = match files {
                Files::Choose => "choose".to_owned(),
                Files::Below(folder) => format!("below {folder}"),
                Files::Named(names) => {
                    let names: Vec<&str> = names.iter().map(crate::FileName::as_str).collect();
                    names.join(",")
                }
            };
            format!("{repo} {revision} {files}")
        }
        Ok(Target::Url { address, file }) => format!("{address} {file}"),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn what_people_paste_is_understood() {
    for (text, wanted) in [
        ("org/repo", "org/repo - choose"),
        ("gpt2", "gpt2 - choose"),
        ("org/repo:a/b.gguf", "org/repo - a/b.gguf"),
        ("org/repo/a/b.gguf", "org/repo - a/b.gguf"),
        ("https://huggingface.co/org/repo", "org/repo - choose"),
        ("https://huggingface.co/org/repo/", "org/repo - choose"),
        ("huggingface.co/org/repo", "org/repo - choose"),
        ("hf.co/org/repo", "org/repo - choose"),
        ("http://www.huggingface.co/org/repo", "org/repo - choose"),
        (
            "https://huggingface.co/org/repo/tree/main",
            "org/repo main choose",
        ),
        (
            "https://huggingface.co/org/repo/tree/main/vae",
            "org/repo main below vae",
        ),
        (
            "https://huggingface.co/org/repo/blob/main/a.gguf",
            "org/repo main a.gguf",
        ),
        (
            "https://huggingface.co/org/repo/raw/v1/x/a.json",
            "org/repo v1 x/a.json",
        ),
        (
            "https://huggingface.co/org/repo/resolve/refs%2Fpr%2F1/my%20a.gguf?download=true#x",
            "org/repo refs/pr/1 my a.gguf",
        ),
        (
            "  \"https://huggingface.co/org/repo\" ",
            "org/repo - choose",
        ),
        ("<https://huggingface.co/org/repo>", "org/repo - choose"),
        ("https://huggingface.co/org/repo/discussions/1", "error:"),
        ("https://huggingface.co/datasets/org/data", "error: \"https"),
        ("https://huggingface.co/", "error:"),
        (
            "https://example.com/files/a%20b.safetensors?sig=1",
            "https://example.com/files/a%20b.safetensors a b.safetensors",
        ),
        (
            "https://example.com/model",
            "error: \"https://example.com/model\" is not a model file",
        ),
        (
            "https://civitai.com/models/4384/dreamshaper",
            "error: Civitai",
        ),
        ("civitai.com/api/download/models/128713", "error: Civitai"),
        ("https://example.com/..%2f..%2fx.gguf", "error:"),
        ("ftp://example.com/a.gguf", "error: \"ftp:"),
        ("", "error:"),
        ("a/b/c", "error:"),
    ] {
        let found = line(text);
        assert!(found.starts_with(wanted), "{text}: {found}");
    }
}

#[test]
fn every_short_name_is_a_target() {
    for alias in Alias::all() {
        let Target::Repo { files, .. } = target(alias.name).unwrap() else {
            panic!("{}", alias.name)
        };
        assert!(matches!(files, Files::Named(names) if names.len() == alias.files.len()));
        assert!(alias.size > 0 && !alias.about.is_empty());
        for (repo, file) in alias.all_files() {
            RepoName::new(repo).unwrap();
            FileName::new(file).unwrap();
        }
    }
    assert!(Alias::all().any(|a| a.name == "sd15"));
}

#[test]
fn addresses_keep_no_password_and_no_case_of_hosts() {
    let address = Address::parse("HTTPS://user:pass@Example.COM:443/a?b=c#d").unwrap();
    assert_eq!(address.to_string(), "https://example.com/a");
    assert_eq!(address.full(), "https://example.com/a?b=c");
    let same = Address::parse("https://example.com/x").unwrap();
    assert_eq!(address.origin(), same.origin());
    for other in [
        "http://example.com",
        "https://example.com:444",
        "https://example.org",
    ] {
        assert_ne!(
            address.origin(),
            Address::parse(other).unwrap().origin(),
            "{other}"
        );
    }
    let local = Address::parse("http://[::1]:8080").unwrap();
    assert_eq!(local.full(), "http://[::1]:8080/");
    for bad in [
        "example.com",
        "https://",
        "https:///x",
        "https://a\u{7}b",
        "https://a b/",
        "https://a:0",
        "https://a:70000",
        "https://[::1",
        "https://[x]/",
        "https://a@/",
    ] {
        assert!(Address::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_name_below_an_address_stays_one_part() {
    let endpoint = Address::parse("https://a.b/mirror/").unwrap();
    let below = endpoint.below(["org", "x/../y?z#w"]).with_query("q=1");
    assert_eq!(
        below.full(),
        "https://a.b/mirror/org/x%2F..%2Fy%3Fz%23w?q=1"
    );
    assert_eq!(below.parts(), ["mirror", "org", "x/../y?z#w"]);
}
