//! The rules that look at one file's name and text.

use super::Finding;
use crate::tree::File;

const SMELL_LINES: usize = 500;
const MOST_LINES: usize = 800;
/// Files that may be longer, each a table and nothing else.
const LONG_TABLES: [(&str, &str); 0] = [];

const BANNED_NAMES: [&str; 3] = ["utils.rs", "common.rs", "helpers.rs"];
const LONGEST_DOCS: [(&str, usize); 2] = [("README.md", 150), ("ARCHITECTURE.md", 200)];
/// The crates that print: the programs, and what tests say when they are skipped.
const PRINTS: [&str; 4] = ["nino-cli", "nino-fuzz", "nino-testing", "xtask"];
/// Folders that exist on one person's machine.
const MACHINE_PATHS: [&str; 7] = [
    "/home/",
    "/Users/",
    "/root/",
    "/tmp/",
    "/workspace/",
    "/mnt/",
    "C:\\Users",
];
/// Speaks of the forbidden words because it forbids them.
const OWN_FOLDER: &str = "xtask/src/tidy";

pub(super) fn check(file: &File, findings: &mut Vec<Finding>) {
    length(file, findings);
    name(file, findings);
    if file.path.starts_with(OWN_FOLDER) {
        return;
    }
    machine_paths(file, findings);
    if file.is_rust() || file.is_shader() {
        header(file, findings);
        code_lines(file, findings);
    }
}

fn length(file: &File, findings: &mut Vec<Finding>) {
    let lines = file.text.lines().count();
    if let Some((_, most)) = LONGEST_DOCS.iter().find(|(path, _)| *path == file.path) {
        if lines > *most {
            let what = format!("{lines} lines; at most {most}");
            findings.push(Finding::error(file, 0, what, "move the detail to docs/"));
        }
        return;
    }
    let code = file.is_rust() || file.is_shader();
    if !code || file.is_test() || LONG_TABLES.iter().any(|(path, _)| *path == file.path) {
        return;
    }
    let mend = "split it by what a reader looks for; a table goes to LONG_TABLES with its reason";
    if lines > MOST_LINES {
        let what = format!("{lines} lines; {MOST_LINES} is the most");
        findings.push(Finding::error(file, 0, what, mend));
    } else if lines > SMELL_LINES {
        let what = format!("{lines} lines; over {SMELL_LINES} is a smell");
        findings.push(Finding {
            warning: true,
            ..Finding::error(file, 0, what, mend)
        });
    }
}

fn name(file: &File, findings: &mut Vec<Finding>) {
    let name = file.path.rsplit('/').next().unwrap_or(&file.path);
    if BANNED_NAMES.contains(&name) {
        let what = format!("a file called {name} says nothing about what is in it");
        findings.push(Finding::error(
            file,
            0,
            what,
            "name it after the one thing it does",
        ));
    }
}

fn header(file: &File, findings: &mut Vec<Finding>) {
    let (wanted, required) = if file.is_shader() {
        ("//", file.krate().is_some())
    } else {
        ("//!", file.is_source() && !file.is_test())
    };
    if required && !file.text.starts_with(wanted) {
        let what = format!("does not begin with `{wanted}`");
        let mend = "say in one to three lines what the file is, shapes in and out where it has any";
        findings.push(Finding::error(file, 1, what, mend));
    }
}

fn machine_paths(file: &File, findings: &mut Vec<Finding>) {
    for (i, line) in file.text.lines().enumerate() {
        for path in MACHINE_PATHS {
            let at = line.find(path);
            // `https://host/home/x` and `a/tmp/b` are not absolute paths.
            let absolute = at.is_some_and(|at| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "./_-}".contains(c))
            });
            if absolute {
                let what = format!("names the path {path}… of one machine");
                let mend =
                    "use a relative path, an argument, or a temporary folder made at run time";
                findings.push(Finding::error(file, i + 1, what, mend));
            }
        }
    }
}

fn code_lines(file: &File, findings: &mut Vec<Finding>) {
    let prints = file.krate().is_some_and(|k| PRINTS.contains(&k));
    let ships = file.is_rust() && file.is_source() && !file.is_test();
    let mut in_tests = false;
    for (i, line) in file.text.lines().enumerate() {
        let mut push = |what: String, mend| findings.push(Finding::error(file, i + 1, what, mend));
        for word in ["TODO", "FIXME", "XXX"] {
            if has_word(line, word) && !names_issue(line) {
                let mend = "do it, or open an issue and write `TODO(#12): …`";
                push(format!("{word} without an issue number"), mend);
            }
        }
        let trimmed = line.trim_start();
        if trimmed.starts_with("//") {
            continue;
        }
        if line.contains("cfg(feature") {
            let mend = "decide at run time: one binary serves every device";
            push("conditional compilation by feature".to_owned(), mend);
        }
        // An inline test module runs to the end of its file.
        in_tests |= trimmed.starts_with("mod tests {");
        if !ships || in_tests {
            continue;
        }
        if line.contains(".unwrap()") {
            let mend = "return an error, or `expect(\"why it holds\")`";
            push("unwrap() outside tests".to_owned(), mend);
        }
        let print = ["println!", "print!", "eprintln!", "eprint!", "dbg!"]
            .into_iter()
            .find(|p| has_word(line, p));
        if let Some(print) = print.filter(|_| !prints) {
            push(
                format!("{print} outside nino-cli, xtask and fuzz"),
                "use `tracing`",
            );
        }
    }
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !part(before) && !part(after)
    })
}

/// `#12`, as in `TODO(#12)`.
fn names_issue(line: &str) -> bool {
    let mut after = line.split('#').skip(1);
    after.any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
