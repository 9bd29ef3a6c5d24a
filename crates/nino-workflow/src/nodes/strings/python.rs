//! Values as Python writes them, and texts as its methods change them.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fmt::Write;

/// Python's `str.isspace`: white space, and the four separators of ASCII.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// A letter at the beginning of a word: one that becomes two is written with one capital.
fn capital(c: char) -> String {
    let mut upper = c.to_uppercase();
    let first = upper.next().into_iter();
    first.chain(upper.flat_map(char::to_lowercase)).collect()
}

/// Python's `str.capitalize`.
pub(super) fn capitalized(text: &str) -> String {
    let first = text.chars().next();
    // The last sigma of a word is written in another way, which only the whole word tells.
    let lower = text.to_lowercase();
    let skipped: usize = first.map_or(0, |c| c.to_lowercase().map(char::len_utf8).sum());
    first.map(capital).unwrap_or_default() + &lower[skipped..]
}

/// Python's `str.title`: every letter that follows none is a capital.
pub(super) fn titled(text: &str) -> String {
    let is_cased = |c: char| c.is_lowercase() || c.is_uppercase();
    let mut made = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_cased) {
        let end = rest[start..]
            .find(|c| !is_cased(c))
            .map_or(rest.len(), |n| start + n);
        made.push_str(&rest[..start]);
        made.push_str(&capitalized(&rest[start..end]));
        rest = &rest[end..];
    }
    made + rest
}

/// A float as Python's `repr` writes it: the fewest digits that are the number, with an exponent
/// where it is very large or small.
pub(in crate::nodes) fn float(n: f64) -> String {
    if n.is_nan() {
        return "nan".to_owned();
    }
    if n.is_infinite() {
        return if n > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let size = n.abs();
    if size == 0.0 || (1e-4..1e16).contains(&size) {
        return format!("{n:?}");
    }
    let short = format!("{n:e}");
    let (digits, exponent) = short.split_once('e').unwrap_or((&short, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// What JSON has at a key, as Python's `str` writes it; nothing where it is no object with
/// that key.
pub(super) fn value_in_words(json: &str, key: &str) -> String {
    let Ok(Tree::Object(entries)) = serde_json::from_str(json) else {
        return String::new();
    };
    match entries.into_iter().find(|(name, _)| name == key) {
        Some((_, Tree::Null)) | None => String::new(),
        Some((_, Tree::Text(text))) => text,
        Some((_, value)) => {
            let mut words = String::new();
            value.write(&mut words);
            words
        }
    }
}

/// JSON whose objects keep the order they are written in, as Python's do.
enum Tree {
    Null,
    /// What is written as it is: numbers and truths.
    Plain(String),
    Text(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Tree {
    fn write(&self, to: &mut String) {
        match self {
            Tree::Null => to.push_str("None"),
            Tree::Plain(words) => to.push_str(words),
            Tree::Text(text) => quoted(text, to),
            Tree::List(values) => {
                to.push('[');
                for (i, value) in values.iter().enumerate() {
                    to.push_str(if i == 0 { "" } else { ", " });
                    value.write(to);
                }
                to.push(']');
            }
            Tree::Object(entries) => {
                to.push('{');
                for (i, (key, value)) in entries.iter().enumerate() {
                    to.push_str(if i == 0 { "" } else { ", " });
                    quoted(key, to);
                    to.push_str(": ");
                    value.write(to);
                }
                to.push('}');
            }
        }
    }
}

/// A text in quotes, as Python's `repr` writes it.
fn quoted(text: &str, to: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    to.push(quote);
    for c in text.chars() {
        match c {
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            c if c == quote => to.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(to, "\\x{:02x}", c as u32); // to memory, which does not fail
            }
            c => to.push(c),
        }
    }
    to.push(quote);
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Tree, D::Error> {
        from.deserialize_any(Read)
    }
}

struct Read;

impl<'de> Visitor<'de> for Read {
    type Value = Tree;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Plain(if value { "True" } else { "False" }.to_owned()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Plain(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Plain(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Plain(float(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Tree, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = from.next_element()? {
            values.push(value);
        }
        Ok(Tree::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Tree, A::Error> {
        let mut entries: Vec<(String, Tree)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        while let Some((key, value)) = from.next_entry::<String, Tree>()? {
            // A key that is there again keeps its place and has the last value.
            if let Some(&at) = places.get(&key) {
                entries[at].1 = value;
            } else {
                places.insert(key.clone(), entries.len());
                entries.push((key, value));
            }
        }
        Ok(Tree::Object(entries))
    }
}
