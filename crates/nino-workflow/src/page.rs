//! A workflow as ComfyUI's page saves it, turned into the graph that the page would send to be run.
//!
//! The page's format has nodes with a list of their widgets' values, and a table of links. It does
//! not say which value belongs to which input: for classes known here the order of their inputs
//! says it. Values of other classes stay without names, which is enough to tell what a workflow
//! wants; it does not run in any case. What exists on the page only is resolved (`parts.rs`):
//! bends of links, values on their own, nodes that are switched off, and subgraphs.

mod parts;
#[cfg(test)]
mod tests;

use crate::graph::{Graph, Input, Node};
use crate::node::{InputDef, InputKind, Need, NodeDef};
use crate::nodes::dynamic;
use crate::{GraphError, Limits, fill_defaults, nodes};
use parts::{Parts, Source};
use serde_json::Value;
use std::collections::BTreeMap;

/// A workflow of the page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Its nodes. Values of a node whose class is not known here have the names of widgets' places.
    pub graph: Graph,
    /// Where files come from, by their names, as far as the workflow says it.
    pub addresses: BTreeMap<String, String>,
}

/// What the page adds after a seed: what becomes of it after a run. Older ones wrote whether it is
/// drawn anew.
const AFTER_SEED: [&str; 4] = ["fixed", "increment", "decrement", "randomize"];

/// Whether JSON is a workflow of the page.
pub fn is_page(value: &Value) -> bool {
    value["nodes"].is_array() && value.get("links").is_some()
}

/// Reads a graph in either format: the API's, or that of the page.
pub fn read_either(text: &str, limits: &Limits) -> Result<Graph, GraphError> {
    let value = Graph::parse(text, limits)?;
    if is_page(&value) {
        return Ok(read(&value, limits)?.graph);
    }
    Graph::from_value(value, limits)
}

/// Reads a workflow of the page. Nodes of a subgraph get the ids that the page sends: that of the
/// subgraph's node, a colon, and their own.
pub fn read(value: &Value, limits: &Limits) -> Result<Page, GraphError> {
    let parts = Parts::of(value, limits)?;
    let mut page = Page::default();
    for (part, node) in parts.nodes() {
        let models = node["properties"]["models"].as_array();
        for model in models.into_iter().flatten() {
            if let (Some(name), Some(url)) = (model["name"].as_str(), model["url"].as_str()) {
                page.addresses.insert(name.to_owned(), url.to_owned());
            }
        }
        let id = parts.id(part, node);
        page.graph.insert(id, read_node(&parts, part, node));
    }
    drop_loose_links(&mut page.graph);
    // Inputs that a class has got since the workflow was saved.
    fill_defaults(&mut page.graph);
    Ok(page)
}

fn read_node(parts: &Parts<'_>, part: usize, node: &Value) -> Node {
    let class = node["type"].as_str().unwrap_or_default();
    let mut read = Node::new(class);
    read.title = node["title"].as_str().map(str::to_owned);
    let values = match &node["widgets_values"] {
        Value::Object(named) => named.clone().into_iter().collect(),
        Value::Array(values) => named(class, values),
        _ => Vec::new(),
    };
    for (name, value) in values {
        read.inputs.insert(name, Input::Value(value));
    }
    for input in node["inputs"].as_array().into_iter().flatten() {
        let (Some(name), Some(link)) = (input["name"].as_str(), input["link"].as_u64()) else {
            continue;
        };
        // What is linked has no value of its own, although its widget still holds one. A link that
        // leads to nothing leaves that one.
        match parts.source(part, link, &input["type"]) {
            Some(Source::Link(link)) => {
                read.inputs.insert(name.to_owned(), Input::Link(link));
            }
            Some(Source::Value(value)) => {
                read.inputs.insert(name.to_owned(), Input::Value(value));
            }
            None => {}
        }
    }
    read
}

/// Links to nodes that are not in the graph are left out, as the page does it.
fn drop_loose_links(graph: &mut Graph) {
    let ids: Vec<String> = graph.iter().map(|(id, _)| id.to_owned()).collect();
    for id in &ids {
        let Some(node) = graph.get_mut(id) else {
            continue;
        };
        let is_loose = |input: &Input| match input {
            Input::Link(link) => !ids.contains(&link.node),
            _ => false,
        };
        node.inputs.retain(|_, input| !is_loose(input));
    }
}

/// Names for the values of a node's widgets.
fn named(class: &str, values: &[Value]) -> Vec<(String, Value)> {
    if let Some(def) = nodes::find(class) {
        return in_order(def, values);
    }
    let places = values.iter().enumerate();
    places
        .map(|(i, value)| (format!("widget {i}"), value.clone()))
        .collect()
}

/// The values of widgets are in the order of the inputs that are no sockets: first those that have
/// to be given, each with those that stand below it.
fn in_order(def: &'static NodeDef, values: &[Value]) -> Vec<(String, Value)> {
    let mut values = values.iter().peekable();
    let mut named = Vec::new();
    let is_widget = |input: &&InputDef| !matches!(input.kind, InputKind::Socket(_));
    let of = |need: Need| def.inputs.iter().filter(move |input| input.need == need);
    // The next one is at the end.
    let mut inputs: Vec<&InputDef> = of(Need::Required).chain(of(Need::Optional)).collect();
    inputs.retain(is_widget);
    inputs.reverse();
    while let (Some(input), Some(value)) = (inputs.pop(), values.next()) {
        named.push((input.name.to_owned(), value.clone()));
        let below = dynamic::below(def, input.name, value).into_iter();
        inputs.extend(below.filter(is_widget).rev());
        if matches!(input.name, "seed" | "noise_seed") {
            values.next_if(|v| match v {
                Value::Bool(_) => true,
                Value::String(word) => AFTER_SEED.contains(&&**word),
                _ => false,
            });
        }
    }
    named
}
