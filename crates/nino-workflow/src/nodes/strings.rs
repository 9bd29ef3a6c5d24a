//! Texts: replaced, cut, compared, searched by patterns, and taken out of JSON.

mod pattern;

use crate::node::table::{boolean, combo, hidden, int, link, named, optional, prompt, text};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use crate::{NodeError, python};
use pattern::{Pattern, PatternError};

const TEXT: &str = "text";
const STRING: InputDef = prompt("string");
const PATTERN: InputDef = prompt("regex_pattern");
const CASE: InputDef = boolean("case_insensitive", true);
const LINES: InputDef = boolean("multiline", false);
const DOT: InputDef = boolean("dotall", false);
/// Numbers of which ComfyUI names no limits.
const ANY: (i128, i128) = (i64::MIN as i128, i64::MAX as i128);

/// A node of texts with one output.
macro_rules! text_node {
    ($class:literal, $name:literal, [$($input:expr),* $(,)?], $out:literal $socket:ident, $run:expr) => {
        NodeDef {
            class: $class,
            display_name: $name,
            category: TEXT,
            inputs: &[$($input),*],
            outputs: &[named($out, Socket::$socket)],
            is_output: false,
            run: $run,
        }
    };
}

pub(super) static NODES: &[NodeDef] = &[
    text_node!(
        "StringConcatenate",
        "Concatenate Text",
        [prompt("string_a"), prompt("string_b"), text("delimiter", "")],
        "STRING" String,
        |call| {
            let parts = ["string_a", "delimiter", "string_b"].map(|input| call.text(input));
            let [a, between, b] = parts;
            made(call, format!("{}{}{}", a?, between?, b?))
        }
    ),
    text_node!(
        "StringSubstring",
        "Substring",
        [STRING, int("start", 0, ANY, 1), int("end", 0, ANY, 1)],
        "STRING" String,
        |call| {
            let (text, start, end) = (call.text("string")?, call.int("start")?, call.int("end")?);
            let n = text.chars().count() as i128;
            let place = |at: i128| (if at < 0 { at + n } else { at }).clamp(0, n) as usize;
            let (start, end) = (place(start), place(end));
            let part = text.chars().skip(start).take(end.saturating_sub(start));
            made(call, part.collect())
        }
    ),
    text_node!("StringLength", "Text Length", [STRING], "length" Int, |call| {
        let n = call.text("string")?.chars().count();
        Ok(vec![Value::Int(n as i128)])
    }),
    text_node!(
        "CaseConverter",
        "Convert Text Case",
        [
            STRING,
            combo("mode", || vec!["UPPERCASE", "lowercase", "Capitalize", "Title Case"]),
        ],
        "STRING" String,
        |call| {
            let text = call.text("string")?;
            let changed = match &*call.text("mode")? {
                "UPPERCASE" => text.to_uppercase(),
                "lowercase" => text.to_lowercase(),
                "Capitalize" => python::capitalized(&text),
                _ => python::titled(&text),
            };
            made(call, changed)
        }
    ),
    text_node!(
        "StringTrim",
        "Trim Text",
        [STRING, combo("mode", || vec!["Both", "Left", "Right"])],
        "STRING" String,
        |call| {
            let text = call.text("string")?;
            let trimmed = match &*call.text("mode")? {
                "Left" => text.trim_start_matches(python::is_space),
                "Right" => text.trim_end_matches(python::is_space),
                _ => text.trim_matches(python::is_space),
            };
            made(call, trimmed.to_owned())
        }
    ),
    text_node!(
        "StringReplace",
        "Replace Text",
        [STRING, prompt("find"), prompt("replace")],
        "STRING" String,
        replace
    ),
    text_node!(
        "StringContains",
        "Contains Text",
        [STRING, prompt("substring"), boolean("case_sensitive", true)],
        "contains" Boolean,
        |call| {
            let [all, part] = in_case(call, ["string", "substring"])?;
            Ok(vec![Value::Boolean(all.contains(&part))])
        }
    ),
    text_node!(
        "StringCompare",
        "Compare Text",
        [
            prompt("string_a"),
            prompt("string_b"),
            combo("mode", || vec!["Starts With", "Ends With", "Equal"]),
            boolean("case_sensitive", true),
        ],
        "BOOLEAN" Boolean,
        |call| {
            let [a, b] = in_case(call, ["string_a", "string_b"])?;
            let same = match &*call.text("mode")? {
                "Starts With" => a.starts_with(&b),
                "Ends With" => a.ends_with(&b),
                _ => a == b,
            };
            Ok(vec![Value::Boolean(same)])
        }
    ),
    text_node!(
        "RegexMatch",
        "Match Text",
        [STRING, PATTERN, CASE, LINES, DOT],
        "matches" Boolean,
        |call| {
            let text = call.text("string")?;
            let found = match searched(call)? {
                Some(pattern) => pattern.first(&text)?.is_some(),
                None => false,
            };
            Ok(vec![Value::Boolean(found)])
        }
    ),
    text_node!(
        "RegexExtract",
        "Extract Text",
        [
            STRING,
            PATTERN,
            combo("mode", || {
                vec!["First Match", "All Matches", "First Group", "All Groups"]
            }),
            CASE,
            LINES,
            DOT,
            int("group_index", 1, (0, 100), 1),
        ],
        "STRING" String,
        extract
    ),
    text_node!(
        "RegexReplace",
        "Replace Text (Regex)",
        [
            STRING,
            PATTERN,
            prompt("replace"),
            optional(CASE),
            optional(LINES),
            optional(DOT),
            optional(int("count", 0, (0, 100), 1)),
        ],
        "STRING" String,
        |call| {
            let (text, with) = (call.text("string")?, call.text("replace")?);
            let pattern = compiled(call)??;
            let count = match call.get("count") {
                Some(_) => call.size("count")?,
                None => 0,
            };
            let most = call.settings.limits.text;
            let replaced = pattern.replaced(&text, &with, count, most);
            made(call, replaced?)
        }
    ),
    text_node!(
        "JsonExtractString",
        "Extract Text from JSON",
        [prompt("json_string"), text("key", "")],
        "STRING" String,
        |call| {
            let found = python::value_in_words(&call.text("json_string")?, &call.text("key")?);
            made(call, found)
        }
    ),
    NodeDef {
        class: "CustomCombo",
        display_name: "Custom Combo",
        category: "utilities",
        // Its user writes the choices, which only the page knows.
        inputs: &[text("choice", ""), hidden(int("index", 0, ANY, 1))],
        outputs: &[named("STRING", Socket::String), named("INDEX", Socket::Int)],
        is_output: false,
        run: |call| {
            let index = call.get("index").unwrap_or(Value::Int(0));
            Ok(vec![call.any("choice")?, index])
        },
    },
    NodeDef {
        class: "ComfyNumberConvert",
        display_name: "Convert Number",
        category: "utilities",
        inputs: &[link("value", Socket::Scalar)],
        outputs: &[named("FLOAT", Socket::Float), named("INT", Socket::Int)],
        is_output: false,
        run: number,
    },
];

