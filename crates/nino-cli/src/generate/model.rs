//! The model that the flags name, put together from its files.

use crate::args::{LoraArg, ModelArgs, PredictionArg, QuantizeArg};
use crate::device::Choice;
use crate::env::Env;
use crate::failure::Usage;
use crate::plural::count;
use crate::printer;
use crate::pull::{PartFiles, parts_of};
use crate::settings::Settings;
use anyhow::Result;
use nino_dtype::DType;
use nino_engine::{
    Applied, BUILTIN, Checkpoint, Family, LoraSpec, ModelFiles, ModelKind, Prediction,
    builtin_model, is_builtin,
};
use std::path::{Path, PathBuf};

/// The file of one of these kinds that has this name. The built-in model has all parts of a model;
/// its file is unpacked where it is not yet.
pub(crate) fn file_of(kinds: &[ModelKind], name: &Path, env: &Env) -> Result<PathBuf> {
    // A folder of its name may hold its pictures.
    if is_builtin(&name.to_string_lossy()) && !name.is_file() {
        let cache = env.cache_dir.clone().unwrap_or_else(std::env::temp_dir);
        return Ok(builtin_model(&cache)?);
    }
    Ok(env.library().resolve(kinds, name)?)
}

/// The name of the model: the flag's, or what is set elsewhere.
fn name_of<'a>(args: &'a ModelArgs, choice: &'a Choice) -> &'a Path {
    let set = choice.settings.text("model").unwrap_or(BUILTIN);
    args.model.as_deref().unwrap_or(Path::new(set))
}

/// The file of the model.
pub(crate) fn path_of(args: &ModelArgs, choice: &Choice, env: &Env) -> Result<PathBuf> {
    file_of(ModelKind::MODELS, name_of(args, choice), env)
}

pub(crate) fn open(args: &ModelArgs, choice: &Choice, env: &Env) -> Result<Checkpoint> {
    let library = env.library();
    let find = |kind, name: &Path| library.resolve(&[kind], name);
    let name = name_of(args, choice);
    let path = path_of(args, choice, env)?;
    let PartFiles { clip, vae, .. } = parts(args, name);
    let clip: Result<Vec<_>, _> = clip
        .iter()
        .map(|c| find(ModelKind::TextEncoder, c))
        .collect();
    let vae = vae.as_deref().map(|v| find(ModelKind::Vae, v));
    let mut model = Checkpoint::open_files(ModelFiles {
        model: &path,
        clip: &clip?,
        vae: vae.transpose()?.as_deref(),
    })?;
    model = with_loras(model, &args.lora, env)?;
    if args.quantize.is_some() && model.family() == Family::Emoji {
        printer::note(&format!(
            "--quantize has no effect: {} is quantized already",
            model.name()
        ));
    }
    model = quantized(model, args.quantize, &choice.settings)?;
    if args.prediction.is_some() && model.family() == Family::Emoji {
        let text = format!(
            "--prediction is for SD models, and {} is not one",
            model.name()
        );
        return Err(Usage(text).into());
    }
    if let Some(prediction) = args.prediction {
        let prediction = match prediction {
            PredictionArg::Eps => Prediction::Eps,
            PredictionArg::V => Prediction::V,
            PredictionArg::X0 => Prediction::X0,
            PredictionArg::Lcm => Prediction::Lcm,
        };
        model = model.with_prediction(prediction, args.zsnr);
    }
    Ok(model)
}

/// The text encoders and the VAE that flags name, or that belong to the short name of a model.
pub(super) fn parts(args: &ModelArgs, model: &Path) -> PartFiles {
    let own = parts_of(&model.to_string_lossy());
    PartFiles {
        clip: if args.clip.is_empty() {
            own.clip
        } else {
            args.clip.clone()
        },
        vae: args.vae.clone().or(own.vae),
        ..own
    }
}

/// The model with LoRAs applied, one after the other.
pub(super) fn with_loras(
    mut model: Checkpoint,
    loras: &[LoraArg],
    env: &Env,
) -> Result<Checkpoint> {
    let library = env.library();
    for lora in loras {
        let (with_lora, applied) = model.with_lora(&LoraSpec {
            path: library.resolve(&[ModelKind::Lora], &lora.file)?,
            unet: lora.unet,
            clip: lora.clip,
        })?;
        model = with_lora;
        tell(&lora.file, &applied);
    }
    Ok(model)
}

/// Applies what the flag, or a setting, says of fewer bits.
pub(crate) fn quantized(
    model: Checkpoint,
    flag: Option<QuantizeArg>,
    settings: &Settings,
) -> Result<Checkpoint, Usage> {
    Ok(match settings.choose("quantize", flag)? {
        Some(QuantizeArg::Q8) => model.quantized(DType::Q8_0),
        Some(QuantizeArg::Q4K) => model.quantized(DType::Q4_K),
        Some(QuantizeArg::None) | None => model,
    })
}

/// What of a LoRA is not as one would expect.
pub(crate) fn tell(file: &Path, applied: &Applied) {
    const SHOWN: usize = 4;
    let name = file.display();
    if !applied.unmatched.is_empty() {
        let n = applied.unmatched.len();
        let shown: Vec<&str> = applied
            .unmatched
            .iter()
            .take(SHOWN)
            .map(String::as_str)
            .collect();
        let more = if n > SHOWN { " and more" } else { "" };
        printer::note(&format!(
            "{name}: {} applied, {n} without a layer in this model: {}{more}",
            count(applied.updates, "update"),
            shown.join(", ")
        ));
    }
    if applied.widened > 0 {
        printer::note(&format!(
            "{name}: {} dequantized to f16, because updates that are not low-rank need it",
            count(applied.widened, "quantized layer")
        ));
    }
}
