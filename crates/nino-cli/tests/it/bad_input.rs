//! Wrong usage is exit code 2 and one sentence that names the mistake; help is exit code 0.

use crate::shell::{nino, nino_with};

#[test]
fn wrong_usage_is_named() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["frobnicate"], &["unrecognized subcommand 'frobnicate'"]),
        (&["doctr"], &["'doctor'"]),
        (
            &["doctor", "--gpu-tier", "f64"],
            &["'f64'", "f32, f16, subgroup, coop"],
        ),
        (
            &["doctor", "--device", "tpu"],
            &["'tpu'", "auto, cpu, gpu or gpu:N"],
        ),
        (&["doctor", "--device", "gpu:x"], &["'gpu:x'", "gpu:0"]),
        (&["doctor", "--budget", "lots"], &["'lots'", "3.5GiB"]),
        (&["doctor", "--budget", "4"], &["unit is missing", "4GiB"]),
        (&["doctor", "--budget", "0GiB"], &["more than zero"]),
        (&["doctor", "--budget", "-1GiB"], &["-1"]),
        (
            &["doctor", "--budget", "9999999TiB"],
            &["more than any machine has"],
        ),
        (&["serve", "--token", " "], &["the token is empty"]),
        (&["doctor", "--threads", "0"], &["'0'", "from 1 to 1024"]),
        (&["doctor", "--filter", "conv"], &["--verify"]),
        (
            &["plan", "decode", "--size", "8x8"],
            &["--vae FILE or --spec NAME"],
        ),
        (
            &[
                "plan", "decode", "--spec", "taesd", "--size", "8x8", "--frames", "0",
            ],
            &["at least 1"],
        ),
        (
            &[
                "plan",
                "decode",
                "--spec",
                "taesd",
                "--size",
                "8x8",
                "--tile-size",
                "512",
            ],
            &["--tile fast"],
        ),
        (
            &["decode", "a", "--vae", "b", "-o", "c.mp4", "--fps", "nan"],
            &["'nan'", "from 0.1 to 600"],
        ),
        (&["bench"], &["Usage: nino bench"]),
        (&["bench", "ops", "--runs", "1"], &["from 5 to 10000"]),
        (
            &["bench", "ops", "--filter", "warp drive"],
            &["warp drive", "attention"],
        ),
        (
            &["bench", "ops", "--device", "cpu", "--gpu-tier", "f16"],
            &["--gpu-tier", "CPU"],
        ),
    ];
    for (args, wanted) in cases {
        let said = nino(args);
        assert_eq!(said.code, 2, "{args:?}: {}{}", said.out, said.err);
        assert_eq!(said.out, "", "{args:?}: nothing on standard output");
        for part in *wanted {
            assert!(
                said.err.contains(part),
                "{args:?}: {part:?} is missing from:\n{}",
                said.err
            );
        }
    }
}

#[test]
fn variables_are_checked_like_flags() {
    let cases = [
        ("NINO_DEVICE", "tpu"),
        ("NINO_GPU_TIER", "f64"),
        ("NINO_BUDGET", "4"),
        ("NINO_THREADS", "0"),
        ("NINO_LOG", "nino=very_loud"),
    ];
    for (name, value) in cases {
        // Not doctor, which starts whatever is set.
        let args = ["plan", "decode", "--spec", "taesd", "--size", "64x64"];
        let said = nino_with(&args, &[(name, value)]);
        assert_eq!(said.code, 2, "{name}: {}", said.err);
        assert!(
            said.err.contains(name) && said.err.contains(value),
            "{name}: {}",
            said.err
        );
        let lines = said.err.lines().count();
        assert_eq!(lines, 1, "{name}: one sentence:\n{}", said.err);
    }
}

#[test]
fn json_failures_are_json() {
    let said = nino(&["bench", "ops", "--json", "--filter", "warp drive"]);
    assert_eq!(said.code, 2);
    let text = said.json()["error"].as_str().unwrap().to_owned();
    assert!(text.contains("warp drive"), "{text}");
    assert_eq!(said.json()["kind"], "usage");
    let said = nino(&["bench", "ops", "--json", "--runs", "1"]);
    assert_eq!(said.code, 2);
    let text = said.json()["error"].as_str().unwrap().to_owned();
    assert!(text.starts_with("invalid value '1' for '--runs"), "{text}");
}

#[test]
fn help_reads_well() {
    let said = nino(&["--help"]);
    assert_eq!(said.code, 0, "{}", said.err);
    for part in ["doctor", "bench", "Examples:", "Exit codes:"] {
        assert!(
            said.out.contains(part),
            "{part:?} is missing from:\n{}",
            said.out
        );
    }
    for verb in [&["doctor"][..], &["bench", "ops"]] {
        let said = nino(&[verb, &["--help"]].concat());
        assert_eq!(said.code, 0);
        for part in [
            "Examples:",
            "--json",
            "--device",
            "--gpu-tier",
            "--budget",
            "--threads",
        ] {
            assert!(
                said.out.contains(part),
                "{verb:?}: {part:?} is missing from:\n{}",
                said.out
            );
        }
    }
    let version = format!("nino {}", env!("CARGO_PKG_VERSION"));
    let short = nino(&["-V"]).out;
    assert!(
        short.starts_with(&version) && short.lines().count() == 1,
        "{short}"
    );
    let long = nino(&["--version"]).out;
    for part in [&version, "devices: cpu, gpu by", "built for:"] {
        assert!(long.contains(part), "{part:?} is missing from:\n{long}");
    }
}

/// A pipe that nobody writes to, and a device without an end, given as the config file.
#[cfg(target_os = "linux")]
#[test]
fn a_config_file_that_is_no_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe.toml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: mkfifo is not there");
        return;
    }
    for config in [pipe.as_path(), std::path::Path::new("/dev/zero")] {
        let said = std::process::Command::new(env!("CARGO_BIN_EXE_nino"))
            .args(["plan", "decode", "--spec", "taesd", "--size", "64x64"])
            .env("NINO_CONFIG", config)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(2), "{text}");
        assert!(text.contains("config file"), "{text}");
    }
}
