//! The grammar of the verbs about nino itself: config, completions, man.

use clap::{Args, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = CONFIG_EXAMPLES)]
pub(crate) struct ConfigArgs {
    /// Write a config file with every setting commented out
    #[arg(long)]
    pub(crate) init: bool,
    /// Print the path of the config file, whether it exists or not
    #[arg(long, conflicts_with = "init")]
    pub(crate) path: bool,
    /// With --init: replace an existing file
    #[arg(long, requires = "init")]
    pub(crate) force: bool,
    #[command(subcommand)]
    pub(crate) verb: Option<ConfigVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Describe a setting of nino or of an earlier program
    Explain {
        /// Name of the setting, such as budget or max_vram_usage_mb [default: all]
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
    /// Folder for one page per verb [default: one page, on standard output]
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
}

const CONFIG_EXAMPLES: &str = "\
Examples:
  # All settings, and where they come from
  nino config
  # An initial config file
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
