//! Which weights to use.

use clap::{Args, ValueEnum};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// Checkpoint file, diffusers folder, or name of a model [default: nino-emoji, which is built
    /// in]
    #[arg(short, long, value_name = "FILE|NAME")]
    pub(crate) model: Option<PathBuf>,
    /// VAE to use instead of the model's own
    #[arg(long, value_name = "FILE")]
    pub(crate) vae: Option<PathBuf>,
    /// Text encoder to use instead of the model's own; may be repeated: SDXL has two, Flux.1 a CLIP
    /// and a T5, Z-Image and Flux.2 klein a Qwen3
    #[arg(long, visible_alias = "t5", value_name = "FILE")]
    pub(crate) clip: Vec<PathBuf>,
    /// LoRA to apply, with its strength: FILE, FILE:0.8 or FILE:UNET:CLIP; may be repeated
    #[arg(long, value_name = "FILE[:N[:N]]")]
    pub(crate) lora: Vec<LoraArg>,
    /// Quantize unquantized weights of the diffusion model and the text encoders while they are
    /// loaded
    #[arg(long, value_name = "TYPE")]
    pub(crate) quantize: Option<QuantizeArg>,
    /// CLIP layer to stop at, counted from the last: 1 or -1 is the last, 2 or -2 the one before
    /// it, as ComfyUI's CLIPSetLastLayer [default: the model's, 1 for SD 1.x, 2 for SD 2.x and
    /// SDXL]
    #[arg(long, value_name = "N", value_parser = clip_skip)]
    pub(crate) clip_skip: Option<usize>,
    /// What the model predicts, as ComfyUI's ModelSamplingDiscrete [default: detected from its
    /// file]
    #[arg(long, value_name = "WHAT")]
    pub(crate) prediction: Option<PredictionArg>,
    /// With --prediction: noise schedule with zero terminal SNR, for models trained with it
    #[arg(long, requires = "prediction")]
    pub(crate) zsnr: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QuantizeArg {
    /// 8 bits: half the size of f16, almost no loss
    #[value(name = "q8_0")]
    Q8,
    /// 4 bits: a third of the size of f16, some loss
    #[value(name = "q4_k")]
    Q4K,
    /// As in the file, even if a profile quantizes
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PredictionArg {
    Eps,
    V,
    X0,
    Lcm,
}

impl PredictionArg {
    /// What `ModelSamplingDiscrete` calls it.
    pub(crate) fn comfy_name(self) -> &'static str {
        match self {
            Self::Eps => "eps",
            Self::V => "v_prediction",
            Self::X0 => "x0",
            Self::Lcm => "lcm",
        }
    }
}

/// ComfyUI counts -1 to -24; the sign is for taste.
fn clip_skip(text: &str) -> Result<usize, &'static str> {
    match text.parse::<i32>().map(i32::unsigned_abs) {
        Ok(n @ 1..=24) => Ok(n as usize),
        _ => Err("a whole number from 1 to 24 or from -1 to -24 is wanted"),
    }
}

/// A LoRA file and its strengths.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoraArg {
    pub(crate) file: PathBuf,
    pub(crate) unet: f32,
    pub(crate) clip: f32,
}

impl fmt::Display for LoraArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.unet)?;
        if self.clip.to_bits() != self.unet.to_bits() {
            write!(f, ":{}", self.clip)?;
        }
        Ok(())
    }
}

impl FromStr for LoraArg {
    type Err = String;

    fn from_str(text: &str) -> Result<LoraArg, String> {
        // Numbers are taken from the end: a path may hold colons of its own.
        let mut numbers = Vec::new();
        let mut rest = text;
        while let Some((file, number)) = rest.rsplit_once(':')
            && let Ok(number) = number.parse::<f32>()
            && numbers.len() < 2
        {
            numbers.insert(0, number);
            rest = file;
        }
        if rest.is_empty() {
            return Err("a LoRA is a file and its strength, such as style.safetensors:0.8".into());
        }
        if let Some((file, strength)) = rest.rsplit_once(':')
            && !file.is_empty()
            && !strength.contains(['/', '\\'])
            && !std::path::Path::new(rest).exists()
        {
            return Err(format!(
                "the strength of {file} is {strength:?}, which is not a number: write {file}:0.8"
            ));
        }
        if let Some(bad) = numbers.iter().find(|n| !n.is_finite()) {
            return Err(format!("the strength {bad} is not a finite number"));
        }
        let unet = numbers.first().copied().unwrap_or(1.0);
        Ok(LoraArg {
            file: PathBuf::from(rest),
            unet,
            clip: numbers.get(1).copied().unwrap_or(unet),
        })
    }
}

#[cfg(test)]
mod tests;
