//! Every example of every help text can be pasted: it parses, and so do those of the documentation.

use super::{grammar, parse};
use clap::Command;
use std::ffi::OsString;
use std::path::Path;

/// The words of a line as a shell splits it, up to a redirection, a pipe or a comment. Files that
/// are redirected from stand for standard input.
fn words(line: &str) -> Vec<OsString> {
    let mut words = Vec::new();
    let (mut word, mut quote, mut begun) = (String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), c) => word.push(c),
            (None, '"' | '\'') => (quote, begun) = (Some(c), true),
            (None, '>' | '|' | '<' | '&' | ';') => break,
            (None, '#') if !begun => break,
            (None, ' ') => {
                if begun {
                    words.push(std::mem::take(&mut word).into());
                }
                begun = false;
            }
            (None, c) => {
                word.push(c);
                begun = true;
            }
        }
    }
    assert!(quote.is_none(), "a quote is not closed: {line}");
    if begun {
        words.push(word.into());
    }
    words
}

fn each(command: &Command, found: &mut Vec<(String, String)>) {
    let name = command.get_display_name().unwrap_or(command.get_name());
    if let Some(text) = command.get_after_help() {
        found.push((name.to_owned(), text.to_string()));
    }
    command.get_subcommands().for_each(|c| each(c, found));
}

#[test]
fn examples_of_help_texts_can_be_pasted() {
    let mut command = grammar();
    command.build();
    let mut texts = Vec::new();
    each(&command, &mut texts);
    let mut examples = 0;
    for (name, text) in &texts {
        let indented = text.lines().filter_map(|l| l.strip_prefix("  "));
        for line in indented.filter(|l| !l.starts_with("# ")) {
            examples += 1;
            assert!(line.len() <= 78, "{name}: wider than 80 columns: {line}");
            let command = match line.split_once(' ') {
                Some((variable, command)) if variable.starts_with("NINO_") => command,
                _ => line,
            };
            assert!(
                command.starts_with("nino "),
                "{name}: a remark wants a #: {line}"
            );
            if let Err(e) = parse(&words(command)) {
                panic!("{name}: {line}\n{e}");
            }
        }
    }
    assert!(examples > 40, "{examples}");
}

#[test]
fn examples_of_the_documentation_can_be_pasted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    for entry in std::fs::read_dir(root.join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "md") {
            pages.push(path);
        }
    }
    let mut wrong = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap().replace("\\\n", " ");
        let mut is_code = false;
        for line in text.lines() {
            if let Some(language) = line.trim().strip_prefix("```") {
                is_code = !is_code && ["sh", "bash", "console"].contains(&language);
            } else if is_code
                && line.starts_with("nino ")
                && !line.contains("...")
                && let Err(e) = parse(&words(line))
                && e.use_stderr()
            {
                let first = e.to_string().lines().next().unwrap_or_default().to_owned();
                wrong.push(format!("{}: {line}\n  {first}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
