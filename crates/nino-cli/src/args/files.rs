//! The grammar of the verbs about model files: inspect, convert.

use super::whole;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = INSPECT_EXAMPLES)]
pub(crate) struct InspectArgs {
    /// A model, a LoRA, an embedding, a latent, an image, a workflow (.json), or a model's folder
    #[arg(value_name = "FILE|FOLDER")]
    pub(crate) path: PathBuf,
    /// List every tensor
    #[arg(long)]
    pub(crate) tensors: bool,
    /// With --tensors: only names that contain this
    #[arg(long, value_name = "TEXT", requires = "tensors")]
    pub(crate) filter: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = CONVERT_EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// The model: a file, a shard index or a folder
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// The file to write; .gguf or .safetensors sets the format
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Type of the weights: f32, f16, bf16, fp8_e4m3, fp8_e5m2, q8_0, q6_k, q5_k, q4_k, q3_k, q2_k,
    /// q5_1, q5_0, q4_1, q4_0
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) dtype: nino_dtype::DType,
    /// Type of tensors whose name contains a word: WORD[,WORD...]=TYPE; may be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) keep: Vec<nino_weights::convert::Rule>,
    /// CPU threads to use [default: all cores]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Overwrite the input, or an existing model
    #[arg(long)]
    pub(crate) force: bool,
}

const INSPECT_EXAMPLES: &str = "\
Examples:
  # What is it, how large, of which type?
  nino inspect flux1-dev-Q4_K_S.gguf
  # Prompt, seed and settings of an image
  nino inspect fox.png
  # Which models does a workflow need, and are they installed?
  nino inspect workflow.json
  # Names, types and shapes of some tensors
  nino inspect v1-5-pruned.ckpt --tensors --filter attn2
  # The same for a script
  nino inspect my-diffusers-folder --json

A model is detected by the names and shapes of its tensors; nothing in a file is ever executed. \
`closest` means that tensors are missing, unknown or of other shapes; they are all listed.";

const CONVERT_EXAMPLES: &str = "\
Examples:
  nino convert flux1-dev.safetensors flux1-dev-q8_0.gguf --type q8_0
  nino convert model.ckpt model.safetensors --type f16
  nino convert wan.safetensors wan-q4_k.gguf --type q4_k --keep norm,bias=f16

Tensors with fewer than two dimensions keep their type if the new one has 8 bits or less. Rows \
that are not whole blocks fall back: q2_k and q3_k to q4_0, q4_k to q5_0, q5_k to q5_1, q6_k to \
q8_0, and those to f16; the report lists them. OUT appears only when it is complete.";
