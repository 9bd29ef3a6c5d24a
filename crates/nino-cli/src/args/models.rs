//! The grammar of the verbs that get, list and remove models.

use super::DeviceArgs;
use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
#[command(after_help = PULL_EXAMPLES)]
pub(crate) struct PullArgs {
    /// A short name, a repository (owner/name), one file of it (owner/name:file) or a web address;
    /// without it, the short names are listed
    #[arg(value_name = "WHAT")]
    pub(crate) what: Option<String>,
    /// List the short names
    #[arg(long, conflicts_with = "what")]
    pub(crate) list: bool,
    /// Branch, tag or commit [default: main]
    #[arg(long, value_name = "NAME")]
    pub(crate) revision: Option<String>,
    /// Take the files that match, instead of those that make up the model; * is any text; may be
    /// repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// The variant of the weights, as their names have it, such as fp16 or non_ema [default: fp16
    /// where there is one]
    #[arg(long, value_name = "WORD", conflicts_with = "include")]
    pub(crate) variant: Option<String>,
    /// Say what would be downloaded, and how much, and stop there
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
    /// What pictures can be made with: --model
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
    /// Repositories that were downloaded, and what they take on the disk
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
  # A model, and a picture with it
  nino pull sd15
  nino generate \"a fox in the snow\" --model sd15
  # What people paste
  nino pull https://huggingface.co/stabilityai/sdxl-turbo
  nino pull https://huggingface.co/org/repo/blob/main/model.safetensors
  # A repository, one file of it, and some files of it
  nino pull madebyollin/taesd
  nino pull city96/FLUX.1-schnell-gguf:flux1-schnell-Q4_K_S.gguf
  nino pull org/repo --include \"vae/*\"

Of a repository the f16 safetensors are taken, one file rather than a folder of parts, and nothing \
that nino never reads. Downloads resume, are checked against their hashes and end in the cache that \
Hugging Face's tools use (HF_HUB_CACHE, HF_HOME). HF_ENDPOINT names another server, HF_TOKEN unlocks \
gated repositories and is sent to that server alone.";

const LIST_EXAMPLES: &str = "\
Examples:
  # Everything that can be named, and whether it fits this device
  nino list
  # One kind of it
  nino list loras
  # What downloads take on the disk
  nino list downloads
  # For a card of another size, and for a script
  nino list models --budget 4GiB
  nino list --json > models.json

Names are found in the folders of NINO_MODELS and NINO_COMFYUI, and among downloads. A model fits if \
its weights do; a larger one still runs, with its weights brought to the device piece by piece.";

const RM_EXAMPLES: &str = "\
Examples:
  # What there is
  nino list downloads
  # A repository, and one file of another
  nino rm stabilityai/sdxl-turbo
  nino rm madebyollin/taesd/taesd_decoder.safetensors
  # By its short name, without a question
  nino rm sd15 --yes

Only downloads are removed, never a file outside the download cache. A content that two files share \
stays until both are gone.";
