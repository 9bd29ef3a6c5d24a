//! `cargo xtask wheel` and `cargo xtask python`: the Python package built, and tested.
//!
//! Neither is needed to build or test anything else. Tests are run on the plain library, put where
//! Python looks for it, so they need no maturin.

use crate::tree;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Pythons that are looked at for numpy, in this order: packages of the system's are not those of
/// one that somebody put before it.
const PYTHONS: [&str; 2] = ["python3", "/usr/bin/python3"];

/// Builds a wheel into `target/wheels`; further arguments go to maturin.
pub(crate) fn wheel(args: &[&str]) -> Result<()> {
    let maturin = ["maturin", "python3 -m maturin", "python -m maturin"]
        .into_iter()
        .map(|command| command.split(' ').collect::<Vec<_>>())
        .find(|words| answers(words, "--version"));
    let Some(maturin) = maturin else {
        bail!("maturin was not found: `pip install maturin`, then run this again");
    };
    let out = tree::root().join("target/wheels");
    let status = Command::new(maturin[0])
        .args(&maturin[1..])
        .args(["build", "--release", "--locked", "--out"])
        .arg(&out)
        .args(args)
        .current_dir(tree::root().join("python"))
        .status()?;
    if !status.success() {
        bail!("maturin failed");
    }
    println!("the wheel is in {}", out.display());
    Ok(())
}

/// Builds the module and runs python/tests. `--if-there` says so and is content where there is no
/// Python with numpy.
pub(crate) fn tests(args: &[&str]) -> Result<()> {
    let (pythons, if_there) = match args {
        [] => (&PYTHONS[..], false),
        ["--if-there"] => (&PYTHONS[..], true),
        ["--python", python] => (&[*python][..], false),
        _ => bail!("usage: cargo xtask python [--if-there | --python PYTHON]"),
    };
    let has_numpy = |python: &&&str| answers(&[python, "-c", "import numpy"], "");
    let Some(python) = pythons.iter().find(has_numpy) else {
        let named = pythons.join(" or ");
        if if_there {
            println!("the Python package was not tested: there is no {named} with numpy");
            return Ok(());
        }
        bail!("{named} has no numpy: `pip install numpy`, then run this again");
    };
    let folder = build()?;
    let status = Command::new(python)
        .args(["-m", "unittest", "discover", "-s"])
        .arg(tree::root().join("python/tests"))
        .env("PYTHONPATH", &folder)
        .status()?;
    if !status.success() {
        bail!("the Python package's tests failed");
    }
    Ok(())
}

/// The package with its module, in a folder for Python to look in.
fn build() -> Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let built = Command::new(cargo)
        .args([
            "build",
            "--workspace",
            "--lib",
            "--locked",
            "--message-format",
            "json",
        ])
        .current_dir(tree::root())
        .stderr(Stdio::inherit())
        .output()?;
    if !built.status.success() {
        bail!("the module was not built");
    }
    let told = String::from_utf8_lossy(&built.stdout);
    let library = library_in(&told).context("cargo named no library of nino-python")?;
    let folder = library
        .parent()
        .context("the library lies in no folder")?
        .join("python");
    let package = folder.join("ninodes");
    copy(&tree::root().join("python/ninodes"), &package)?;
    let name = if cfg!(windows) {
        "_native.pyd"
    } else {
        "_native.abi3.so"
    };
    std::fs::copy(&library, package.join(name)).with_context(|| library.display().to_string())?;
    Ok(folder)
}

/// The path of the extension module in cargo's messages.
fn library_in(messages: &str) -> Option<PathBuf> {
    let of_module = |line: &&str| line.contains("nino-python") && line.contains("_native");
    let endings = [".so", ".dylib", ".dll"];
    let mut paths = messages
        .lines()
        .filter(of_module)
        .flat_map(|line| line.split('"'))
        .filter(|word| endings.iter().any(|ending| word.ends_with(ending)));
    paths
        .next()
        .map(|path| PathBuf::from(path.replace("\\\\", "\\")))
}

/// Copies the Python files of a folder and of those below it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().context("a file has a name")?);
        let is_python = path.extension().is_some_and(|e| e == "py" || e == "pyi");
        if path.is_dir() && !path.ends_with("__pycache__") {
            copy(&path, &target)?;
        } else if is_python {
            std::fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// Whether a command can be run and ends well.
fn answers(words: &[&str], last: &str) -> bool {
    Command::new(words[0])
        .args(&words[1..])
        .args(Some(last).filter(|last| !last.is_empty()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
