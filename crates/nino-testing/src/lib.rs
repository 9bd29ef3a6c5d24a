//! What tests need from outside the repository: a GPU, and files of real models.
//!
//! Where something is absent, the test prints a line that begins with `skipped:` and passes. With
//! `NINO_REQUIRE_GPU=1`, which `.ci/run` sets, a test without a GPU fails instead.

#![allow(clippy::print_stdout)] // why a test did nothing

use std::env;
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// Prints that a GPU test is skipped when `absent` says why there is no adapter. Every GPU test
/// calls this with `Adapters::reason` before it opens anything.
///
/// # Panics
/// If there is no adapter and `NINO_REQUIRE_GPU` is 1.
pub fn gpu_or_skip(absent: Option<&str>) {
    let Some(reason) = absent else { return };
    let required = env::var("NINO_REQUIRE_GPU").is_ok_and(|v| v == "1");
    assert!(
        !required,
        "NINO_REQUIRE_GPU is 1, but there is no GPU adapter ({reason})"
    );
    println!("skipped: no GPU adapter ({reason})");
}

/// Finds a file of real data, such as `taesd/taesd_decoder.safetensors`, or prints that the test is
/// skipped.
///
/// Each folder of `$NINO_MODELS` is searched for the whole path, then for the file's name alone in
/// the folder itself and in the folders directly below it (`vae_approx/taesd_decoder.safetensors`).
/// `../shared/data` beside the checkout comes last and must have the whole path.
pub fn data_or_skip(path: &str) -> Option<PathBuf> {
    let models = env::var_os("NINO_MODELS").unwrap_or_default();
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let mut folders = env::split_paths(&models).filter(|folder| !folder.as_os_str().is_empty());
    let found = folders
        .find_map(|folder| find_in(&folder, path))
        .or_else(|| Some(shared.join(path)).filter(|file| file.is_file()));
    if found.is_none() {
        println!("skipped: no {path} in $NINO_MODELS or ../shared/data");
    }
    found
}

fn find_in(folder: &Path, path: &str) -> Option<PathBuf> {
    let name = Path::new(path).file_name()?;
    let below = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut below: Vec<PathBuf> = below.map(|entry| entry.path().join(name)).collect();
    below.sort();
    let places = [folder.join(path), folder.join(name)];
    places.into_iter().chain(below).find(|file| file.is_file())
}
