//! `cargo xtask soak` and `cargo xtask kills`: promises of `docs/reliability.md` that only whole
//! runs of the program can show. Both take `--runs N`, `--seed S` and `--nino FILE`, and make the
//! same runs for the same seed.

mod files;
mod kills;
mod soak;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use kills::run as kills;
pub(crate) use soak::run as soak;

struct Options {
    runs: usize,
    seed: u64,
    nino: PathBuf,
}

impl Options {
    fn new(args: &[&str], runs: usize) -> Result<Options> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut options = Options {
            runs,
            seed: now.map_or(0, |t| t.as_secs()),
            nino: PathBuf::new(),
        };
        for pair in args.chunks(2) {
            match *pair {
                ["--runs", n] => options.runs = n.parse().with_context(|| format!("--runs {n}"))?,
                ["--seed", n] => options.seed = n.parse().with_context(|| format!("--seed {n}"))?,
                ["--nino", path] => options.nino = path.into(),
                _ => bail!(
                    "unknown flag {}: there are --runs, --seed and --nino",
                    pair[0]
                ),
            }
        }
        if options.nino.as_os_str().is_empty() {
            options.nino = build()?;
        }
        Ok(options)
    }
}

/// The release build of this tree: what a debug build takes of memory says nothing.
fn build() -> Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let root = crate::tree::root();
    let built = Command::new(cargo)
        .args(["build", "--release", "--locked", "-p", "nino-cli"])
        .current_dir(&root)
        .status()
        .context("cargo could not be started")?;
    if !built.success() {
        bail!("nino was not built");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release/nino"))
}

/// A folder of its own, which goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Result<Folder> {
        let path = std::env::temp_dir().join(format!("nino-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Folder(path))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `nino` as nobody's settings change it.
fn nino(options: &Options, folder: &Path, args: &[String]) -> Command {
    let mut command = Command::new(&options.nino);
    command.args(args).env_remove("NINO_CONFIG");
    command.env("XDG_CONFIG_HOME", folder);
    command.env("NINO_CACHE", folder.join("cache"));
    command
}

fn args(words: &[&str]) -> Vec<String> {
    words.iter().map(|&w| w.to_owned()).collect()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
