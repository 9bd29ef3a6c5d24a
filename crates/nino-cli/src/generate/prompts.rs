//! Prompts as people write them: words on the command line, lines of a file, and the syntax of
//! other programs.

mod emoji;
#[cfg(test)]
mod tests;

use crate::args::{GenerateArgs, LoraArg};
use crate::failure::Usage;
use crate::printer;
use anyhow::{Context, Result};
pub(super) use emoji::named;
use nino_engine::{Checkpoint, Family};
use nino_workflow::metadata::a1111::without_loras;
use std::io::Read;
use std::path::Path;

/// Bytes of a file of prompts, at most.
const MOST: u64 = 16 << 20;

/// A prompt, without what it says of LoRAs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prompt {
    pub(super) text: String,
    pub(super) loras: Vec<LoraArg>,
}

/// All prompts of a command line, in order.
pub(super) fn read(args: &GenerateArgs) -> Result<Vec<Prompt>> {
    let prompt = args.prompt();
    let file = match &args.prompts {
        Some(file) => Some(file.as_path()),
        None => (prompt == "-").then_some(Path::new("-")),
    };
    let Some(file) = file else {
        return Ok(vec![parse(&prompt)?]);
    };
    let text = if file.as_os_str() == "-" {
        let mut text = String::new();
        let read = std::io::stdin().lock().take(MOST).read_to_string(&mut text);
        read.context("prompts cannot be read from standard input")?;
        text
    } else {
        nino_files::read_text(file, "prompts", MOST)?
    };
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let prompts: Result<Vec<Prompt>, Usage> = lines.map(parse).collect();
    let prompts = prompts?;
    if prompts.is_empty() {
        return Err(Usage(format!("{}: contains no prompt", file.display())).into());
    }
    Ok(prompts)
}

/// `<lora:ink:0.8>` in a prompt applies a LoRA, as in A1111's web UI.
fn parse(prompt: &str) -> Result<Prompt, Usage> {
    let (text, loras) = without_loras(prompt);
    let loras: Result<Vec<LoraArg>, Usage> = loras
        .iter()
        .map(|lora| {
            let parsed = lora.parse();
            parsed.map_err(|e| Usage(format!("<lora:{lora}> in the prompt: {e}")))
        })
        .collect();
    Ok(Prompt {
        text,
        loras: loras?,
    })
}

/// The prompt as the model reads it, with notes and tips where it will not be read as it is meant.
pub(super) fn understood(prompt: &str, model: &Checkpoint) -> String {
    for tip in syntax_tips(prompt) {
        printer::tip(&tip);
    }
    if model.family() != Family::Emoji {
        return prompt.to_owned();
    }
    let named = named(prompt);
    if named != prompt {
        printer::note(&format!("{} reads the prompt as {named:?}", model.name()));
    }
    if no_word_is_known(&named, &|word| model.text.knows(word)) {
        printer::note(&format!(
            "no word of this prompt is known to {}, which draws emoji by their English names",
            model.name()
        ));
    }
    named
}

/// What of a prompt is another program's syntax, which is read as words here.
fn syntax_tips(prompt: &str) -> Vec<String> {
    let inside = |open: char, close: char| {
        let parts = prompt.split(open).skip(1);
        parts.filter_map(move |part| part.split_once(close).map(|(inside, _)| inside))
    };
    let mut tips = Vec::new();
    if let Some(found) = inside('{', '}').find(|text| text.contains('|')) {
        tips.push(format!(
            "{{{found}}} is not a choice here and is read as words: give a file of prompts with \
             --prompts"
        ));
    }
    let edits = |text: &&str| text.contains('|') || text.matches(':').count() == 2;
    if let Some(found) = inside('[', ']').find(edits) {
        tips.push(format!(
            "[{found}] does not edit the prompt during sampling as in A1111 and is read as words"
        ));
    }
    tips
}

/// Whether a prompt has words of weight, none of which the vocabulary has.
fn no_word_is_known(prompt: &str, knows: &dyn Fn(&str) -> bool) -> bool {
    const PLAIN: [&str; 12] = [
        "the", "and", "with", "for", "from", "into", "its", "his", "her", "that", "this", "very",
    ];
    let lower = prompt.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric());
    // Pieces of two letters are in the vocabulary to spell other words with.
    let words = words.filter(|w| w.chars().count() > 2 && !PLAIN.contains(w));
    let words: Vec<&str> = words.collect();
    !words.is_empty() && !words.iter().any(|word| knows(word))
}
