//! A workflow as ComfyUI's page saves it: nodes with a list of their widgets' values, and a table
//! of links.
//!
//! The page's format leaves out which value belongs to which input; for classes known here the
//! order of their inputs says it. That is enough to tell what a workflow is, and not to run one: a
//! class may have had other inputs when the workflow was saved.

use crate::graph::{Graph, Input, Link, Node};
use crate::node::{InputKind, NodeDef};
use crate::{GraphError, Limits, nodes};
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

/// Nodes that only the page has.
const REMARKS: [&str; 2] = ["Note", "MarkdownNote"];

/// The modes of nodes that do not run: never, and left out of the way.
const UNUSED: [u64; 2] = [2, 4];

/// What the page adds after a seed: what becomes of it after a run.
const AFTER_SEED: [&str; 4] = ["fixed", "increment", "decrement", "randomize"];

/// Whether JSON is a workflow of the page.
pub fn is_page(value: &Value) -> bool {
    value["nodes"].is_array() && value.get("links").is_some()
}

/// Reads a workflow of the page, with the nodes of its subgraphs.
pub fn read(value: &Value, limits: &Limits) -> Result<Page, GraphError> {
    let subgraphs = value["definitions"]["subgraphs"].as_array();
    let subgraphs: Vec<&Value> = subgraphs.into_iter().flatten().collect();
    let is_subgraph = |class: &str| subgraphs.iter().any(|s| s["id"].as_str() == Some(class));
    let mut page = Page::default();
    let parts = std::iter::once(("", value)).chain(subgraphs.iter().map(|s| {
        let id = s["id"].as_str().unwrap_or_default();
        (id, *s)
    }));
    for (prefix, part) in parts {
        let links = links(&part["links"], prefix);
        for node in part["nodes"].as_array().into_iter().flatten() {
            let class = node["type"].as_str().unwrap_or_default();
            let mode = node["mode"].as_u64().unwrap_or(0);
            if REMARKS.contains(&class) || UNUSED.contains(&mode) || is_subgraph(class) {
                continue;
            }
            if page.graph.len() == limits.nodes {
                return Err(GraphError::Nodes {
                    found: page.graph.len() + 1,
                    most: limits.nodes,
                });
            }
            for model in node["properties"]["models"]
                .as_array()
                .into_iter()
                .flatten()
            {
                if let (Some(name), Some(url)) = (model["name"].as_str(), model["url"].as_str()) {
                    page.addresses.insert(name.to_owned(), url.to_owned());
                }
            }
            let id = id(prefix, &node["id"]);
            page.graph.insert(id, read_node(class, node, &links));
        }
    }
    Ok(page)
}

fn read_node(class: &str, node: &Value, links: &BTreeMap<u64, Link>) -> Node {
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
    // What is linked has no value of its own, although its widget still holds one.
    for input in node["inputs"].as_array().into_iter().flatten() {
        let link = input["link"].as_u64().and_then(|id| links.get(&id));
        if let (Some(name), Some(link)) = (input["name"].as_str(), link) {
            read.inputs
                .insert(name.to_owned(), Input::Link(link.clone()));
        }
    }
    read
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

/// The values of widgets are in the order of the inputs that are no sockets.
fn in_order(def: &NodeDef, values: &[Value]) -> Vec<(String, Value)> {
    let mut values = values.iter().peekable();
    let mut named = Vec::new();
    let widgets = def.inputs.iter();
    for input in widgets.filter(|i| !matches!(i.kind, InputKind::Socket(_))) {
        let Some(value) = values.next() else { break };
        named.push((input.name.to_owned(), value.clone()));
        if matches!(input.name, "seed" | "noise_seed") {
            values.next_if(|v| v.as_str().is_some_and(|v| AFTER_SEED.contains(&v)));
        }
    }
    named
}

/// Links by their numbers: lists `[id, from, slot, to, slot, type]`, or objects.
fn links(table: &Value, prefix: &str) -> BTreeMap<u64, Link> {
    let all = table.as_array().into_iter().flatten();
    let all = all.filter_map(|link| {
        let (number, from, slot) = match link {
            Value::Array(link) => (link.first()?, link.get(1)?, link.get(2)?),
            link => (
                link.get("id")?,
                link.get("origin_id")?,
                link.get("origin_slot")?,
            ),
        };
        let link = Link {
            node: id(prefix, from),
            slot: slot.as_u64()? as usize,
        };
        Some((number.as_u64()?, link))
    });
    all.collect()
}

/// The id of a node; those of subgraphs begin with the subgraph's.
fn id(prefix: &str, id: &Value) -> String {
    let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    match prefix {
        "" => id,
        _ => format!("{prefix}:{id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_page, read};
    use crate::Limits;
    use serde_json::json;

    #[test]
    fn widgets_get_the_names_of_inputs_and_links_win() {
        let page = json!({
            "nodes": [
                { "id": 1, "type": "CheckpointLoaderSimple", "widgets_values": ["m.safetensors"],
                  "properties": { "models": [
                      { "name": "m.safetensors", "url": "https://example.com/m.safetensors" }] } },
                { "id": 3, "type": "KSampler", "title": "Refine",
                  "inputs": [{ "name": "model", "link": 7 }, { "name": "cfg", "link": 8 }],
                  "widgets_values": [42, "randomize", 20, 7.5, "euler", "karras", 1] },
                { "id": 4, "type": "SomeLoader", "widgets_values": ["x.gguf", 3] },
                { "id": 5, "type": "Note", "widgets_values": ["hello"] },
                { "id": 6, "type": "VAEDecode", "mode": 4 },
            ],
            "links": [[7, 1, 0, 3, 0, "MODEL"], { "id": 8, "origin_id": 4, "origin_slot": 1 }],
        });
        assert!(is_page(&page));
        let page = read(&page, &Limits::default()).unwrap();
        assert_eq!(page.graph.len(), 3);
        let sampler = page.graph.get("3").unwrap();
        assert_eq!(sampler.value("seed"), Some(&json!(42)));
        assert_eq!(sampler.value("steps"), Some(&json!(20)));
        assert_eq!(sampler.value("scheduler"), Some(&json!("karras")));
        assert_eq!(sampler.link("model").unwrap().node, "1");
        assert_eq!(sampler.link("cfg").unwrap().slot, 1);
        let other = page.graph.get("4").unwrap();
        assert_eq!(other.value("widget 0"), Some(&json!("x.gguf")));
        assert!(page.addresses["m.safetensors"].ends_with("m.safetensors"));
    }

    #[test]
    fn subgraphs_are_read_into_the_graph() {
        let page = json!({
            "nodes": [{ "id": 1, "type": "abc" }],
            "links": [],
            "definitions": { "subgraphs": [{ "id": "abc", "links": [],
                "nodes": [{ "id": 9, "type": "VAELoader", "widgets_values": ["v.pt"] }] }] },
        });
        let graph = read(&page, &Limits::default()).unwrap().graph;
        assert_eq!(graph.len(), 1);
        let loader = graph.get("abc:9").unwrap();
        assert_eq!(loader.value("vae_name"), Some(&json!("v.pt")));
        let few = Limits {
            nodes: 0,
            ..Limits::default()
        };
        assert!(read(&page, &few).is_err());
    }
}
