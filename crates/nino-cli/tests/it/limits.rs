//! Limits of the system: too little memory and too few threads are ordinary errors.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // clippy knows test functions, not their helpers

use crate::shell::{Folder, command};
use nino_engine::{Latent, LatentSize};
use nino_testing::data_or_skip;
use std::path::Path;
use std::process::{Command, Output};

fn golden(name: &str) -> String {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens");
    goldens.join(name).to_str().unwrap().to_owned()
}

/// Runs `nino` after `before`, in a shell.
fn under(before: &str, args: &[&str]) -> Output {
    let nino = command(args);
    let program = nino.get_program().to_string_lossy().into_owned();
    let script = format!("{before} '{program}' '{}'", args.join("' '"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env_remove("RUST_BACKTRACE");
    for (name, value) in nino.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.output().unwrap()
}

/// Some of these were SIGABRT, because a `Vec` that gets no memory aborts.
#[test]
fn memory_that_runs_out_is_an_error() {
    let folder = Folder::new();
    let (png, gguf) = (folder.at("out.png"), folder.at("out.gguf"));
    let (latent, again) = (folder.at("in.latent"), folder.at("again.latent"));
    let weights = golden("weights/all.gguf");
    let vae = golden("models/taesd.safetensors");
    let values = Latent::empty(1, 4, LatentSize::picture(32, 32));
    let named = std::collections::BTreeMap::new();
    values.save(Path::new(&latent), &named).unwrap();
    let verbs: [&[&str]; 7] = [
        &[
            "generate", "a fox", "--size", "64x64", "--steps", "1", "-o", &png, "--device", "cpu",
        ],
        &[
            "decode", &latent, "--vae", &vae, "-o", &png, "--device", "cpu",
        ],
        &[
            "encode", &png, "--vae", &vae, "-o", &again, "--device", "cpu",
        ],
        &["inspect", &weights, "--json"],
        &["convert", &weights, &gguf, "--type", "f16", "--force"],
        &[
            "plan", "generate", "--spec", "sd15", "--size", "512x512", "--device", "cpu",
        ],
        &[
            "plan", "decode", "--spec", "sd-vae", "--size", "512x512", "--device", "cpu",
        ],
    ];
    for mib in [64, 96, 128, 192, 256] {
        let limit = format!("ulimit -v {}; exec", mib << 10);
        // A debug build alone may be larger: then the system cannot start it.
        if under(&limit, &["--version"]).status.code().is_none() {
            println!("skipped: {mib} MiB are too little to load the program");
            continue;
        }
        for args in verbs {
            let said = under(&limit, args);
            let err = String::from_utf8_lossy(&said.stderr);
            let told = || format!("{mib} MiB, {args:?}: {:?}: {err}", said.status);
            assert!(matches!(said.status.code(), Some(0 | 1)), "{}", told());
            if said.status.code() == Some(1) {
                let errors = err.lines().filter(|l| l.starts_with("error: ")).count();
                assert_eq!(errors, 1, "{}", told());
                assert!(!err.contains("bug"), "{}", told());
            }
        }
    }
    let left = std::fs::read_dir(folder.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|e| e.file_name()).collect();
    let known = ["out.png", "out.gguf", "in.latent", "again.latent"];
    assert!(
        left.iter().all(|n| known.iter().any(|known| n == known)),
        "{left:?}"
    );
}

/// A stack of 64 KiB ended with a signal.
#[test]
fn a_small_stack_is_enough() {
    let folder = Folder::new();
    let (png, vae) = (folder.at("out.png"), golden("models/taesd.safetensors"));
    let small = ["--size", "64x64", "--steps", "1", "--device", "cpu"];
    let verbs: [&[&str]; 4] = [
        &["--version"],
        &["inspect", &vae],
        &[
            "plan", "decode", "--vae", &vae, "--size", "64x64", "--device", "cpu",
        ],
        &[&["generate", "a fox", "-o", &png], &small[..]].concat(),
    ];
    for args in verbs {
        let said = under("ulimit -s 64; exec", args);
        let err = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(0), "{args:?}: {err}");
    }
}

/// Without another thread these said "this is a bug in nino".
#[test]
fn a_system_without_threads_gets_pictures_more_slowly() {
    let folder = Folder::new();
    // The limit counts all processes of a user, and does not hold for root: so a user that has
    // none, where we may become one.
    let setpriv = "setpriv --reuid=64123 --regid=64123 --clear-groups";
    let become_user = format!("{setpriv} true 2> /dev/null");
    let may = Command::new("sh")
        .args(["-c", &become_user])
        .status()
        .unwrap();
    if !may.success() {
        println!("skipped: this user cannot become another one without processes");
        return;
    }
    let path = folder.path().to_str().unwrap();
    let opened = Command::new("chmod").args(["777", path]).status().unwrap();
    assert!(opened.success());
    let nino = folder.at("nino");
    std::fs::copy(env!("CARGO_BIN_EXE_nino"), &nino).unwrap();
    let weights = folder.at("all.gguf");
    std::fs::copy(golden("weights/all.gguf"), &weights).unwrap();
    Command::new("chmod")
        .args(["755", &nino, &weights])
        .status()
        .unwrap();
    let (png, gguf) = (folder.at("out.png"), folder.at("out.gguf"));
    for args in [
        format!("generate fox --size 64x64 --steps 1 -o {png} --device cpu"),
        format!("convert {weights} {gguf} --type f16"),
        format!("inspect {weights}"),
    ] {
        let script = format!("ulimit -u 1; exec {nino} {args}");
        let mut shell = Command::new("setpriv");
        shell.args(["--reuid=64123", "--regid=64123", "--clear-groups"]);
        shell.args(["sh", "-c", &script]);
        shell
            .env("HOME", path)
            .env("NINO_CACHE", path)
            .env("TMPDIR", path);
        let said = shell.output().unwrap();
        let err = String::from_utf8_lossy(&said.stderr);
        assert!(
            matches!(said.status.code(), Some(0 | 1)),
            "{args}: {:?}: {err}",
            said.status
        );
        assert!(!err.contains("bug"), "{args}: {err}");
    }
    assert!(Path::new(&png).exists());
}

/// A file of 200 bytes and a hole of 64 GiB was read, and the process aborted.
#[test]
fn a_latent_beyond_all_measure_is_refused_before_memory_is_asked_for() {
    let folder = Folder::new();
    let latent = folder.at("huge.latent");
    let header =
        r#"{"samples":{"dtype":"F32","shape":[1,4,65536,65536],"data_offsets":[0,68719476736]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    std::fs::write(&latent, &bytes).unwrap();
    let file = std::fs::File::options().write(true).open(&latent).unwrap();
    file.set_len(bytes.len() as u64 + (64 << 30)).unwrap();
    let (vae, png) = (golden("models/taesd.safetensors"), folder.at("out.png"));
    for args in [
        &[
            "decode", &latent, "--vae", &vae, "-o", &png, "--device", "cpu",
        ][..],
        &[
            "generate", "a fox", "--latent", &latent, "-o", &png, "--device", "cpu",
        ],
    ] {
        let said = under("ulimit -v 4194304; exec", args);
        let err = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(1), "{args:?}: {err}");
        assert!(err.contains("17179869184 values"), "{args:?}: {err}");
    }
}

