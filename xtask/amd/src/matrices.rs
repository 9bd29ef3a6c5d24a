//! Kernels on matrix units, run on Mesa's software GPU, which has such units since Mesa 26: they
//! run there as on no other machine without a card.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::mesa::{Driver, Mesa};

/// Tests of nino-gpu that run kernels on matrix units: as AMD's cards choose them, and as others.
const TESTS: [&str; 3] = ["amd::", "halves::", "suite::gpu_products"];

/// Runs the GPU's tests of products, convolutions and attention on a software GPU with matrix
/// units. The first error is that there is none; the second that a test failed.
pub fn check(cache: &Path, root: &Path) -> Result<Result<()>> {
    let mesa = Mesa::find_or_fetch(cache)?;
    let test = build(root)?;
    let status = mesa
        .command(&test, Driver::Lavapipe, None)
        .args(TESTS)
        .env("NINO_REQUIRE_GPU", "1")
        .current_dir(root.join("crates/nino-gpu"))
        .status()
        .context("its loader could not be started")?;
    Ok(if status.success() {
        Ok(())
    } else {
        Err(anyhow::anyhow!("a test failed on matrix units"))
    })
}

/// The integration tests of nino-gpu as a program, built as `cargo xtask ci` builds them.
fn build(root: &Path) -> Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let built = Command::new(cargo)
        .args(["test", "--workspace", "--test", "it", "--no-run"])
        .args(["--locked", "--message-format", "json"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()?;
    if !built.status.success() {
        bail!("nino-gpu's tests were not built");
    }
    let told = String::from_utf8_lossy(&built.stdout);
    program_in(&told).context("cargo named no program of nino-gpu's tests")
}

/// The program of nino-gpu's tests in cargo's messages.
fn program_in(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines();
    messages
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|m| {
            m["package_id"]
                .as_str()
                .is_some_and(|id| id.contains("/nino-gpu#"))
        })
        .find_map(|m| Some(PathBuf::from(m["executable"].as_str()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_other_messages() {
        let message = |of: &str, program: &str| {
            format!(
                "{{\"package_id\":\"path+file:///n/crates/{of}#0.1.0\",\"executable\":{program}}}\n"
            )
        };
        let messages = message("nino-cpu", "\"/there/it-0\"")
            + &message("nino-gpu", "null")
            + "{\"reason\":\"build-script-executed\"}\nwarning: no message at all\n"
            + &message("nino-gpu", "\"/there/it-1\"");
        assert_eq!(program_in(&messages), Some(PathBuf::from("/there/it-1")));
        assert_eq!(program_in("warning: no message at all"), None);
    }
}
