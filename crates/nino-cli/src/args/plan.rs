//! The grammar of `plan`.

use super::{GenerateArgs, PlanDecodeArgs, PlanEncodeArgs, PlanUpscaleArgs, PlanVideoArgs};
use clap::builder::Resettable;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = PLAN_EXAMPLES)]
pub(crate) struct PlanArgs {
    /// Plan for this card instead of this machine: its name, such as rx580-8gb, or `list`
    #[arg(long, value_name = "CARD", global = true)]
    pub(crate) on: Option<String>,
    #[command(subcommand)]
    pub(crate) verb: Option<PlanVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanVerb {
    /// Plan the decoding of a latent: memory, tiles, time
    Decode(PlanDecodeArgs),
    /// Plan the encoding of an image or a video
    Encode(PlanEncodeArgs),
    /// Plan the making of an image: memory by stage, streamed weights, time
    Generate(Box<PlanGenerateArgs>),
    /// Plan the upscaling of an image
    Upscale(PlanUpscaleArgs),
    /// Plan the making of a video, model by model
    Video(Box<PlanVideoArgs>),
}

/// All flags of `generate`. Those about output files are ignored.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    // A plan without a prompt is one for a short prompt.
    mut_arg("prompt", |arg| arg.required_unless_present(Resettable::Reset)),
)]
pub(crate) struct PlanGenerateArgs {
    /// Built-in description instead of a file: sd15, sd21, sdxl, flux1-dev, z-image-turbo, ...; an
    /// unknown name lists them all
    #[arg(long, value_name = "NAME",
          conflicts_with_all = ["model", "vae", "clip", "lora", "from_file"])]
    pub(crate) spec: Option<String>,
    #[command(flatten)]
    pub(crate) generate: GenerateArgs,
}

const PLAN_EXAMPLES: &str = "\
Examples:
  nino plan generate --spec sdxl --on rx580-8gb
  nino plan --on list";

const EXAMPLES: &str = "\
Examples:
  nino plan generate --spec sd21 --profile rx580-4gb
  nino plan generate --spec sdxl --size 1024x1024 --budget 6GiB --json
  nino plan generate --model sd15.safetensors --quantize q8_0 --batch 4
  nino plan generate --spec sd15 --count 8 --budget 2GiB --device cpu
  nino plan generate --spec sdxl --hires 1.5x --on rtx4060
  nino plan generate --from workflow.json

A plan covers the whole request without computing anything or reading weights; `nino generate` \
with the same flags uses the same plan. Streamed weights are copied to the device in every run of \
their stage; `resident` ones stay for the next image. With --on, memory is planned for that card, \
and times are predicted.";
