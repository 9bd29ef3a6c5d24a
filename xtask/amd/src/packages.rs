//! Packages of Debian's, fetched with apt and unpacked into a folder: nothing is installed.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Fetches packages (`NAME` or `NAME=VERSION`) with every library that they need, the C library
/// too, from `sources` (lines of a sources file) into `root`, by way of a folder in `cache`. The
/// error is one sentence that says what is missing.
pub fn fetch(cache: &Path, root: &Path, sources: &str, packages: &[&str]) -> Result<()> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("it is only fetched on Linux on x86-64");
    }
    let partial = cache.join("fetching");
    // What an interrupted fetch left; it need not be there.
    let _ = std::fs::remove_dir_all(&partial);
    for folder in ["lists/partial", "archives/partial"] {
        std::fs::create_dir_all(partial.join(folder))?;
    }
    let partial = partial.canonicalize()?;
    std::fs::write(partial.join("sources.list"), sources)?;
    // Nothing is installed, as far as apt is told.
    std::fs::write(partial.join("status"), "")?;
    let at = |name: &str| partial.join(name).display().to_string();
    let options = [
        format!("Dir::Etc::sourcelist={}", at("sources.list")),
        "Dir::Etc::sourceparts=/dev/null".to_owned(),
        format!("Dir::State::lists={}", at("lists")),
        format!("Dir::State::status={}", at("status")),
        format!("Dir::Cache={}", partial.display()),
        "APT::Install-Recommends=false".to_owned(),
    ];
    let options: Vec<&str> = options.iter().flat_map(|o| ["-o", o.as_str()]).collect();
    let apt = |words: &[&str]| {
        let words = options.iter().chain(words);
        run(Command::new("apt-get").args(words).current_dir(&partial))
    };
    apt(&["-qq", "update"])?;
    apt(&[&["-qq", "-y", "--download-only", "install"], packages].concat())?;
    let unpacked = partial.join("root");
    for entry in std::fs::read_dir(partial.join("archives"))? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("deb")) {
            run(Command::new("dpkg").arg("-x").arg(&path).arg(&unpacked))?;
        }
    }
    std::fs::rename(unpacked, root)?;
    std::fs::remove_dir_all(&partial)?;
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output();
    let done = done.with_context(|| format!("{name} is not here to fetch it with"))?;
    if !done.status.success() {
        let told = String::from_utf8_lossy(&done.stderr);
        bail!("{name} could not fetch it: {}", told.trim());
    }
    Ok(())
}
