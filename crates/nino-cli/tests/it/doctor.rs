//! `nino doctor` on whatever machine runs the tests.

use crate::shell::{command, nino, nino_with};
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
