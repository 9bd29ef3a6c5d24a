//! Tells the binary which commit it was built from and for which system. Builds without git, or
//! from an archive, have no commit.

#![allow(clippy::print_stdout)] // how a build script talks to cargo

use std::env::var;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=NINO_BUILD_COMMIT");
    let given = var("NINO_BUILD_COMMIT").ok().filter(|c| !c.is_empty());
    let commit = given.or_else(commit);
    let commit = commit.map_or(String::new(), |commit| format!(" ({commit})"));
    println!("cargo::rustc-env=NINO_COMMIT={commit}");
    let backends = match var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("macos" | "ios") => "Metal",
        Ok("windows") => "Vulkan and Direct3D 12",
        _ => "Vulkan",
    };
    println!("cargo::rustc-env=NINO_BACKENDS={backends}");
    let target = var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=NINO_TARGET={target}");
}

/// `1b56605 2026-11-16`.
fn commit() -> Option<String> {
    let root = Path::new(&var("CARGO_MANIFEST_DIR").ok()?).join("../..");
    // Of the repository itself: an archive may have been unpacked inside another one.
    let git = root.join(".git");
    if !git.exists() {
        return None;
    }
    println!("cargo::rerun-if-changed={}", git.join("HEAD").display());
    // While working on nino, a commit alone is no reason to build again.
    let log = git.join("logs/HEAD");
    if var("PROFILE").as_deref() == Ok("release") && log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    let said = Command::new("git")
        .arg("-C")
        .arg(&root)
        .args(["log", "-1", "--format=%h %cs"])
        .output()
        .ok()?;
    let commit = String::from_utf8(said.stdout).ok()?.trim().to_owned();
    (said.status.success() && !commit.is_empty()).then_some(commit)
}
