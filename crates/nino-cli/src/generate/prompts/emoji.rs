//! Emoji in a prompt as words: the built-in model was trained on their names.

/// The prompt with every emoji replaced by its name.
pub(in super::super) fn named(prompt: &str) -> String {
    let mut text = String::new();
    let mut rest = prompt;
    while let Some(first) = rest.chars().next() {
        if let Some((emoji, len)) = emoji_at(rest) {
            if text.ends_with(char::is_alphanumeric) {
                text.push(' ');
            }
            text.push_str(emoji);
            rest = &rest[len..];
            if rest.starts_with(char::is_alphanumeric) || emoji_at(rest).is_some() {
                text.push(' ');
            }
        } else {
            text.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    text
}

/// The name of the emoji that a text begins with, and its bytes: the longest of several characters.
fn emoji_at(text: &str) -> Option<(&'static str, usize)> {
    /// Characters of a family of four with joiners and skin tones.
    const MOST: usize = 12;
    // Digits begin emoji, too, of their keys.
    if text.starts_with(|c: char| c.is_ascii()) {
        return None;
    }
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let ends: Vec<usize> = ends.take(MOST).collect();
    ends.into_iter().rev().find_map(|end| {
        let emoji = emojis::get(&text[..end])?;
        Some((emoji.name(), end))
    })
}
