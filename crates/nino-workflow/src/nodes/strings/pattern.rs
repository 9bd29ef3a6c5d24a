//! Patterns of Python's `re`, by a matcher with limits: one that would take for ever is an error.

mod translate;

use fancy_regex::{Captures, CompileError, Error, Regex, RegexBuilder};
use std::time::{Duration, Instant};
use translate::{Names, translated};

/// Bytes of a pattern.
const MOST_PATTERN: usize = 8 << 10;
/// Ways that one search may try.
const MOST_TRIES: usize = 250_000;
/// Steps of a compiled pattern, and bytes of its tables.
const MOST_STEPS: usize = 50_000;
const MOST_TABLE: usize = 4 << 20;
/// How long the searches of one node may take together.
const MOST_TIME: Duration = Duration::from_secs(5);

/// What a pattern is told beside itself.
#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    pub(super) any_case: bool,
    /// `^` and `$` are at every line.
    pub(super) lines: bool,
    /// A dot is also the end of a line.
    pub(super) dot_all: bool,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum PatternError {
    #[error("the pattern is invalid: {0}")]
    Wrong(String),
    #[error("the pattern has {0} bytes; the limit is {MOST_PATTERN}")]
    Long(usize),
    #[error("the pattern has too many repeats")]
    Complex,
    #[error(
        "the pattern backtracked more than {MOST_TRIES} times at one position: write it with fewer \
         nested repeats"
    )]
    Tries,
    #[error("the search took more than {} seconds", MOST_TIME.as_secs())]
    Time,
    #[error("the text would have more than {0} bytes")]
    Result(usize),
}

impl From<Error> for PatternError {
    fn from(error: Error) -> PatternError {
        match error {
            Error::RuntimeError(_) => PatternError::Tries,
            Error::CompileError(error) if is_limit(&error) => PatternError::Complex,
            other => PatternError::Wrong(other.to_string()),
        }
    }
}

fn is_limit(error: &CompileError) -> bool {
    matches!(
        error,
        CompileError::PatternTooComplex | CompileError::InnerError(_)
    )
}

pub(super) struct Pattern {
    plain: Regex,
    /// The same, but nothing is found that ends where the search begins: what Python looks for
    /// after it found nothing but the place itself.
    onward: Regex,
    names: Names,
}

/// A match: its whole and its groups.
pub(super) struct Found<'t>(Captures<'t, str>);

impl<'t> Found<'t> {
    /// The text of a group, 0 being all; nothing where it took no part.
    pub(super) fn group(&self, index: usize) -> &'t str {
        self.0.get(index).map_or("", |group| group.as_str())
    }

    fn range(&self) -> (usize, usize) {
        self.0.get(0).map_or((0, 0), |all| (all.start(), all.end()))
    }
}

impl Pattern {
    pub(super) fn new(pattern: &str, flags: Flags) -> Result<Pattern, PatternError> {
        if pattern.len() > MOST_PATTERN {
            return Err(PatternError::Long(pattern.len()));
        }
        let (text, names) = translated(pattern, flags).map_err(PatternError::Wrong)?;
        let build = |text: &str| {
            let mut builder = RegexBuilder::new(text);
            builder
                .backtrack_limit(MOST_TRIES)
                .max_prog_size(MOST_STEPS);
            builder.delegate_size_limit(MOST_TABLE).build()
        };
        Ok(Pattern {
            plain: build(&text)?,
            onward: build(&format!("(?:{text})(?!\\G)"))?,
            names,
        })
    }

    /// How many groups it has beside the whole.
    pub(super) fn groups(&self) -> usize {
        self.names.groups
    }

    pub(super) fn first<'t>(&self, text: &'t str) -> Result<Option<Found<'t>>, PatternError> {
        Ok(self.plain.captures(text)?.map(Found))
    }

    pub(super) fn all<'t>(&self, text: &'t str) -> Result<Vec<Found<'t>>, PatternError> {
        self.some(text, usize::MAX)
    }

    /// Matches one after the other, as Python finds them: an empty one may follow another.
    fn some<'t>(&self, text: &'t str, most: usize) -> Result<Vec<Found<'t>>, PatternError> {
        let begun = Instant::now();
        let mut found: Vec<Found<'t>> = Vec::new();
        let mut at = 0;
        let mut regex = &self.plain;
        while found.len() < most
            && let Some(captures) = regex.captures_from_pos(text, at)?
        {
            let next = Found(captures);
            let (start, end) = next.range();
            regex = if start == end {
                &self.onward
            } else {
                &self.plain
            };
            at = end;
            found.push(next);
            if begun.elapsed() > MOST_TIME {
                return Err(PatternError::Time);
            }
        }
        Ok(found)
    }

    /// Matches replaced by what `with` says, `count` of them, or all for 0. Python's `re.sub`.
    pub(super) fn replaced(
        &self,
        text: &str,
        with: &str,
        count: usize,
        most_bytes: usize,
    ) -> Result<String, PatternError> {
        let parts = translate::template(with, &self.names).map_err(PatternError::Wrong)?;
        let count = if count == 0 { usize::MAX } else { count };
        let mut made = String::new();
        let mut done = 0;
        for found in self.some(text, count)? {
            let (start, end) = found.range();
            made.push_str(&text[done..start]);
            for (literal, group) in &parts {
                made.push_str(literal);
                made.push_str(group.map_or("", |group| found.group(group)));
            }
            done = end;
            if made.len() > most_bytes {
                return Err(PatternError::Result(most_bytes));
            }
        }
        made.push_str(&text[done..]);
        Ok(made)
    }
}
