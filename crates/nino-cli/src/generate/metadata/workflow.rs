//! The graph as ComfyUI's page opens it: the same nodes with places, sockets and widgets.

use super::graph::{Graph, Input, Node};
use nino_workflow::{Need, OutputDef, nodes};
use serde_json::{Value, json};

const WIDTH: usize = 320;
const GAP: usize = 60;

pub(crate) fn workflow(graph: &Graph) -> Value {
    let mut links: Vec<Value> = Vec::new();
    let mut nodes: Vec<Value> = Vec::new();
    // Which links leave each output of each node.
    let mut leaving: Vec<Vec<Vec<usize>>> = graph
        .nodes
        .iter()
        .map(|n| vec![Vec::new(); outputs(n.class).len()])
        .collect();
    let columns = columns(graph);
    let mut heights = vec![0; graph.nodes.len() + 1];
    for (i, node) in graph.nodes.iter().enumerate() {
        let mut inputs = Vec::new();
        for (name, input) in &node.inputs {
            if let Input::Link(l) = input {
                let kind = outputs(graph.nodes[l.node].class)
                    .get(l.slot)
                    .map_or("*", |o| o.socket.name());
                let id = links.len() + 1;
                links.push(json!([id, l.node + 1, l.slot, i + 1, inputs.len(), kind]));
                inputs.push(json!({ "name": name, "type": kind, "link": id }));
                if let Some(slot) = leaving[l.node].get_mut(l.slot) {
                    slot.push(id);
                }
            }
        }
        let height = 60
            + 26 * node.inputs.len()
            + if node.class == "CLIPTextEncode" {
                100
            } else {
                0
            };
        let column = columns[i];
        let y = heights[column];
        heights[column] += height + GAP;
        nodes.push(json!({
            "id": i + 1,
            "type": node.class,
            "pos": [column * (WIDTH + GAP), y],
            "size": [WIDTH, height],
            "flags": {},
            "order": i,
            "mode": 0,
            "inputs": inputs,
            "properties": { "Node name for S&R": node.class },
            "widgets_values": widgets(node),
        }));
    }
    for (i, node) in nodes.iter_mut().enumerate() {
        let described = outputs(graph.nodes[i].class).iter().enumerate();
        let described: Vec<Value> = described
            .map(|(slot, output)| {
                let (name, kind) = (output.name, output.socket.name());
                json!({ "name": name, "type": kind, "links": leaving[i][slot], "slot_index": slot })
            })
            .collect();
        node["outputs"] = Value::Array(described);
    }
    json!({
        "last_node_id": nodes.len(),
        "last_link_id": links.len(),
        "nodes": nodes,
        "links": links,
        "groups": [],
        "config": {},
        "extra": {},
        "version": 0.4,
    })
}

/// One to the right of whatever a node reads.
fn columns(graph: &Graph) -> Vec<usize> {
    let mut columns: Vec<usize> = Vec::new();
    for node in &graph.nodes {
        let sources = node.inputs.iter().filter_map(|(_, input)| match input {
            Input::Link(l) => Some(columns[l.node] + 1),
            Input::Value(_) => None,
        });
        let column = sources.max().unwrap_or(0);
        columns.push(column);
    }
    columns
}

/// Values in the order of a node's widgets; a seed is followed by what happens to it after a run.
fn widgets(node: &Node) -> Vec<Value> {
    let mut values = Vec::new();
    let inputs = node.inputs.iter();
    for (name, input) in inputs.filter(|(name, _)| is_known(node.class, name)) {
        if let Input::Value(value) = input {
            values.push(value.clone());
            if matches!(*name, "seed" | "noise_seed") {
                values.push(json!("fixed"));
            }
        }
    }
    if node.class == "LoadImage" {
        values.push(json!("image"));
    }
    values
}

/// Names and types of what a node gives. Older pages know no outputs of nodes that save.
fn outputs(class: &str) -> &'static [OutputDef] {
    match nodes::find(class) {
        Some(def) if !def.is_output => def.outputs,
        _ => &[],
    }
}

/// Whether ComfyUI knows an input.
fn is_known(class: &str, input: &str) -> bool {
    let input = nodes::find(class).and_then(|def| def.input(input));
    input.is_none_or(|input| input.need != Need::Hidden)
}
