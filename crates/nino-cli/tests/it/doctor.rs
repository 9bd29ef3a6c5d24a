//! `nino doctor` on whatever machine runs the tests.

use crate::shell::{Folder, command, nino, nino_with};
use std::io::Read;
use std::process::Stdio;

#[test]
fn says_what_is_here() {
    let said = nino(&["doctor"]);
    assert_eq!(said.code, 0, "{}", said.err);
    for part in [
        "cpu  ",
        "cores",
        "features",
        "precision",
        "memory",
        "budget",
        "environment",
        "findings",
    ] {
        assert!(
            said.out.contains(part),
            "{part:?} is missing from:\n{}",
            said.out
        );
    }
}

#[test]
fn json_has_the_same_facts() {
    let json = nino(&["doctor", "--json"]).json();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert!(json["cpu"]["threads"].as_u64().unwrap() >= 1);
    assert!(json["findings"].is_array());
    let adapters = json["adapters"].as_array().unwrap();
    assert_eq!(adapters.is_empty(), json["no_adapter"].is_string());
    for adapter in adapters {
        assert!(
            adapter["tiers"]
                .as_array()
                .unwrap()
                .iter()
                .any(|t| t == "f32"),
            "{adapter}"
        );
        assert!(adapter["max_binding"].as_u64().unwrap() > 0);
    }
    if cfg!(target_os = "linux") {
        assert!(json["memory"]["budget"]["bytes"].as_u64().unwrap() > 0);
    }
}

#[test]
fn a_cap_shows_in_the_budget() {
    let json = nino(&["doctor", "--json", "--budget", "64MiB"]).json();
    assert_eq!(json["memory"]["budget"]["bytes"], 64 << 20);
    let json = nino_with(&["doctor", "--json"], &[("NINO_BUDGET", "32MiB")]).json();
    assert_eq!(json["memory"]["budget"]["bytes"], 32 << 20);
}

