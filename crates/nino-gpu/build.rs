//! Lists the files under `shaders/`, so that a shader becomes part of the program by being there.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

#[allow(clippy::print_stdout)] // how a build script talks to cargo
fn main() -> io::Result<()> {
    let shaders = folder("CARGO_MANIFEST_DIR")?.join("shaders");
    println!("cargo::rerun-if-changed={}", shaders.display());
    let entries = fs::read_dir(&shaders)?.collect::<io::Result<Vec<_>>>()?;
    let mut files: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "wgsl"));
    // In the same order on every machine.
    files.sort();
    fs::write(folder("OUT_DIR")?.join("shaders.rs"), list(&files))
}

/// The expression `&[(name, text of the file), …]`.
fn list(files: &[PathBuf]) -> String {
    let mut text = "&[\n".to_owned();
    for path in files {
        let name = path.file_stem().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "({name:?}, include_str!({path:?})),");
    }
    text + "]\n"
}

/// A folder that cargo names in the environment of build scripts.
fn folder(variable: &str) -> io::Result<PathBuf> {
    let missing = || io::Error::other(format!("cargo did not set {variable}"));
    env::var_os(variable).map(PathBuf::from).ok_or_else(missing)
}