/// A text as a result; an error where it is longer than texts may be.
fn made(call: &Call<'_, '_>, text: String) -> Result<Vec<Value>, NodeError> {
    has_room(call, text.len())?;
    Ok(vec![Value::Text(text.into())])
}

fn has_room(call: &Call<'_, '_>, bytes: usize) -> Result<(), NodeError> {
    let most = call.settings.limits.text;
    if bytes > most {
        return Err(NodeError::Input(format!(
            "the text would have {bytes} bytes, {most} are the most"
        )));
    }
    Ok(())
}

/// Two texts, in small letters where capitals make no difference.
fn in_case(call: &Call<'_, '_>, inputs: [&'static str; 2]) -> Result<[String; 2], NodeError> {
    let exact = call.boolean("case_sensitive")?;
    let [a, b] = inputs.map(|input| call.text(input));
    let in_case = |text: &str| {
        if exact {
            text.to_owned()
        } else {
            text.to_lowercase()
        }
    };
    Ok([in_case(&a?), in_case(&b?)])
}

fn replace(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (text, find, with) = (
        call.text("string")?,
        call.text("find")?,
        call.text("replace")?,
    );
    // Known before it is made: what is replaced may be many times longer.
    let n = text.matches(&*find).count();
    has_room(
        call,
        (text.len() - n * find.len()).saturating_add(n.saturating_mul(with.len())),
    )?;
    made(call, text.replace(&*find, &with))
}

/// The pattern of a node, with what it is told.
fn compiled(call: &Call<'_, '_>) -> Result<Result<Pattern, PatternError>, NodeError> {
    let on = |input: &'static str, default: bool| match call.get(input) {
        Some(_) => call.boolean(input),
        None => Ok(default),
    };
    let flags = pattern::Flags {
        any_case: on("case_insensitive", true)?,
        lines: on("multiline", false)?,
        dot_all: on("dotall", false)?,
    };
    Ok(Pattern::new(&call.text("regex_pattern")?, flags))
}

