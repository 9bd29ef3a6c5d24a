//! Values as Python writes them, and texts as its methods change them.

use serde_json::Value;
use std::fmt::Write;

/// Python's `str.isspace`: white space, and the four separators of ASCII.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// A letter at the beginning of a word: one that becomes two is written with one capital.
fn capital(c: char) -> String {
    let mut upper = c.to_uppercase();
    let first = upper.next().into_iter();
    first.chain(upper.flat_map(char::to_lowercase)).collect()
}

/// Python's `str.capitalize`.
pub(crate) fn capitalized(text: &str) -> String {
    let first = text.chars().next();
    // The last sigma of a word is written in another way, which only the whole word tells.
    let lower = text.to_lowercase();
    let skipped: usize = first.map_or(0, |c| c.to_lowercase().map(char::len_utf8).sum());
    first.map(capital).unwrap_or_default() + &lower[skipped..]
}

/// Python's `str.title`: every letter that follows none is a capital.
pub(crate) fn titled(text: &str) -> String {
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
pub(crate) fn float(n: f64) -> String {
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
pub(crate) fn value_in_words(json: &str, key: &str) -> String {
    let Ok(Value::Object(entries)) = serde_json::from_str(json) else {
        return String::new();
    };
    match entries.get(key) {
        Some(Value::Null) | None => String::new(),
        Some(value) => words(value),
    }
}

/// A value as Python's `str` writes it: a text is itself.
pub(crate) fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => repr(value),
    }
}

/// A value as Python's `repr` writes it: a text is in quotes.
pub(crate) fn repr(value: &Value) -> String {
    let mut to = String::new();
    write(value, &mut to);
    to
}

fn write(value: &Value, to: &mut String) {
    match value {
        Value::Null => to.push_str("None"),
        Value::Bool(true) => to.push_str("True"),
        Value::Bool(false) => to.push_str("False"),
        Value::Number(n) => match n.as_f64().filter(|_| n.is_f64()) {
            Some(n) => to.push_str(&float(n)),
            None => to.push_str(&n.to_string()),
        },
        Value::String(text) => quoted(text, to),
        Value::Array(values) => {
            to.push('[');
            for (i, value) in values.iter().enumerate() {
                to.push_str(if i == 0 { "" } else { ", " });
                write(value, to);
            }
            to.push(']');
        }
        Value::Object(entries) => {
            to.push('{');
            for (i, (key, value)) in entries.iter().enumerate() {
                to.push_str(if i == 0 { "" } else { ", " });
                quoted(key, to);
                to.push_str(": ");
                write(value, to);
            }
            to.push('}');
        }
    }
}

/// The name of a value's type.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
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
