//! The width of prose: lines of comments and of Markdown have at most 100 columns. rustfmt holds
//! code to the same width and leaves comments alone.

use super::Finding;
use crate::tree::File;

const MOST_COLUMNS: usize = 100;
/// A word this long is a tensor's name or a path, which cannot be broken.
const LONG_WORD: usize = 40;

pub(super) fn check(file: &File, findings: &mut Vec<Finding>) {
    let mut in_code_block = false;
    for (i, line) in file.text.lines().enumerate() {
        let trimmed = line.trim_start();
        let prose = if file.is_markdown() {
            let fence = trimmed.starts_with("```");
            in_code_block ^= fence;
            !in_code_block && !fence && !trimmed.starts_with('|')
        } else {
            let comment = if file.has_slash_comments() { "//" } else { "#" };
            trimmed.starts_with(comment)
        };
        let columns = line.chars().count();
        if prose && columns > MOST_COLUMNS && can_be_broken(trimmed) {
            let what = format!("a line of prose has {columns} columns; {MOST_COLUMNS} is the most");
            findings.push(Finding::error(file, i + 1, what, "break the line"));
        }
    }
}

fn can_be_broken(line: &str) -> bool {
    let link = line.contains("](") || line.contains("://");
    !link
        && line
            .split_whitespace()
            .all(|w| w.chars().count() <= LONG_WORD)
}
