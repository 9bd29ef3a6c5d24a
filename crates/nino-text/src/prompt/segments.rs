//! Parentheses and weights: a prompt to texts that each have one weight.

use crate::error::Error;
use std::ops::Range;

/// The deepest nesting that is read. ComfyUI fails near 1000, where Python's stack ends.
const DEEPEST: usize = 512;

pub(super) struct Segment {
    pub(super) text: String,
    pub(super) weight: f32,
}

/// A character of the prompt; parentheses that are text, escaped or stray, are already characters.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    /// An opening parenthesis with the index of its `Close`, or `NEVER` when there is none.
    Open(usize),
    Close,
    Char(char),
}

const NEVER: usize = usize::MAX;

pub(super) fn split(prompt: &str) -> Result<Vec<Segment>, Error> {
    let marks = marks(prompt);
    let mut segments = Vec::new();
    descend(&marks, 0..marks.len(), (1.0, 0), &mut segments)?;
    Ok(segments)
}

fn marks(prompt: &str) -> Vec<Mark> {
    let mut marks = Vec::with_capacity(prompt.len());
    let mut open = Vec::new();
    // A stray `)` makes text of the next outermost `(` too.
    let mut strays = 0usize;
    let mut chars = prompt.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = chars.next_if(|&next| c == '\\' && matches!(next, '(' | ')'));
        let mark = match (escaped, c) {
            (Some(parenthesis), _) => Mark::Char(parenthesis),
            (None, '(') if strays > 0 => {
                strays -= 1;
                Mark::Char(c)
            }
            (None, '(') => {
                open.push(marks.len());
                Mark::Open(NEVER)
            }
            (None, ')') => {
                if let Some(place) = open.pop() {
                    marks[place] = Mark::Open(marks.len());
                    Mark::Close
                } else {
                    strays += 1;
                    Mark::Char(c)
                }
            }
            (None, c) => Mark::Char(c),
        };
        marks.push(mark);
    }
    marks
}

/// Adds the segments of `span`. Groups know their end, so every mark is looked at once, however
/// deep it lies.
fn descend(
    marks: &[Mark],
    span: Range<usize>,
    (weight, depth): (f64, usize),
    segments: &mut Vec<Segment>,
) -> Result<(), Error> {
    if depth > DEEPEST {
        return Err(Error::Nesting { limit: DEEPEST });
    }
    let push = |segments: &mut Vec<Segment>, text: &[Mark]| {
        if !text.is_empty() {
            segments.push(Segment {
                text: self::text(text),
                weight: weight.clamp(f32::MIN as f64, f32::MAX as f64) as f32,
            });
        }
    };
    let mut start = span.start;
    let mut i = span.start;
    while i < span.end {
        let Mark::Open(close) = marks[i] else {
            i += 1;
            continue;
        };
        push(segments, &marks[start..i]);
        let end = span.end.min(close.saturating_add(1));
        // A group that is never closed counts as one when its last inner group ends where it does.
        if marks[end - 1] == Mark::Close {
            let inner = i + 1..end - 1;
            let (inner, weight) = match stated_weight(&marks[inner.clone()]) {
                Some((n, stated)) => (inner.start..inner.start + n, stated),
                None => (inner, weight * 1.1),
            };
            descend(marks, inner, (weight, depth + 1), segments)?;
        } else {
            push(segments, &marks[i..end]);
        }
        i = end;
        start = end;
    }
    push(segments, &marks[start..span.end]);
    Ok(())
}

/// Gives the number of marks before a group's last colon and the weight after it, if there are
/// both.
fn stated_weight(group: &[Mark]) -> Option<(usize, f64)> {
    let plain = |m: &&Mark| matches!(m, Mark::Char(c) if *c != ':');
    let behind = group.iter().rev().take_while(plain).count();
    let colon = group.len().checked_sub(behind + 1)?;
    if colon == 0 || group[colon] != Mark::Char(':') {
        return None;
    }
    Some((colon, number(&text(&group[colon + 1..]))?))
}

/// Reads a number as Python's `float` does, with fullwidth digits and with underscores between
/// digits. `inf` and `nan` stay text, where ComfyUI would make a black image of them.
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
        Mark::Open(_) => '(',
        Mark::Close => ')',
        Mark::Char(c) => *c,
    };
    marks.iter().map(char).collect()
}
