//! Text from outside as a terminal may show it.
//!
//! Names in files, values in metadata and what servers say can hold escape sequences, which move
//! the cursor, set the window's title or answer questions on the user's behalf; and characters that
//! turn the order of what follows around. All that is printed goes through here.

use std::fmt::{self, Display};

/// Shows control characters as `\u{1b}` instead of acting on them. Lines and tabs stay.
pub(crate) struct Visible<'a>(pub(crate) &'a str);

impl Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(is_hidden) {
            let (shown, hidden) = rest.split_at(at);
            f.write_str(shown)?;
            let mut chars = hidden.chars();
            if let Some(c) = chars.next() {
                write!(f, "{}", c.escape_unicode())?;
            }
            rest = chars.as_str();
        }
        f.write_str(rest)
    }
}

fn is_hidden(c: char) -> bool {
    let turns_around = matches!(
        c,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    (c.is_control() && c != '\n' && c != '\t') || turns_around
}

#[cfg(test)]
mod tests {
    use super::Visible;

    #[test]
    fn escape_sequences_are_shown_and_text_stays() {
        let shown = |text: &str| Visible(text).to_string();
        assert_eq!(shown("a\u{1b}[31m\u{7}b"), "a\\u{1b}[31m\\u{7}b");
        assert_eq!(shown("\r\u{9b}2J\u{7f}"), "\\u{d}\\u{9b}2J\\u{7f}");
        assert_eq!(shown("safe\u{202e}gnp.exe"), "safe\\u{202e}gnp.exe");
        let plain = "ein Käfer 🐞\n\tund „mehr“";
        assert_eq!(shown(plain), plain);
    }
}
