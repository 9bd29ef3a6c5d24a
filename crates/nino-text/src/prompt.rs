//! The prompt syntax: which text carries which weight, where embeddings stand, where a chunk must
//! begin.
//!
//! `(text)` multiplies the weight by 1.1, also nested; `(text:1.3)` sets it; `\(` and `\)` are
//! plain parentheses; `embedding:name` at a word's beginning is a textual inversion. `BREAK`, a
//! word in capitals, starts a new chunk: in ComfyUI itself it is an ordinary word, but its users'
//! prompts mean what AUTOMATIC1111's web UI made of it.

mod segments;
#[cfg(test)]
mod tests;

use crate::error::Error;

const EMBEDDING: &str = "embedding:";
const BREAK: &str = "BREAK";

/// One stretch of a prompt, in order.
#[derive(Debug, PartialEq)]
pub(crate) enum Run {
    Text { text: String, weight: f32 },
    Embedding { name: String, weight: f32 },
    Missing { name: String },
    Break,
}

/// Reads a prompt; `exists` says whether there is an embedding of a name, `with_breaks` whether
/// `BREAK` starts a new chunk.
pub(crate) fn parse(
    prompt: &str,
    with_breaks: bool,
    exists: &dyn Fn(&str) -> bool,
) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    for segment in segments::split(prompt)? {
        let parts = if with_breaks {
            breaks(&segment.text)
        } else {
            vec![&segment.text[..]]
        };
        for (i, part) in parts.into_iter().enumerate() {
            if i > 0 {
                runs.push(Run::Break);
            }
            for word in embeddings(part) {
                self::word(word, segment.weight, exists, &mut runs);
            }
        }
    }
    Ok(runs)
}

/// Reads a prompt whose parentheses are text, and `\(` the same as `(`.
pub(crate) fn without_weights(prompt: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Run> {
    let text = prompt.replace("\\(", "(").replace("\\)", ")");
    let mut runs = Vec::new();
    for word in embeddings(&text) {
        self::word(word, 1.0, exists, &mut runs);
    }
    runs
}

fn word(word: &str, weight: f32, exists: &dyn Fn(&str) -> bool, runs: &mut Vec<Run>) {
    let text = |text: String| Run::Text { text, weight };
    let Some(named) = word.strip_prefix(EMBEDDING) else {
        runs.push(text(word.to_owned()));
        return;
    };
    let mut words = named.split(is_space).filter(|w| !w.is_empty());
    let Some(name) = words.next() else {
        runs.push(text(word.to_owned()));
        return;
    };
    let (name, glued) = name.split_at(name.find(['<', '[']).unwrap_or(name.len()));
    let rest: Vec<&str> = Some(glued)
        .filter(|g| !g.is_empty())
        .into_iter()
        .chain(words)
        .collect();
    let mut rest = rest.join(" ");

    let mut found = exists(name).then_some(name);
    let bare = name.trim_matches(',');
    if found.is_none() && bare.len() < name.len() {
        found = exists(bare).then_some(bare);
        // ComfyUI keeps as text as many bytes of the name's end as it cut commas, even those cut in
        // front.
        let kept: String = name.chars().skip(bare.chars().count()).collect();
        rest = format!("{kept} {rest}");
    }
    runs.push(match found {
        Some(name) => Run::Embedding {
            name: name.to_owned(),
            weight,
        },
        None => Run::Missing {
            name: bare.to_owned(),
        },
    });
    if !rest.is_empty() {
        runs.push(text(rest));
    }
}

/// Cuts before every `embedding:` that follows white space.
fn embeddings(text: &str) -> Vec<&str> {
    let cut = |&(at, _): &(usize, &str)| text[..at].ends_with(is_space);
    cut_at(
        text,
        text.match_indices(EMBEDDING)
            .filter(cut)
            .map(|(at, _)| (at, at)),
    )
}

/// The texts between the words `BREAK`.
fn breaks(text: &str) -> Vec<&str> {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    let cuts = text
        .match_indices(BREAK)
        .map(|(at, word)| (at, at + word.len()));
    let alone = |&(from, to): &(usize, usize)| {
        !text[..from].ends_with(in_word) && !text[to..].starts_with(in_word)
    };
    cut_at(text, cuts.filter(alone))
}

/// The texts around the given (from, to) byte ranges.
fn cut_at(text: &str, cuts: impl Iterator<Item = (usize, usize)>) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (from, to) in cuts {
        parts.push(&text[start..from]);
        start = to;
    }
    parts.push(&text[start..]);
    parts
}

/// Python's idea of white space, which has four separators that Unicode's has not.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\x1c'..='\x1f')
}
