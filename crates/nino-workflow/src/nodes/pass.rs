//! Nodes that a page adds for its users and that change nothing: notes, values on their own, bends
//! of links.

use crate::node::NodeDef;
use crate::node::table::{link, named, optional};
use crate::types::Socket;

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "Reroute",
        display_name: "Reroute",
        category: "utils",
        inputs: &[link("", Socket::Any)],
        outputs: &[named("", Socket::Any)],
        is_output: false,
        run: |call| Ok(vec![call.any("")?]),
    },
    NodeDef {
        class: "PrimitiveNode",
        display_name: "Primitive",
        category: "utils",
        inputs: &[link("value", Socket::Any)],
        outputs: &[named("connect to widget input", Socket::Any)],
        is_output: false,
        run: |call| Ok(vec![call.any("value")?]),
    },
    NodeDef {
        class: "Note",
        display_name: "Note",
        category: "utils",
        inputs: &[optional(link("text", Socket::Any))],
        outputs: &[],
        is_output: false,
        run: |_| Ok(Vec::new()),
    },
];
