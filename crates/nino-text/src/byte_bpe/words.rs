//! Text to the words that are encoded one by one: the regular expression of Qwen's vocabulary,
//! written out. At every place the first rule that fits gives the word: English contractions;
//! letters behind at most one other character; a few digits; runs of other characters behind at
//! most one space, with the line ends that follow; white space.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

const CONTRACTIONS: [&str; 7] = ["s", "t", "re", "ve", "m", "ll", "d"];

/// Calls `each` with every word of `text` in order; together they are the text. Words of numbers
/// have at most `digits`.
pub(super) fn each<'a>(mut text: &'a str, digits: usize, mut each: impl FnMut(&'a str)) {
    while let Some(first) = text.chars().next() {
        let (word, rest) = text.split_at(next(text, first, digits));
        each(word);
        text = rest;
    }
}

/// Bytes of the word that a text begins with.
fn next(text: &str, first: char, digits: usize) -> usize {
    contraction(text)
        .or_else(|| letters(text, first))
        .or_else(|| is_number(first).then(|| numbers(text, digits)))
        .or_else(|| others(text))
        .unwrap_or_else(|| space(text))
}

/// `'s`, `'LL` and the other English contractions in any case. U+017F folds to s.
fn contraction(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('\'')?;
    CONTRACTIONS.iter().find_map(|ending| {
        let mut chars = rest.chars();
        let mut length = 1;
        for wanted in ending.chars() {
            let c = chars.next()?;
            let is_long_s = wanted == 's' && c == 'ſ';
            if !c.eq_ignore_ascii_case(&wanted) && !is_long_s {
                return None;
            }
            length += c.len_utf8();
        }
        Some(length)
    })
}

/// A run of letters, behind at most one character that is no letter, number or line end.
fn letters(text: &str, first: char) -> Option<usize> {
    let alone = is_line_end(first) || is_letter(first) || is_number(first);
    let before = if alone { 0 } else { first.len_utf8() };
    run(&text[before..], is_letter).map(|length| before + length)
}

/// At most so many digits.
fn numbers(text: &str, most: usize) -> usize {
    let digits = text.chars().take_while(|&c| is_number(c)).take(most);
    digits.map(char::len_utf8).sum()
}

/// A run of characters that are neither letters nor numbers nor white space.
fn others(text: &str) -> Option<usize> {
    let start = usize::from(text.starts_with(' '));
    let is_other = |c: char| !c.is_whitespace() && !is_letter(c) && !is_number(c);
    let end = start + run(&text[start..], is_other)?;
    Some(end + run(&text[end..], is_line_end).unwrap_or(0))
}

/// White space, which is all that is left: up to its last line end; else all but the character
/// before the next word, where there is more than that one.
fn space(text: &str) -> usize {
    let blank = &text[..run(text, char::is_whitespace).unwrap_or(text.len())];
    if let Some(at) = blank.rfind(is_line_end) {
        return at + 1;
    }
    let last = blank.chars().next_back().map_or(0, char::len_utf8);
    if blank.len() == text.len() || blank.len() == last {
        blank.len()
    } else {
        blank.len() - last
    }
}

/// Bytes at the front of a text whose characters are of a kind; `None` when the first is not.
fn run(text: &str, is: impl Fn(char) -> bool) -> Option<usize> {
    let length = text.find(|c| !is(c)).unwrap_or(text.len());
    (length > 0).then_some(length)
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\r' | '\n')
}

fn is_letter(c: char) -> bool {
    c.general_category_group() == GeneralCategoryGroup::Letter
}

fn is_number(c: char) -> bool {
    c.general_category_group() == GeneralCategoryGroup::Number
}
