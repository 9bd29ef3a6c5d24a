//! Lists the files under `shaders/`, so that a shader becomes part of the program by being there.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

#[allow(clippy::print_stdout)] // how a build script talks to cargo
fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=shaders");
    let mut names = Vec::new();
    for entry in fs::read_dir(folder("CARGO_MANIFEST_DIR")?.join("shaders"))? {
        let file = entry?.file_name();
        let name = file.to_str().and_then(|file| file.strip_suffix(".wgsl"));
        names.extend(name.map(str::to_owned));
    }
    // In the same order on every machine.
    names.sort();
    fs::write(folder("OUT_DIR")?.join("shaders.rs"), list(&names))
}

/// The expression `&[(name, text of the file), …]`.
fn list(names: &[String]) -> String {
    let mut text = "&[\n".to_owned();
    for name in names {
        let path = format!("concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/shaders/{name}.wgsl\")");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "(\"{name}\", include_str!({path})),");
    }
    text + "]\n"
}

/// A folder that cargo names in the environment of build scripts.
fn folder(variable: &str) -> io::Result<PathBuf> {
    let missing = || io::Error::other(format!("cargo did not set {variable}"));
    env::var_os(variable).map(PathBuf::from).ok_or_else(missing)
}