/// The pattern of a node that finds nothing by a wrong one, as ComfyUI has it.
fn searched(call: &Call<'_, '_>) -> Result<Option<Pattern>, NodeError> {
    match compiled(call)? {
        Ok(pattern) => Ok(Some(pattern)),
        Err(PatternError::Wrong(why)) => {
            tracing::warn!(
                node = call.node,
                why,
                "the pattern is wrong and finds nothing"
            );
            Ok(None)
        }
        Err(limit) => Err(limit.into()),
    }
}

impl From<PatternError> for NodeError {
    fn from(error: PatternError) -> NodeError {
        NodeError::Input(error.to_string())
    }
}

fn extract(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (text, index) = (call.text("string")?, call.size("group_index")?);
    let Some(pattern) = searched(call)? else {
        return made(call, String::new());
    };
    let groups = pattern.groups();
    let found = match &*call.text("mode")? {
        "First Match" => pattern.first(&text)?.map(|m| m.group(0).to_owned()),
        "First Group" if groups >= index => {
            pattern.first(&text)?.map(|m| m.group(index).to_owned())
        }
        // Of a pattern with groups, Python's `findall` gives the first.
        "All Matches" => Some(joined(&pattern, &text, groups.min(1))?),
        "All Groups" if groups >= index.max(1) => Some(joined(&pattern, &text, index)?),
        _ => None,
    };
    made(call, found.unwrap_or_default())
}

/// A group of every match, a line each.
fn joined(pattern: &Pattern, text: &str, group: usize) -> Result<String, NodeError> {
    let all = pattern.all(text)?;
    let each: Vec<&str> = all.iter().map(|found| found.group(group)).collect();
    Ok(each.join("\n"))
}

fn number(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let wrong = |found: &dyn std::fmt::Debug| NodeError::Input(format!("{found:?} is no number"));
    let (float, int) = match call.any("value")? {
        Value::Boolean(b) => (f64::from(u8::from(b)), i128::from(b)),
        Value::Int(n) => (n as f64, n),
        Value::Float(n) => (n, n as i128),
        Value::Text(text) => {
            let plain = text.trim_matches(python::is_space).replace('_', "");
            let float: f64 = plain.parse().map_err(|_| wrong(&text))?;
            (float, plain.parse().unwrap_or(float as i128))
        }
        other => return Err(wrong(&other.socket())),
    };
    if !float.is_finite() {
        return Err(NodeError::Input(format!("{float} is no finite number")));
    }
    Ok(vec![Value::Float(float), Value::Int(int)])
}
