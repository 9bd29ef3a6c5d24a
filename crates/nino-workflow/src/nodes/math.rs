//! Numbers out of formulas and out of the shape of a picture, and a choice between two values.

mod expression;
mod numbers;
#[cfg(test)]
mod tests;

use crate::NodeError;
use crate::node::table::{boolean, combo, float, grown, hidden, int, link, named, prompt_of};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use numbers::Number;

/// The names that numbers of a formula have, with the inputs that give them.
macro_rules! letters {
    ($($letter:literal)*) => {
        const LETTERS: &[(&str, &str)] = &[$(($letter, concat!("values.", $letter))),*];
        const FORMULA: &[InputDef] = &[
            prompt_of("expression", "a + b"),
            grown("values"),
            $(hidden(link(concat!("values.", $letter), Socket::Number))),*
        ];
    };
}

letters!("a" "b" "c" "d" "e" "f" "g" "h" "i" "j" "k" "l" "m" "n" "o" "p" "q" "r" "s" "t" "u" "v"
         "w" "x" "y" "z");

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "ComfyMathExpression",
        display_name: "Math Expression",
        category: "utilities",
        inputs: FORMULA,
        outputs: &[
            named("FLOAT", Socket::Float),
            named("INT", Socket::Int),
            named("BOOL", Socket::Boolean),
        ],
        is_output: false,
        run: formula,
    },
    // The side that is not taken is not run: the executor sees to that.
    NodeDef {
        class: "ComfySwitchNode",
        display_name: "If/Else Switch",
        category: "utilities/logic",
        inputs: &[
            boolean("switch", false),
            link("on_false", Socket::Any),
            link("on_true", Socket::Any),
        ],
        outputs: &[named("output", Socket::Any)],
        is_output: false,
        run: |call| {
            let side = if call.boolean("switch")? {
                "on_true"
            } else {
                "on_false"
            };
            Ok(vec![call.any(side)?])
        },
    },
    NodeDef {
        class: "ResolutionSelector",
        display_name: "Resolution Selector",
        category: "utilities",
        inputs: &[
            combo("aspect_ratio", || ASPECTS.map(|(name, _)| name).to_vec()),
            float("megapixels", 1.0, (0.1, 16.0), 0.1),
            int("multiple", 8, (8, 128), 4),
        ],
        outputs: &[named("width", Socket::Int), named("height", Socket::Int)],
        is_output: false,
        run: resolution,
    },
];

fn formula(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let text = call.text("expression")?;
    let given = LETTERS.iter().filter_map(|(letter, input)| {
        let number = match call.get(input)? {
            Value::Int(n) => Number::Int(n),
            Value::Float(n) => Number::Float(n),
            Value::Boolean(b) => Number::Bool(b),
            _ => return None,
        };
        Some((*letter, number))
    });
    let given: Vec<(&str, Number)> = given.collect();
    let wrong = |why: String| NodeError::Input(format!("the formula {text:?}: {why}"));
    let value = expression::value(&text, &given).map_err(wrong)?;
    if !value.float().is_finite() {
        return Err(wrong("its value is no finite number".to_owned()));
    }
    Ok(vec![
        Value::Float(value.float()),
        Value::Int(value.int().map_err(wrong)?),
        Value::Boolean(value.truth()),
    ])
}

const ASPECTS: [(&str, (f64, f64)); 8] = [
    ("1:1 (Square)", (1.0, 1.0)),
    ("2:3 (Portrait Photo)", (2.0, 3.0)),
    ("3:2 (Photo)", (3.0, 2.0)),
    ("3:4 (Portrait Standard)", (3.0, 4.0)),
    ("4:3 (Standard)", (4.0, 3.0)),
    ("9:16 (Portrait Widescreen)", (9.0, 16.0)),
    ("16:9 (Widescreen)", (16.0, 9.0)),
    ("21:9 (Ultrawide)", (21.0, 9.0)),
];

/// Width and height of so many pixels in a shape.
fn resolution(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (name, multiple) = (call.text("aspect_ratio")?, call.int("multiple")?.max(1));
    let known = ASPECTS.iter().find(|(known, _)| *known == &*name);
    let unknown = || NodeError::Input(format!("no picture has the shape {name}"));
    let (_, (w, h)) = known.ok_or_else(unknown)?;
    let by = (call.float("megapixels")? * 1024.0 * 1024.0 / (w * h)).sqrt();
    let side = |n: f64| (n * by / multiple as f64).round_ties_even() as i128 * multiple;
    Ok(vec![Value::Int(side(*w)), Value::Int(side(*h))])
}
