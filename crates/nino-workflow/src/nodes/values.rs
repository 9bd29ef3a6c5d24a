//! Numbers and texts as nodes of their own.

use crate::node::NodeDef;
use crate::node::table::{boolean, float, int, named, prompt, text};
use crate::types::Socket;

const PRIMITIVE: &str = "utilities/primitive";
/// ComfyUI's limits of a number that may be anything.
const ANY: (i128, i128) = (-(i64::MAX as i128), i64::MAX as i128);

/// A node that gives the value it is given.
macro_rules! primitive {
    ($class:literal, $name:literal, $input:expr, $output:literal, $socket:expr) => {
        NodeDef {
            class: $class,
            display_name: $name,
            category: PRIMITIVE,
            inputs: &[$input],
            outputs: &[named($output, $socket)],
            is_output: false,
            run: |call| Ok(vec![call.any("value")?]),
        }
    };
}

pub(super) static NODES: &[NodeDef] = &[
    primitive!(
        "PrimitiveInt",
        "Int",
        int("value", 0, ANY, 1),
        "INT",
        Socket::Int
    ),
    primitive!(
        "PrimitiveFloat",
        "Float",
        float("value", 0.0, (ANY.0 as f64, ANY.1 as f64), 0.1),
        "FLOAT",
        Socket::Float
    ),
    primitive!(
        "PrimitiveString",
        "Text",
        text("value", ""),
        "STRING",
        Socket::String
    ),
    primitive!(
        "PrimitiveStringMultiline",
        "Text (Multiline)",
        prompt("value"),
        "STRING",
        Socket::String
    ),
    primitive!(
        "PrimitiveBoolean",
        "Boolean",
        boolean("value", false),
        "BOOLEAN",
        Socket::Boolean
    ),
];
