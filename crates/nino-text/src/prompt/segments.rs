//! Parentheses and weights: a prompt to texts that each have one weight.

use crate::error::Error;

/// ComfyUI fails near 1000, where Python's stack ends.
const DEEPEST: usize = 512;

pub(super) struct Segment {
    pub(super) text: String,
    pub(super) weight: f32,
}

/// A character of the prompt; escaped parentheses are already plain ones.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Open,
    Close,
    Char(char),
}

pub(super) fn split(prompt: &str) -> Result<Vec<Segment>, Error> {
    let mut segments = Vec::new();
    descend(&marks(prompt), 1.0, 0, &mut segments)?;
    Ok(segments)
}

fn marks(prompt: &str) -> Vec<Mark> {
    let mut marks = Vec::with_capacity(prompt.len());
    let mut chars = prompt.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = chars.next_if(|&next| c == '\\' && matches!(next, '(' | ')'));
        marks.push(match (escaped, c) {
            (Some(parenthesis), _) => Mark::Char(parenthesis),
            (None, '(') => Mark::Open,
            (None, ')') => Mark::Close,
            (None, c) => Mark::Char(c),
        });
    }
    marks
}

fn descend(
    marks: &[Mark],
    weight: f64,
    depth: usize,
    segments: &mut Vec<Segment>,
) -> Result<(), Error> {
    if depth > DEEPEST {
        return Err(Error::Nesting { limit: DEEPEST });
    }
    for item in items(marks) {
        // A group that is never closed counts as one when its last inner group happens to end the prompt.
        if let [Mark::Open, inner @ .., Mark::Close] = item {
            let (inner, weight) = match stated_weight(inner) {
                Some((inner, stated)) => (inner, stated),
                None => (inner, weight * 1.1),
            };
            descend(inner, weight, depth + 1, segments)?;
        } else {
            segments.push(Segment {
                text: text(item),
                weight: weight.clamp(f32::MIN as f64, f32::MAX as f64) as f32,
            });
        }
    }
    Ok(())
}

/// Cuts into outermost groups and the texts between them. A stray `)` is text, and so is the `(` that makes up for it.
fn items(marks: &[Mark]) -> Vec<&[Mark]> {
    let mut items = Vec::new();
    let mut start = 0;
    let mut level = 0i64;
    for (i, mark) in marks.iter().enumerate() {
        let mut cut = start;
        match mark {
            Mark::Open => {
                if level == 0 {
                    cut = i;
                }
                level += 1;
            }
            Mark::Close => {
                level -= 1;
                if level == 0 {
                    cut = i + 1;
                }
            }
            Mark::Char(_) => {}
        }
        if cut > start {
            items.push(&marks[start..cut]);
            start = cut;
        }
    }
    if start < marks.len() {
        items.push(&marks[start..]);
    }
    items
}

/// The text before the last colon and the number behind it, if both are there.
fn stated_weight(group: &[Mark]) -> Option<(&[Mark], f64)> {
    let colon = group.iter().rposition(|&m| m == Mark::Char(':'))?;
    if colon == 0 || group[colon..].iter().any(|m| !matches!(m, Mark::Char(_))) {
        return None;
    }
    Some((&group[..colon], number(&text(&group[colon + 1..]))?))
}

/// What Python's `float` reads, fullwidth digits and underscores between digits included; `inf` and `nan` stay text,
/// where ComfyUI would make a black image of them.
fn number(text: &str) -> Option<f64> {
    let digits = |c| match c {
        '０'..='９' => char::from(b'0' + (c as u32 - '０' as u32) as u8),
        c => c,
    };
    let plain: String = text.trim().chars().map(digits).collect();
    let bytes = plain.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    let misplaced = |(i, _): (usize, &str)| i == 0 || !digit(i - 1) || !digit(i + 1);
    if plain.match_indices('_').any(misplaced) {
        return None;
    }
    let value: f64 = plain.replace('_', "").parse().ok()?;
    (value as f32).is_finite().then_some(value)
}

fn text(marks: &[Mark]) -> String {
    let char = |mark: &Mark| match mark {
        Mark::Open => '(',
        Mark::Close => ')',
        Mark::Char(c) => *c,
    };
    marks.iter().map(char).collect()
}
