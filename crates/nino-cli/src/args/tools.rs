//! The grammar of the verbs about nino itself: config, completions, man.

use clap::{Args, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = CONFIG_EXAMPLES)]
pub(crate) struct ConfigArgs {
    /// Write a config file in which every setting is a comment
    #[arg(long)]
    pub(crate) init: bool,
    /// Print where the config file is, there or not
    #[arg(long, conflicts_with = "init")]
    pub(crate) path: bool,
    /// With --init: replace a file that is there
    #[arg(long, requires = "init")]
    pub(crate) force: bool,
    #[command(subcommand)]
    pub(crate) verb: Option<ConfigVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Say what a setting does, one of nino's or of an earlier program's
    Explain {
        /// The setting's name, such as budget or max_vram_usage_mb [default: all]
        #[arg(value_name = "KEY")]
        key: Option<String>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// Folder for a page of every verb [default: one page, on standard output]
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
}

const CONFIG_EXAMPLES: &str = "\
Examples:
  # What is set, and where it comes from
  nino config
  # A file to begin with
  nino config --init";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  nino completions bash > ~/.local/share/bash-completion/completions/nino
  nino completions zsh > ~/.zfunc/_nino
  nino completions fish > ~/.config/fish/completions/nino.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  nino man > nino.1
  nino man ~/.local/share/man/man1";
