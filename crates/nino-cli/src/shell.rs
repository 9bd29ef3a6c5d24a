//! `nino completions` and `nino man`: what a shell and a manual page reader need, made from the
//! grammar.

use crate::args::{CompletionsArgs, ManArgs, grammar};
use crate::naming::make_folder;
use crate::printer::Printer;
use anyhow::Result;
use clap::Command;
use std::path::{Path, PathBuf};

pub(crate) fn completions(args: &CompletionsArgs, printer: Printer) -> Result<()> {
    // Not straight to standard output: there a reader that went away would be a panic.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut grammar(), "nino", &mut script);
    let script = String::from_utf8(script)?;
    printer.text(script.trim_end())?;
    printer.document(&serde_json::json!({ "shell": args.shell.to_string(), "script": script }))
}

pub(crate) fn man(args: &ManArgs, printer: Printer) -> Result<()> {
    let mut command = grammar();
    command.build();
    let Some(folder) = &args.folder else {
        let page = String::from_utf8(page(&command)?)?;
        printer.text(page.trim_end())?;
        return printer.document(&serde_json::json!({ "page": page }));
    };
    make_folder(folder)?;
    let mut files = Vec::new();
    write(&command, "nino", folder, &mut files)?;
    for file in &files {
        printer.text(file.display())?;
    }
    printer.document(&serde_json::json!({ "files": files }))
}

/// Writes the page of a command and of every one below it: `nino.1`, `nino-generate.1`.
fn write(command: &Command, name: &str, folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let file = folder.join(format!("{name}.1"));
    nino_files::AtomicFile::replace(&file, &page(command)?)?;
    files.push(file);
    for below in command.get_subcommands() {
        if below.get_name() != "help" {
            write(
                below,
                &format!("{name}-{}", below.get_name()),
                folder,
                files,
            )?;
        }
    }
    Ok(())
}

fn page(command: &Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}
