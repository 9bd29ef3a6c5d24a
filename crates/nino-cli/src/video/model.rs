//! The models that the flags name, and those that belong to them.

use crate::args::{LoraArg, QuantizeArg, VideoModelArgs, VideoSamplingArgs};
use crate::device::Choice;
use crate::env::Env;
use crate::failure::{Usage, UsageWithHint};
use crate::generate::model::{file_of, tell};
use crate::pull::parts_of;
use anyhow::Result;
use nino_dtype::DType;
use nino_engine::{
    AudioEncoder, Checkpoint, Correction, DiffusionModel, Family, ImageEncoder, LoraSpec,
    ModelKind, ModelSampling, SkipWay, TextEncoders, VaeFile, VideoModel, apply_lora,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names that files of these parts usually have.
const WAN_VAE: &[&str] = &["wan_2.1_vae", "Wan2.1_VAE", "Wan2_1_VAE_bf16"];
const WAN_5B_VAE: &[&str] = &["wan2.2_vae", "Wan2.2_VAE"];
const UMT5: &[&str] = &[
    "umt5_xxl_fp8_e4m3fn_scaled",
    "umt5_xxl_fp16",
    "umt5-xxl-enc-bf16",
    "umt5-xxl-encoder-Q8_0",
];
const WAV2VEC2: &[&str] = &["wav2vec2_large_english_fp16", "wav2vec2_large_english"];
const CLIP_VISION: &[&str] = &["clip_vision_h", "open-clip-xlm-roberta-large-vit-huge-14"];

/// Words in file names for the two experts.
const PAIRS: [(&str, &str); 4] = [
    ("high_noise", "low_noise"),
    ("HighNoise", "LowNoise"),
    ("HIGH", "LOW"),
    ("high", "low"),
];

pub(super) fn open(
    args: &VideoModelArgs,
    sampling: &VideoSamplingArgs,
    choice: &Choice,
    env: &Env,
) -> Result<VideoModel> {
    let name = args.model.as_deref().unwrap_or(Path::new(""));
    let path = file_of(ModelKind::MODELS, name, env)?;
    // What belongs to a short name.
    let own = parts_of(&name.to_string_lossy());
    let low = match args.low_noise.as_ref().or(own.low_noise.as_ref()) {
        _ if args.one_expert => None,
        Some(name) => Some(file_of(ModelKind::MODELS, name, env)?),
        None => partner(&path),
    };
    let high = expert(&path, &args.lora, sampling, env)?;
    let low = low
        .map(|path| expert(&path, &args.lora_low, sampling, env))
        .transpose()?;
    let usual = if high.family == Family::Wan5B {
        WAN_5B_VAE
    } else {
        WAN_VAE
    };
    let vae = args.vae.as_deref().or(own.vae.as_deref());
    let vae = found(ModelKind::Vae, vae, usual, "--vae", env)?;
    let text = found(
        ModelKind::TextEncoder,
        args.clip.as_deref().or(own.clip.first().map(|p| &**p)),
        UMT5,
        "--clip",
        env,
    )?;
    let looks = high.net().wants().image.is_some();
    let given = args.clip_vision.as_deref().or(own.clip_vision.as_deref());
    let vision = (looks || given.is_some())
        .then(|| {
            found(
                ModelKind::ClipVision,
                given,
                CLIP_VISION,
                "--clip-vision",
                env,
            )
        })
        .transpose()?;
    let hears = high.net().wants().audio.is_some();
    let given = args
        .audio_encoder
        .as_deref()
        .or(own.audio_encoder.as_deref());
    let hearing = (hears || given.is_some())
        .then(|| {
            found(
                ModelKind::AudioEncoder,
                given,
                WAV2VEC2,
                "--audio-encoder",
                env,
            )
        })
        .transpose()?;
    let text = TextEncoders::open(&[text])?;
    if text.family.encoders() != high.family.encoders() {
        let text = "the text encoder is not UMT5, which Wan was trained with".to_owned();
        return Err(Usage(text).into());
    }
    let model = VideoModel {
        high,
        low,
        text,
        vae: Arc::new(VaeFile::open(&vae)?),
        vision: vision.map(|path| ImageEncoder::open(&path)).transpose()?,
        hearing: hearing.map(|path| AudioEncoder::open(&path)).transpose()?,
    };
    quantized(model, args.quantize, choice)
}

/// A description in the place of files, to plan with.
pub(crate) fn spec(
    name: &str,
    args: &VideoModelArgs,
    sampling: &VideoSamplingArgs,
    choice: &Choice,
) -> Result<VideoModel> {
    let described = Checkpoint::spec(name)?;
    // The two experts are networks of the same sizes.
    let hears = described.diffusion.net().wants().audio.is_some();
    let has_two = name.starts_with("wan2.2") && described.family() == Family::Wan && !hears;
    let low = has_two && !args.one_expert;
    let low = low.then(|| Checkpoint::spec(name)).transpose()?;
    let looks = described.diffusion.net().wants().image.is_some();
    let model = VideoModel {
        high: sampled(described.diffusion, sampling)?,
        low: low
            .map(|low| sampled(low.diffusion, sampling))
            .transpose()?,
        text: described.text,
        vae: described.vae,
        vision: looks.then(ImageEncoder::spec).transpose()?,
        hearing: hears.then(AudioEncoder::spec).transpose()?,
    };
    quantized(model, args.quantize, choice)
}

/// The models that `plan video` plans with.
pub(crate) fn open_or_spec(
    spec_name: Option<&str>,
    args: &VideoModelArgs,
    sampling: &VideoSamplingArgs,
    choice: &Choice,
    env: &Env,
) -> Result<VideoModel> {
    match (spec_name, &args.model) {
        (Some(name), _) => spec(name, args, sampling, choice),
        (None, Some(_)) => open(args, sampling, choice, env),
        (None, None) => {
            let text = "give --model FILE or --spec NAME".to_owned();
            Err(Usage(text).into())
        }
    }
}

fn expert(
    path: &Path,
    loras: &[LoraArg],
    sampling: &VideoSamplingArgs,
    env: &Env,
) -> Result<DiffusionModel> {
    let mut model = DiffusionModel::open(path)?;
    if !model.net().wants().frames {
        let text = format!("{} makes images, not videos", model.name);
        return Err(UsageWithHint {
            sentence: text,
            hint: "`nino generate` makes images with it".to_owned(),
        }
        .into());
    }
    for lora in loras {
        let spec = LoraSpec {
            path: env.library().resolve(&[ModelKind::Lora], &lora.file)?,
            unet: lora.unet,
            clip: 0.0,
        };
        let with = apply_lora(Some(&model), None, &spec)?;
        model = with.diffusion.unwrap_or(model);
        tell(&lora.file, &with.applied);
    }
    sampled(model, sampling)
}

/// How layers are skipped where flags do not say it, as ComfyUI's node has it.
pub(super) const SKIP_SCALE: f64 = 3.0;
pub(super) const SKIP_PART: (f64, f64) = (0.01, 0.15);

/// The model sampled as the flags say.
fn sampled(mut model: DiffusionModel, args: &VideoSamplingArgs) -> Result<DiffusionModel> {
    if let Some(shift) = args.shift {
        model = model.with_sampling(ModelSampling::flow(shift, 1000.0));
    }
    if args.cfg_zero_star {
        model = model.with_correction(Correction::ZeroStar);
    }
    if let Some(layers) = &args.skip_layers {
        let part = (
            args.skip_start.unwrap_or(SKIP_PART.0),
            args.skip_end.unwrap_or(SKIP_PART.1),
        );
        let way = SkipWay::Apart {
            scale: args.skip_scale.unwrap_or(SKIP_SCALE) as f32,
            rescale: 0.0,
        };
        model = model.with_skipped_layers(&layers.0, way, part)?;
    }
    if let Some(reuse) = args.step_cache {
        model = model.with_step_reuse(reuse.0)?;
    }
    Ok(model)
}

/// The file for low noise beside one for high noise.
fn partner(high: &Path) -> Option<PathBuf> {
    let name = high.file_name()?.to_str()?;
    let other = PAIRS.iter().find_map(|(high, low)| {
        let other = name.replace(high, low);
        (other != name).then_some(other)
    })?;
    let path = high.with_file_name(other);
    path.is_file().then_some(path)
}

/// The file that a flag names, or one of the usual names.
pub(crate) fn found(
    kind: ModelKind,
    given: Option<&Path>,
    usual: &[&str],
    flag: &str,
    env: &Env,
) -> Result<PathBuf> {
    if let Some(name) = given {
        return file_of(&[kind], name, env);
    }
    let library = env.library();
    let known = usual
        .iter()
        .find_map(|name| library.find(&[kind], name).ok());
    known.ok_or_else(|| {
        let error = UsageWithHint {
            sentence: format!("no {} was found by its usual names", kind.noun()),
            hint: format!("name one with {flag}; looked for {}", usual.join(", ")),
        };
        error.into()
    })
}

fn quantized(model: VideoModel, flag: Option<QuantizeArg>, choice: &Choice) -> Result<VideoModel> {
    let dtype = match choice.settings.choose("quantize", flag)? {
        Some(QuantizeArg::Q8) => DType::Q8_0,
        Some(QuantizeArg::Q4K) => DType::Q4_K,
        Some(QuantizeArg::None) | None => return Ok(model),
    };
    Ok(VideoModel {
        high: model.high.quantized(dtype),
        low: model.low.map(|low| low.quantized(dtype)),
        text: model.text.quantized(dtype),
        ..model
    })
}

#[cfg(test)]
mod tests {
    use super::partner;

    #[test]
    fn the_other_expert_is_found_beside() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in [
            "wan_high_noise.gguf",
            "wan_low_noise.gguf",
            "Alone_HIGH.gguf",
        ] {
            std::fs::write(at(name), "").unwrap();
        }
        let found = partner(&at("wan_high_noise.gguf"));
        assert_eq!(found, Some(at("wan_low_noise.gguf")));
        assert_eq!(partner(&at("Alone_HIGH.gguf")), None);
        assert_eq!(partner(&at("wan_low_noise.gguf")), None);
    }
}
