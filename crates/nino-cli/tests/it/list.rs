//! `nino list` and `nino rm`, with folders made for the purpose.

use crate::shell::{Folder, Said, nino_with};
use std::fs;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../goldens")
        .join(name)
}

fn put(folder: &Folder, name: &str, golden_name: &str) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::copy(golden(golden_name), path).unwrap();
}

/// A download as Hugging Face's tools leave it.
fn download(folder: &Folder, repo: &str, file: &str, bytes: &[u8]) -> PathBuf {
    let repo = folder
        .path()
        .join("hub")
        .join(format!("models--{}", repo.replace('/', "--")));
    let blob = format!("{}{}", file.len(), "0".repeat(39));
    let name = repo.join("snapshots/abc").join(file);
    fs::create_dir_all(repo.join("blobs")).unwrap();
    fs::create_dir_all(repo.join("refs")).unwrap();
    fs::create_dir_all(name.parent().unwrap()).unwrap();
    fs::write(repo.join("blobs").join(&blob), bytes).unwrap();
    fs::write(repo.join("refs/main"), "abc").unwrap();
    let target = repo.join("blobs").join(blob);
    #[cfg(unix)]
    std::os::unix::fs::symlink(&target, &name).unwrap();
    #[cfg(not(unix))]
    fs::copy(&target, &name).unwrap();
    name
}

fn run(folder: &Folder, args: &[&str]) -> Said {
    let (models, hub) = (folder.at("models"), folder.at("hub"));
    let env = [
        ("NINO_MODELS", models.as_str()),
        ("HF_HUB_CACHE", hub.as_str()),
    ];
    nino_with(args, &env)
}

fn library() -> Folder {
    let folder = Folder::new();
    put(
        &folder,
        "models/checkpoints/tiny.safetensors",
        "generate/tiny_sd1.safetensors",
    );
    put(
        &folder,
        "models/vae/taesd.safetensors",
        "models/taesd_real.safetensors",
    );
    put(
        &folder,
        "models/loras/style/ink.safetensors",
        "lora/kohya.safetensors",
    );
    fs::write(folder.path().join("models/broken.safetensors"), b"rubbish").unwrap();
    folder
}

fn row<'a>(json: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let rows = json["files"].as_array().unwrap();
    let found = rows.iter().find(|r| r["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {json:#}"))
}

#[test]
fn models_and_what_belongs_to_them_are_listed() {
    let folder = library();
    let said = run(
        &folder,
        &["list", "--json", "--device", "cpu", "--budget", "1GiB"],
    );
    assert_eq!(said.code, 0, "{}", said.err);
    let json = said.json();
    assert_eq!(json["budget_bytes"], 1_u64 << 30);
    let tiny = row(&json, "tiny.safetensors");
    assert_eq!(
        (&tiny["kind"], &tiny["place"]),
        (&"model".into(), &"folder".into())
    );
    // A file of no model that is known is what its folder says.
    let vae = row(&json, "taesd.safetensors");
    assert_eq!((&vae["kind"], &vae["runs"]), (&"vae".into(), &false.into()));
    assert_eq!(row(&json, "style/ink.safetensors")["kind"], "lora");
    let broken = row(&json, "broken.safetensors");
    assert_eq!(
        (&broken["kind"], &broken["fits"]),
        (&"other".into(), &serde_json::Value::Null)
    );
    let builtin = row(&json, "nino-emoji");
    assert_eq!(
        (&builtin["place"], &builtin["fits"]),
        (&"builtin".into(), &true.into())
    );
    // Less memory than the model in the box has weights.
    let small = run(
        &folder,
        &["list", "--json", "--device", "cpu", "--budget", "1MiB"],
    );
    assert_eq!(row(&small.json(), "nino-emoji")["fits"], false);
}

#[test]
fn one_kind_is_listed() {
    let folder = library();
    for (kind, wanted) in [
        ("models", vec!["nino-emoji", "tiny.safetensors"]),
        ("vaes", vec!["taesd.safetensors"]),
        ("vae", vec!["taesd.safetensors"]),
        ("loras", vec!["style/ink.safetensors"]),
        ("embeddings", vec![]),
    ] {
        let json = run(&folder, &["list", kind, "--json", "--device", "cpu"]).json();
        let rows = json["files"].as_array().unwrap().iter();
        let names: Vec<&str> = rows.map(|r| r["name"].as_str().unwrap()).collect();
        assert_eq!(names, wanted, "{kind}");
    }
    let said = run(&folder, &["list", "vaes", "--device", "cpu"]);
    assert!(said.out.contains("taesd.safetensors"), "{}", said.out);
    assert!(!said.out.contains("tiny"), "{}", said.out);
    assert_eq!(run(&folder, &["list", "nonsense"]).code, 2);
}

#[test]
fn downloads_are_listed_and_found_by_short_names() {
    let folder = library();
    let repo = "Comfy-Org/stable-diffusion-v1-5-archive";
    let file = "v1-5-pruned-emaonly-fp16.safetensors";
    let bytes = fs::read(golden("generate/tiny_sd1.safetensors")).unwrap();
    let said = run(&folder, &["inspect", "sd15"]);
    assert!(
        said.err.contains("hint: `nino pull sd15` downloads it"),
        "{}",
        said.err
    );
    download(&folder, repo, file, &bytes);
    let json = run(&folder, &["list", "--json", "--device", "cpu"]).json();
    assert_eq!(row(&json, "sd15")["place"], "download");
    let json = run(&folder, &["list", "downloads", "--json"]).json();
    assert_eq!(json["downloads"][0]["name"], repo);
    assert!(json["bytes"].as_u64().unwrap() >= bytes.len() as u64);
    let text = run(&folder, &["list", "downloads"]).out;
    assert!(text.contains(repo) && text.contains("KiB"), "{text}");
    let said = run(&folder, &["inspect", "sd15", "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
}

#[test]
fn only_downloads_are_removed() {
    let folder = library();
    let one = download(&folder, "org/repo", "a.gguf", b"one");
    let two = download(&folder, "org/repo", "sub/b.gguf", b"two!");
    let other = download(&folder, "org/other", "c.gguf", b"three");
    // Nobody is there to ask.
    let said = run(&folder, &["rm", "org/repo"]);
    assert!(said.code == 2 && said.err.contains("--yes"), "{}", said.err);
    assert!(one.exists());
    for name in [
        "tiny",
        "tiny.safetensors",
        "nino-emoji",
        "..",
        "../models",
        "none",
    ] {
        let said = run(&folder, &["rm", name, "--yes"]);
        assert!(
            said.code == 2 && said.err.contains("no download"),
            "{name}: {}",
            said.err
        );
    }
    // One name that is wrong leaves all as it is.
    assert_eq!(run(&folder, &["rm", "org/repo", "none", "--yes"]).code, 2);
    assert!(one.exists() && folder.path().join("models/vae/taesd.safetensors").exists());
    let said = run(&folder, &["rm", "org/repo/sub/b.gguf", "-y", "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    #[cfg(unix)]
    assert_eq!(said.json()["freed_bytes"], 4);
    assert!(one.exists() && !two.exists());
    let said = run(&folder, &["rm", "ORG/repo", "--yes"]);
    assert!(said.out.contains("removed org/repo"), "{}", said.out);
    assert!(!folder.path().join("hub/models--org--repo").exists());
    assert!(other.exists());
    assert!(
        folder
            .path()
            .join("models/checkpoints/tiny.safetensors")
            .exists()
    );
}
