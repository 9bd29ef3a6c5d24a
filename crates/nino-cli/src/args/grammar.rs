//! The grammar as clap takes it, and which flags a verb has.

use super::Cli;
use clap::{Command, CommandFactory, FromArgMatches};
use std::collections::BTreeSet;
use std::ffi::OsString;

/// What every command of the grammar has in common: the last of repeated flags wins, so that an
/// alias of the shell can be overruled, and a negative number is a value and no flag.
pub(crate) fn grammar() -> Command {
    with_numbers(Cli::command()).args_override_self(true)
}

fn with_numbers(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let is_option = arg.get_long().is_some() && arg.get_action().takes_values();
        if is_option {
            arg.allow_negative_numbers(true)
        } else {
            arg
        }
    });
    command.mut_subcommands(with_numbers)
}

/// Reads a command line, the program's name first.
pub(crate) fn parse(line: &[OsString]) -> Result<Cli, clap::Error> {
    let mut matches = grammar().try_get_matches_from(line)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|e| e.format(&mut grammar()))
}

/// The flags that one verb has.
#[derive(Clone, Debug, Default)]
pub(crate) struct VerbFlags(BTreeSet<String>);

impl VerbFlags {
    /// Those of the verb that a command line names.
    pub(crate) fn of_line(line: &[OsString]) -> VerbFlags {
        let grammar = grammar();
        let Ok(matches) = grammar.clone().try_get_matches_from(line) else {
            return VerbFlags::default();
        };
        let (mut command, mut matches) = (&grammar, &matches);
        while let Some((name, below)) = matches.subcommand() {
            let Some(found) = command.find_subcommand(name) else {
                break;
            };
            (command, matches) = (found, below);
        }
        VerbFlags::of(command)
    }

    pub(crate) fn of(command: &Command) -> VerbFlags {
        let long = command.get_arguments().filter_map(|arg| arg.get_long());
        VerbFlags(long.map(|name| format!("--{name}")).collect())
    }

    /// Whether the verb has every flag that a text names. What stands between backticks is another
    /// command, with flags of its own.
    pub(crate) fn has_all(&self, text: &str) -> bool {
        named(text).all(|flag| self.0.contains(flag))
    }
}

/// The flags that a text names outside backticks.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let plain = text.split('`').step_by(2);
    let words = plain.flat_map(|part| part.split(|c: char| !(c.is_alphanumeric() || c == '-')));
    words.filter(|word| word.starts_with("--") && word.len() > 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_found_in_a_text() {
        let text = "give --budget 3MiB, `nino decode --tile fast`, or use (--device cpu).";
        let found: Vec<&str> = named(text).collect();
        assert_eq!(found, ["--budget", "--device"]);
        let line = ["nino", "plan", "decode", "--spec", "x", "--size", "8x8"];
        let flags = VerbFlags::of_line(&line.map(OsString::from));
        assert!(flags.has_all("--tile fast or --budget"));
        assert!(!flags.has_all("--lora"));
    }

    #[test]
    fn the_grammar_is_sound() {
        grammar().debug_assert();
    }
}
