//! Text to the words that are encoded one by one.
//!
//! Unicode NFC, lower case character by character (a final sigma stays σ), then runs of letters,
//! single numbers, runs of anything else that is not white space, and English contractions. The
//! reference's NFC knows Unicode 9 and ours today's, which tells apart only texts with later
//! scripts' combining marks out of order.

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

const START: &str = "<|startoftext|>";
const END: &str = "<|endoftext|>";
const CONTRACTIONS: [&str; 7] = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];

pub(super) enum Part<'a> {
    Word(&'a str),
    Start,
    End,
}

/// Calls `each` with every part of `text` in order.
pub(super) fn split(text: &str, mut each: impl FnMut(Part)) {
    // The end token is looked for before lower-casing, the start token after: ComfyUI's settings
    // say so.
    for (i, text) in text.split(END).enumerate() {
        if i > 0 {
            each(Part::End);
        }
        let text: String = text.nfc().flat_map(char::to_lowercase).collect();
        for (i, text) in text.split(START).enumerate() {
            if i > 0 {
                each(Part::Start);
            }
            words(text, |word| each(Part::Word(word)));
        }
    }
}

fn words<'a>(mut text: &'a str, mut each: impl FnMut(&'a str)) {
    while let Some(first) = text.chars().next() {
        let length = match Class::of(first) {
            Class::Space => {
                text = &text[first.len_utf8()..];
                continue;
            }
            Class::Number => first.len_utf8(),
            Class::Letter => run(text, Class::Letter),
            Class::Other if text.starts_with(END) => {
                // Once written in capitals. It is one match for the first splitter, so what follows
                // does not join its last two characters, and three words for the second.
                each("<|");
                each("endoftext");
                text = &text["<|endoftext".len()..];
                "|>".len()
            }
            Class::Other => {
                let contraction = CONTRACTIONS.iter().find(|c| text.starts_with(**c));
                contraction.map_or_else(|| run(text, Class::Other), |c| c.len())
            }
        };
        let (word, rest) = text.split_at(length);
        each(word);
        text = rest;
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Class {
    Space,
    Letter,
    Number,
    Other,
}

impl Class {
    fn of(c: char) -> Class {
        match c {
            'a'..='z' => Class::Letter,
            _ if c.is_whitespace() => Class::Space,
            _ => match c.general_category_group() {
                GeneralCategoryGroup::Letter => Class::Letter,
                GeneralCategoryGroup::Number => Class::Number,
                _ => Class::Other,
            },
        }
    }
}

/// The bytes at the front of `text` whose characters are of `class`.
fn run(text: &str, class: Class) -> usize {
    text.find(|c| Class::of(c) != class).unwrap_or(text.len())
}
