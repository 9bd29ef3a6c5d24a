//! `nino inspect` and `nino convert` on small real files.

#![allow(clippy::unwrap_used)] // clippy knows test functions, not their helpers

use crate::shell::nino;
use std::path::PathBuf;

fn golden(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../goldens/weights")
        .join(name);
    path.to_str().unwrap().to_owned()
}

#[test]
fn inspect_shows_encodings_metadata_and_tensors() {
    let said = nino(&[
        "inspect",
        &golden("all.gguf"),
        "--tensors",
        "--filter",
        "q4_k",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    for part in ["GGUF", "iq4_xs", "t.str = grüße", "2 x 256"] {
        assert!(
            said.out.contains(part),
            "{part:?} is missing from:\n{}",
            said.out
        );
    }
    let said = nino(&["inspect", &golden("all.gguf"), "--json"]);
    let json = said.json();
    assert_eq!(json["n_tensors"], 16);
    assert_eq!(json["metadata"]["t.u64"], "4");
}

#[test]
fn inspect_tells_what_is_wrong_with_a_file() {
    for (file, wanted) in [
        ("evil.pt", "posix.system"),
        ("deflated.pt", "compressed"),
        ("make.py", "neither safetensors, GGUF nor PyTorch"),
        ("absent.safetensors", "cannot open"),
    ] {
        let said = nino(&["inspect", &golden(file)]);
        assert_eq!(said.code, 1, "{file}");
        assert!(
            said.err.contains(wanted) && said.err.contains(file),
            "{file}: {}",
            said.err
        );
        assert_eq!(said.err.lines().count(), 1, "{file}: {}", said.err);
    }
}

#[test]
fn convert_reports_sizes_and_errors() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.gguf");
    let out = out.to_str().unwrap();
    let said = nino(&[
        "convert",
        &golden("all.gguf"),
        out,
        "--type",
        "q8_0",
        "--json",
        "--keep",
        "f32,conv=f16",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    let json = said.json();
    assert_eq!(json["encodings"][0]["dtype"], "q8_0");
    let error = json["encodings"][0]["relative_rmse"].as_f64().unwrap();
    assert!(error > 0.0 && error < 0.01, "{error}");
    assert!(json["encodings"][0]["worst"]["tensor"].is_string());
    let json = nino(&["inspect", out, "--tensors", "--filter", "conv", "--json"]).json();
    assert_eq!(json["tensors"][0]["encoding"], "f16");
    assert_eq!(json["tensors"][0]["shape"], serde_json::json!([4, 8, 3, 3]));
}

#[test]
fn convert_refuses_what_it_cannot_mean() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let input = golden("all.gguf");
    let cases: &[(&[&str], &str)] = &[
        (
            &["convert", &input, &path("x.bin"), "--type", "f16"],
            ".safetensors or .gguf",
        ),
        (
            &["convert", &input, &path("x.gguf"), "--type", "fp8_e4m3"],
            "GGUF files cannot hold fp8_e4m3",
        ),
        (
            &["convert", &input, &path("x.gguf"), "--type", "iq4_nl"],
            "cannot be written",
        ),
        (
            &["convert", &input, &path("x.gguf"), "--type", "q9_9"],
            "q9_9",
        ),
        (
            &[
                "convert",
                &input,
                &path("x.gguf"),
                "--type",
                "f16",
                "--keep",
                "norm",
            ],
            "norm",
        ),
        (&["convert", &input, &path("x.gguf")], "--type"),
    ];
    for (args, wanted) in cases {
        let said = nino(args);
        assert_eq!(said.code, 2, "{args:?}: {}", said.err);
        assert!(said.err.contains(wanted), "{args:?}: {}", said.err);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
