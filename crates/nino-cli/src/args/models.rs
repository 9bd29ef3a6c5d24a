//! The grammar of the verbs that get, list and remove models.

use super::DeviceArgs;
use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
#[command(after_help = PULL_EXAMPLES)]
pub(crate) struct PullArgs {
    /// A short name, a repository (owner/name), one file of it (owner/name:file) or a URL; without
    /// it, the short names are listed
    #[arg(value_name = "WHAT")]
    pub(crate) what: Option<String>,
    /// List the short names
    #[arg(long, conflicts_with = "what")]
    pub(crate) list: bool,
    /// Branch, tag or commit [default: main]
    #[arg(long, value_name = "NAME")]
    pub(crate) revision: Option<String>,
    /// Download the files that match, instead of those that the model needs; * is any text; may be
    /// repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Variant of the weights, as in their file names, such as fp16 or non_ema [default: fp16 if
    /// there is one]
    #[arg(long, value_name = "WORD", conflicts_with = "include")]
    pub(crate) variant: Option<String>,
    /// Only show what would be downloaded, and its size
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListArgs {
    /// Only files of this kind
    #[arg(value_name = "KIND", value_enum)]
    pub(crate) kind: Option<ListKind>,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListKind {
    /// Diffusion models: --model
    #[value(alias = "model", alias = "checkpoints")]
    Models,
    /// VAEs: --vae
    #[value(alias = "vae")]
    Vaes,
    /// Text encoders: --clip
    #[value(alias = "encoder", alias = "clips")]
    Encoders,
    /// LoRAs: --lora
    #[value(alias = "lora")]
    Loras,
    /// Embeddings: embedding:NAME in a prompt
    #[value(alias = "embedding")]
    Embeddings,
    /// Upscalers: nino upscale --model
    #[value(alias = "upscaler")]
    Upscalers,
    /// Downloaded repositories, and their disk usage
    #[value(alias = "download")]
    Downloads,
}

#[derive(Debug, Args)]
#[command(after_help = RM_EXAMPLES)]
pub(crate) struct RmArgs {
    /// A downloaded repository (owner/name), a file of it (owner/name/file), or a short name
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
    /// Remove without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
}

const PULL_EXAMPLES: &str = "\
Examples:
  # Short names, and what each is good for
  nino pull
  # A model, and an image made with it
  nino pull sd15
  nino generate \"a fox in the snow\" --model sd15
  # Pasted URLs
  nino pull https://huggingface.co/stabilityai/sdxl-turbo
  nino pull https://huggingface.co/org/repo/blob/main/model.safetensors
  # A repository, one file of it, and some files of it
  nino pull madebyollin/taesd
  nino pull city96/FLUX.1-schnell-gguf:flux1-schnell-Q4_K_S.gguf
  nino pull org/repo --include \"vae/*\"

From a repository the f16 safetensors are downloaded, a single file rather than a folder of parts, \
and nothing that nino does not read. Downloads resume, are checked against their hashes and are \
stored in the cache that Hugging Face's tools use (HF_HUB_CACHE, HF_HOME). HF_ENDPOINT sets \
another server. HF_TOKEN unlocks gated repositories and is sent to that server only.";

const LIST_EXAMPLES: &str = "\
Examples:
  # Everything that has a name, and whether it fits this device
  nino list
  # One kind of file
  nino list loras
  # Disk usage of downloads
  nino list downloads
  # For a card of another size, and for a script
  nino list models --budget 4GiB
  nino list --json > models.json

Names are looked up in the folders of NINO_MODELS and NINO_COMFYUI, and among downloads. A model \
fits if its weights do; a larger one still runs, with its weights streamed to the device.";

const RM_EXAMPLES: &str = "\
Examples:
  # What is downloaded
  nino list downloads
  # A repository, and one file of another
  nino rm stabilityai/sdxl-turbo
  nino rm madebyollin/taesd/taesd_decoder.safetensors
  # By its short name, without asking
  nino rm sd15 --yes

Only downloads are removed, never a file outside the download cache. Data that two files share \
stays until both are removed.";
