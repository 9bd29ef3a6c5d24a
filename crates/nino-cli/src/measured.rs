//! What was measured on this machine: the settings that `nino optimize` found best, by model and
//! device, and `--profile measured`, which uses them and says why.

use crate::args::GenerateArgs;
use crate::device::{Choice, Opened};
use crate::env::Env;
use crate::generate::model::path_of;
use crate::printer;
use crate::span::ago;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is best for a model on a device.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Measured {
    pub(crate) model: PathBuf,
    /// What its maker calls the device.
    pub(crate) device: String,
    /// Seconds since 1970.
    pub(crate) time: u64,
    pub(crate) runs: usize,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) settings: Vec<Best>,
}

/// A setting in the words of the config file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Best {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) why: String,
}

impl Measured {
    /// Keeps it for `--profile measured`, in the place of what was measured before.
    pub(crate) fn keep(&self, env: &Env) -> Result<()> {
        let Some(path) = file(env, &self.model, &self.device) else {
            return Ok(());
        };
        let folder = path.parent().unwrap_or(Path::new("."));
        let text = serde_json::to_vec_pretty(self)?;
        let failed = || format!("{} cannot be written", path.display());
        std::fs::create_dir_all(folder).with_context(failed)?;
        nino_files::AtomicFile::replace(&path, &text).with_context(failed)
    }

    fn find(env: &Env, model: &Path, device: &str) -> Option<Measured> {
        let text = std::fs::read(file(env, model, device)?).ok()?;
        let found: Measured = serde_json::from_slice(&text).ok()?;
        (found.model == whole(model) && found.device == device).then_some(found)
    }
}

/// Where it is kept; nowhere without a cache folder.
fn file(env: &Env, model: &Path, device: &str) -> Option<PathBuf> {
    let mut digest = Sha256::new();
    digest.update(whole(model).to_string_lossy().as_bytes());
    digest.update([0]);
    digest.update(device.as_bytes());
    let mut name = String::new();
    for byte in &digest.finalize()[..8] {
        let _ = write!(name, "{byte:02x}");
    }
    let folder = env.cache_dir.as_ref()?.join("measured");
    Some(folder.join(name + ".json"))
}

/// The same file under every name.
pub(crate) fn whole(model: &Path) -> PathBuf {
    model.canonicalize().unwrap_or_else(|_| model.to_owned())
}

/// With what was measured for the model on the device, where neither flags nor settings say
/// something else. A note says each setting that this changes, and why.
pub(crate) fn adapted(
    mut choice: Choice,
    args: &GenerateArgs,
    opened: &Opened,
    env: &Env,
) -> Result<Choice> {
    let model = path_of(&args.model, &choice, env)?;
    let Some(found) = Measured::find(env, &model, &opened.model) else {
        printer::note(&format!(
            "there are no measurements of {} on {}: run `nino optimize` first",
            model.display(),
            opened.model
        ));
        return Ok(choice);
    };
    let by_flags = [
        ("precision", args.precision.is_some()),
        ("quantize", args.model.quantize.is_some()),
        ("steps", args.sampling.steps.is_some()),
    ];
    let since = SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_secs(found.time));
    let by = format!(
        "`nino optimize` at {}x{}, {} runs, {}",
        found.width,
        found.height,
        found.runs,
        ago(since.unwrap_or_default())
    );
    for Best { key, value, why } in &found.settings {
        let flagged = by_flags.iter().any(|(name, given)| name == key && *given);
        if !flagged && choice.settings.suggest(key, value, &by) {
            printer::note(&format!("{key} is {value}: {why} ({by})"));
        }
    }
    Ok(choice)
}

#[cfg(test)]
mod tests {
    use super::{Best, Measured};
    use crate::env::Env;
    use std::path::Path;

    #[test]
    fn it_is_found_for_its_model_and_device_alone() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env {
            cache_dir: Some(dir.path().to_owned()),
            ..Env::default()
        };
        let model = dir.path().join("a.safetensors");
        std::fs::write(&model, "a").unwrap();
        let measured = Measured {
            model: super::whole(&model),
            device: "a card".to_owned(),
            time: 1,
            runs: 3,
            width: 64,
            height: 64,
            settings: vec![Best {
                key: "precision".to_owned(),
                value: "bf16".to_owned(),
                why: "faster".to_owned(),
            }],
        };
        measured.keep(&env).unwrap();
        assert_eq!(Measured::find(&env, &model, "a card"), Some(measured));
        assert_eq!(Measured::find(&env, &model, "another"), None);
        assert_eq!(Measured::find(&env, Path::new("b"), "a card"), None);
    }
}
