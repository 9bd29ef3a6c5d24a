//! Rename rules: patterns over dotted names, where `*` stands for one segment.

use super::Op;

/// What the stars of a pattern matched, in order.
pub(crate) struct Captures<'a>(Vec<&'a str>);

impl Captures<'_> {
    /// Matches a whole name; `None` when it does not fit.
    pub(crate) fn of<'a>(pattern: &str, name: &'a str) -> Option<Captures<'a>> {
        let mut stars = Vec::new();
        let (mut pattern, mut name) = (pattern.split('.'), name.split('.'));
        loop {
            match (pattern.next(), name.next()) {
                (None, None) => return Some(Captures(stars)),
                (Some("*"), Some(segment)) => stars.push(segment),
                (Some(p), Some(n)) if p == n => {}
                _ => return None,
            }
        }
    }

    /// Puts the matches into the stars of a target.
    pub(crate) fn fill(&self, target: &str) -> String {
        let mut stars = self.0.iter();
        let filled = target.split('.').map(|s| {
            if s == "*" {
                stars.next().unwrap_or(&s)
            } else {
                s
            }
        });
        filled.collect::<Vec<_>>().join(".")
    }
}

/// The first rule that fits.
pub(super) fn rewrite(rules: &[(&str, &str)], name: &str) -> Option<String> {
    rules
        .iter()
        .find_map(|(from, to)| Some(Captures::of(from, name)?.fill(to)))
}

/// Rewrites a name as [`rewrite`] does, for tables with operations.
pub(super) fn rewrite_op(rules: &[(&str, &str, Op)], name: &str) -> Option<(String, Op)> {
    rules
        .iter()
        .find_map(|&(from, to, op)| Some((Captures::of(from, name)?.fill(to), op)))
}

/// Replaces the longest key of the table that `rest` starts with at a dot; the remainder is kept.
pub(super) fn leaf(table: &[(&str, &str)], rest: &str) -> Option<String> {
    table.iter().find_map(|(from, to)| {
        let tail = rest.strip_prefix(from)?;
        (tail.is_empty() || tail.starts_with('.')).then(|| format!("{to}{tail}"))
    })
}

/// A leading number and what follows its dot. Numbers that no network has count as no numbers, so
/// that rules can compute with the others.
pub(super) fn number(name: &str) -> Option<(usize, &str)> {
    let (digits, rest) = name.split_once('.')?;
    let number: u16 = digits.parse().ok()?;
    Some((usize::from(number), rest))
}

/// One more than the largest number that follows `prefix`.
pub(super) fn count(names: &[&str], prefix: &str) -> usize {
    names
        .iter()
        .filter_map(|n| number(n.strip_prefix(prefix)?))
        .map(|(i, _)| i + 1)
        .max()
        .unwrap_or(0)
}