#[test]
fn variables_are_listed_and_slips_found() {
    let env = [
        ("NINO_BUGDET", "4GiB"),
        ("RADV_DEBUG", "nodcc"),
        ("HF_TOKEN", "hf_secret"),
    ];
    let said = nino_with(&["doctor", "--json"], &env);
    assert!(!said.out.contains("hf_secret"));
    let json = said.json();
    let ids: Vec<&str> = json["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["id"].as_str().unwrap())
        .collect();
    assert!(
        ids.contains(&"unknown-variable") && ids.contains(&"radv-debug"),
        "{ids:?}"
    );
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child = command(&["doctor"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{err}");
    assert_eq!(err, "");
}

#[test]
fn verify_says_pass_and_by_how_much() {
    let said = nino(&[
        "doctor", "--verify", "--filter", "softmax", "--device", "cpu",
    ]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    for part in ["verify cpu", "ok    softmax", "pass: "] {
        assert!(
            said.out.contains(part),
            "{part:?} is missing from:\n{}",
            said.out
        );
    }
    let json = nino(&[
        "doctor", "--verify", "--filter", "softmax", "--device", "cpu", "--json",
    ])
    .json();
    let verdict = &json["verify"][0];
    assert_eq!(
        (&verdict["device"], &verdict["ok"]),
        (&"cpu".into(), &true.into())
    );
    assert!(verdict["problems"][0]["passed"].as_u64().unwrap() > 0);
}

#[test]
fn gpu_verify_runs_each_tier_of_the_first_adapter() {
    let said = nino(&[
        "doctor", "--verify", "--filter", "softmax", "--device", "gpu:0", "--json",
    ]);
    let json = said.json();
    if json["error"].is_string() {
        assert_eq!(said.code, 1);
        assert!(said.err.contains("GPU"), "{}", said.err);
        nino_testing::gpu_or_skip(Some(said.err.trim()));
        return;
    }
    assert_eq!(said.code, 0, "{}", said.out);
    let tiers = &json["adapters"][0]["tiers"];
    let tried: Vec<&str> = json["verify"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["tier"].as_str().unwrap())
        .collect();
    assert_eq!(serde_json::json!(tried), *tiers);
}

#[test]
fn a_broken_config_is_a_finding_and_no_refusal() {
    let dir = Folder::new();
    let config = dir.at("config.toml");
    for (text, part) in [
        ("budget = ", "is not TOML"),
        ("bugdet = \"4GiB\"", "no setting is called \"bugdet\""),
        ("budget = \"lots\"", "budget in "),
    ] {
        std::fs::write(&config, text).unwrap();
        let env = [("NINO_CONFIG", config.as_str())];
        let said = nino_with(&["doctor"], &env);
        assert_eq!(said.code, 0, "{text}: {}", said.err);
        assert!(
            said.out.contains(part),
            "{part:?} is missing from:\n{}",
            said.out
        );
        assert!(
            said.out.contains("problem: a setting is invalid"),
            "{}",
            said.out
        );
        let json = nino_with(&["doctor", "--json"], &env).json();
        assert_eq!(json["findings"][0]["id"], "broken-settings");
        // Every other verb refuses it with the same words.
        let said = nino_with(&["generate", "a cat", "--device", "cpu"], &env);
        assert_eq!(said.code, 2, "{text}: {}", said.err);
        assert!(said.err.contains(part), "{}", said.err);
    }
    let said = nino_with(&["doctor"], &[("NINO_THREADS", "many")]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.out.contains("the variable NINO_THREADS is"),
        "{}",
        said.out
    );
}

#[test]
fn a_folder_of_models_that_is_not_there_is_told() {
    let said = nino_with(&["doctor", "--json"], &[("NINO_MODELS", "/nope/models")]);
    let json = said.json();
    let findings = json["findings"].as_array().unwrap();
    let finding = findings.iter().find(|f| f["id"] == "models-folder-missing");
    let evidence = finding.unwrap_or_else(|| panic!("{json:#}"))["evidence"].as_str();
    assert!(evidence.unwrap().contains("/nope/models"));
    let dir = Folder::new();
    let json = nino_with(&["doctor", "--json"], &[("NINO_MODELS", &dir.at(""))]).json();
    assert_eq!(json["config"]["missing_folders"], serde_json::json!([]));
}

#[test]
fn verify_explains_the_classes_it_names() {
    let said = nino(&[
        "doctor", "--verify", "--filter", "softmax", "--device", "cpu",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.out
            .contains("worst error by class, as normalized mean squared error"),
        "{}",
        said.out
    );
    let is_explained = |l: &str| l.trim_start().starts_with("Close ") && l.contains(", limit ");
    assert!(said.out.lines().any(is_explained), "{}", said.out);
}

/// `-v` is for users: what was decided. `-vv` is every op with its shape and time.
#[test]
fn verbose_tells_decisions_and_very_verbose_every_op() {
    let dir = Folder::new();
    let out = dir.at("a.png");
    let args = [
        "generate", "a cat", "--size", "64x64", "--steps", "2", "--device", "cpu", "-o", &out,
    ];
    let quiet = nino(&args);
    assert!(!quiet.err.contains("device cpu"), "{}", quiet.err);
    let said = nino(&[&args[..], &["-v"]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    for part in [
        "device cpu (",
        "as much as is free",
        "text: ",
        "sample: ",
        "decode: ",
        "of activations (untiled)",
    ] {
        assert!(
            said.err.contains(part),
            "{part:?} is missing from:\n{}",
            said.err
        );
    }
    let once = said.err.matches("sample: ").count();
    assert_eq!(once, 1, "planning ahead tells nothing:\n{}", said.err);
    for noise in ["nino_cpu", "session", " ms\n"] {
        assert!(!said.err.contains(noise), "{noise:?} is in:\n{}", said.err);
    }
    let said = nino(&[&args[..], &["-vv"]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let is_op = |l: &&str| l.contains("conv") && l.contains('[') && l.ends_with(" ms");
    let ops = said.err.lines().filter(is_op).count();
    assert!(ops > 20, "{ops} lines of convolutions in:\n{}", said.err);
    assert!(said.err.contains("run 2 of these ops: "), "{}", said.err);
}