/// Files of an attack on an earlier version, where they are at hand: some took gigabytes, some
/// never ended. Every verb that reads them answers within 1 GiB of address space.
#[test]
fn files_of_an_attack_are_answered_in_little_memory() {
    let Some(first) = data_or_skip("hostile/huge.png") else {
        return;
    };
    let folder = Folder::new();
    let (latent, out) = (folder.at("out.latent"), folder.at("out.png"));
    let (still, clip) = (
        golden("models/taesd.safetensors"),
        golden("models/wan21.safetensors"),
    );
    let mut tried = 0;
    for entry in std::fs::read_dir(first.parent().unwrap()).unwrap() {
        let file = entry.unwrap().path().to_string_lossy().into_owned();
        let lines: [&[&str]; 5] = [
            &["inspect", &file],
            &[
                "encode", &file, "--vae", &still, "-o", &latent, "--device", "cpu",
            ],
            &[
                "encode", &file, "--vae", &clip, "-o", &latent, "--device", "cpu",
            ],
            &["generate", "--from", &file, "-o", &out, "--device", "cpu"],
            &[
                "generate", "a fox", "--image", &file, "-o", &out, "--device", "cpu",
            ],
        ];
        for args in lines {
            let said = under("ulimit -v 1048576; exec timeout 60", args);
            let err = String::from_utf8_lossy(&said.stderr);
            let told = || format!("{args:?}: {:?}: {err}", said.status);
            assert!(matches!(said.status.code(), Some(0 | 1)), "{}", told());
            assert!(!err.contains("of memory"), "{}", told());
            tried += 1;
        }
    }
    assert!(tried >= 40, "{tried}");
}
