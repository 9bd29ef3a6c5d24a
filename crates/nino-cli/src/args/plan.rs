//! The grammar of `plan`.

use super::{GenerateArgs, PlanDecodeArgs, PlanEncodeArgs, PlanUpscaleArgs, PlanVideoArgs};
use clap::builder::Resettable;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = PLAN_EXAMPLES)]
pub(crate) struct PlanArgs {
    /// Plan for this card in place of this machine: its name, such as rx580-8gb, or `list`
    #[arg(long, value_name = "CARD", global = true)]
    pub(crate) on: Option<String>,
    #[command(subcommand)]
    pub(crate) verb: Option<PlanVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanVerb {
    /// How a latent would be decoded: memory, tiles, time
    Decode(PlanDecodeArgs),
    /// How a picture or a clip would be encoded
    Encode(PlanEncodeArgs),
    /// How a picture would be made: what is on the device when, what streams, how long
    Generate(Box<PlanGenerateArgs>),
    /// How a picture would be made larger
    Upscale(PlanUpscaleArgs),
    /// How a clip would be made: each model in its turn
    Video(Box<PlanVideoArgs>),
}

/// All that `generate` takes. What it says of files to write is not looked at.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    // A plan without a prompt is one for a short prompt.
    mut_arg("prompt", |arg| arg.required_unless_present(Resettable::Reset)),
)]
pub(crate) struct PlanGenerateArgs {
    /// Built-in description instead of a file: sd15, sd15-inpaint, sd15-edit, sd21, sd21-768, sdxl,
    /// sdxl-turbo
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

A plan goes through the whole request without computing or reading weights: what it says is \
what `nino generate` does with the same flags. Streamed weights are brought to the device while \
it runs, in every run of the stage; `resident` ones stay for the next picture. With --on, memory \
is planned for the card as it would be there, and times are predicted.";
