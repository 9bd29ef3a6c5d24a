//! Nothing is lost by an output: a file that the run reads, or a model, is written over only with
//! `--force`.

use crate::failure::{Usage, UsageWithHint};
use nino_engine::{EngineError, Latent};
use std::path::{Path, PathBuf};

/// Extensions of model files.
const MODELS: [&str; 7] = ["safetensors", "sft", "gguf", "ckpt", "pt", "pth", "bin"];

/// What outputs must not be.
pub(crate) struct Guard {
    /// Files that the run reads, with what each is.
    pub(crate) inputs: Vec<(&'static str, PathBuf)>,
    pub(crate) force: bool,
}

impl Guard {
    /// An error where `output` is an input, or a model that is there.
    pub(crate) fn check(&self, output: &Path) -> Result<(), UsageWithHint> {
        if self.force || !output.exists() {
            return Ok(());
        }
        let same = self.inputs.iter().find(|(_, path)| is_same(path, output));
        let what = match same {
            Some((what, _)) => format!("is {what} of this run"),
            None if is_model(output) => "is a model".to_owned(),
            None => return Ok(()),
        };
        Err(UsageWithHint {
            sentence: format!("{} {what}, and would be overwritten", output.display()),
            hint: "name another file, or give --force to overwrite it".to_owned(),
        })
    }
}

/// An error unless a latent can have this name.
pub(crate) fn latent_name(output: &Path) -> Result<(), Usage> {
    let found = extension(output);
    if matches!(found.as_str(), "latent" | "safetensors") {
        return Ok(());
    }
    Err(Usage(format!(
        "{}: a latent is written to a .latent or a .safetensors file, not to {found:?}",
        output.display()
    )))
}

fn is_same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Whether a file is there that may be a model; a latent is none, though its file looks like one.
fn is_model(path: &Path) -> bool {
    if !path.is_file() || !MODELS.contains(&extension(path).as_str()) {
        return false;
    }
    match Latent::open(path) {
        Ok(_) => false,
        // A latent with broken values is still one.
        Err(EngineError::LatentNotFinite { .. } | EngineError::LatentShape { .. }) => false,
        Err(_) => true,
    }
}

fn extension(path: &Path) -> String {
    let extension = path.extension().unwrap_or_default();
    extension.to_string_lossy().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_and_models_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["fox.png", "model.safetensors", "old.png"] {
            std::fs::write(at(name), "x").unwrap();
        }
        let guard = |force| Guard {
            inputs: vec![("the picture", at("fox.png"))],
            force,
        };
        let round = dir.path().join("..").join(dir.path().file_name().unwrap());
        for name in [
            at("fox.png"),
            round.join("fox.png"),
            at("model.safetensors"),
        ] {
            assert!(guard(false).check(&name).is_err(), "{name:?}");
            assert!(guard(true).check(&name).is_ok(), "{name:?}");
        }
        for name in ["old.png", "new.png", "new.safetensors"] {
            assert!(guard(false).check(&at(name)).is_ok(), "{name}");
        }
        assert!(latent_name(Path::new("a.latent")).is_ok());
        assert!(latent_name(Path::new("a.png")).is_err());
    }
}
