//! Values as a node takes them. ComfyUI converts with Python's `int`, `float`, `str` and `bool`, so
//! that `"20"` is a number of steps and `1` is true.

use super::problem::Problem;
use crate::Limits;
use crate::node::{InputDef, InputKind};
use crate::python;
use crate::types::Socket;
use crate::value::Value;
use serde_json::Value as Json;

pub(super) fn value(
    def: &'static InputDef,
    given: &Json,
    limits: &Limits,
) -> Result<Value, Problem> {
    let input = def;
    let failed = |to: Socket, why: String| Problem::Conversion {
        input,
        to,
        found: given.clone(),
        why,
    };
    let small = |min: String, found: String| Problem::TooSmall { input, min, found };
    let big = |max: String, found: String| Problem::TooBig { input, max, found };
    match def.kind {
        InputKind::Socket(socket) => {
            Err(failed(socket, "it has to be linked to a node".to_owned()))
        }
        InputKind::Int { min, max, .. } => {
            let number = int(given).map_err(|why| failed(Socket::Int, why))?;
            match number {
                n if n < min => Err(small(min.to_string(), n.to_string())),
                n if n > max => Err(big(max.to_string(), n.to_string())),
                n => Ok(Value::Int(n)),
            }
        }
        InputKind::Float { min, max, .. } => {
            let number = float(given).map_err(|why| failed(Socket::Float, why))?;
            match number {
                n if n < min => Err(small(python::float(min), python::float(n))),
                n if n > max => Err(big(python::float(max), python::float(n))),
                // ComfyUI lets it pass and makes a black picture of it.
                n if n.is_nan() => Err(failed(Socket::Float, "it is not a number".to_owned())),
                n => Ok(Value::Float(n)),
            }
        }
        InputKind::Text { .. } => {
            let text = text(given);
            if text.len() > limits.text {
                let (found, most) = (text.len(), limits.text);
                let why = format!("the text has {found} bytes, {most} are the most");
                return Err(Problem::Custom { input, why });
            }
            Ok(Value::Text(text.into()))
        }
        InputKind::Boolean { .. } => Ok(Value::Boolean(truth(given))),
        InputKind::Combo(options) => {
            let options = options();
            match given.as_str() {
                Some(text) if options.contains(&text) => Ok(Value::Text(text.into())),
                _ => Err(Problem::NotInList {
                    input,
                    found: given.clone(),
                    options: options.into_iter().map(str::to_owned).collect(),
                }),
            }
        }
        // The caller looks for files itself.
        InputKind::File(_) => Ok(Value::Text(choice(given).into())),
    }
}

/// The name of a file, which is a text in every graph that was not written by hand.
pub(super) fn choice(value: &Json) -> String {
    text(value)
}

/// Python's `int`, and its words for what is none.
fn int(value: &Json) -> Result<i128, String> {
    match value {
        Json::Bool(b) => Ok(i128::from(*b)),
        Json::Number(n) => {
            let whole = n.as_u64().map(i128::from).or(n.as_i64().map(i128::from));
            match (whole, n.as_f64()) {
                (Some(whole), _) => Ok(whole),
                (None, Some(float)) if float.is_finite() => Ok(float as i128),
                _ => Err("cannot convert float infinity to integer".to_owned()),
            }
        }
        Json::String(text) => {
            let plain = text.trim().replace('_', "");
            let why = |_| {
                let text = python::repr(value);
                format!("invalid literal for int() with base 10: {text}")
            };
            plain.parse().map_err(why)
        }
        other => Err(format!(
            "int() argument must be a string, a bytes-like object or a real number, not '{}'",
            python::type_name(other)
        )),
    }
}

/// Python's `float`, and its words for what is none.
fn float(value: &Json) -> Result<f64, String> {
    match value {
        Json::Bool(b) => Ok(f64::from(u8::from(*b))),
        Json::Number(n) => Ok(n.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => {
            let plain = text.trim().replace('_', "");
            let why = |_| format!("could not convert string to float: {}", python::repr(value));
            plain.parse().map_err(why)
        }
        other => Err(format!(
            "float() argument must be a string or a real number, not '{}'",
            python::type_name(other)
        )),
    }
}

/// Python's `str`.
fn text(value: &Json) -> String {
    python::words(value)
}

/// Python's `bool`.
fn truth(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(b) => *b,
        Json::Number(n) => n.as_f64() != Some(0.0),
        Json::String(text) => !text.is_empty(),
        Json::Array(list) => !list.is_empty(),
        Json::Object(object) => !object.is_empty(),
    }
}
