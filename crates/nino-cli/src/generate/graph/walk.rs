//! Which nodes of a graph mean what: those that its outputs need, and the prompts of each side.

use nino_workflow::{Graph, InputKind, Link, Socket, nodes};
use std::collections::BTreeSet;

/// A place for a value: a node, and its input.
pub(super) type Place = (String, &'static str);

/// The ids of the nodes that the output nodes need, and of those nodes themselves.
pub(super) fn reached(graph: &Graph) -> BTreeSet<String> {
    let is_output = |class: &Option<String>| {
        let def = class.as_deref().and_then(nodes::find);
        def.is_some_and(|def| def.is_output)
    };
    let outputs = graph.iter().filter(|(_, node)| is_output(&node.class));
    let mut open: Vec<String> = outputs.map(|(id, _)| id.to_owned()).collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = open.pop() {
        let Some(node) = graph.get(&id) else { continue };
        if reached.insert(id) {
            open.extend(node.links().map(|link| link.node.clone()));
        }
    }
    reached
}

/// The places of these classes and inputs whose value the graph gives itself.
pub(super) fn places(graph: &Graph, wanted: &[(&str, &'static str)]) -> Vec<Place> {
    let reached = reached(graph);
    let mut places = Vec::new();
    for (id, node) in graph.iter().filter(|(id, _)| reached.contains(*id)) {
        for (class, input) in wanted {
            if node.class.as_deref() == Some(class) && node.value(input).is_some() {
                places.push((id.to_owned(), *input));
            }
        }
    }
    places
}

/// The prompts that samplers are given as their positive or negative ones.
pub(super) fn prompts(graph: &Graph, side: &'static str) -> Vec<Place> {
    let reached = reached(graph);
    let mut open: Vec<Link> = Vec::new();
    for (_, node) in graph.iter().filter(|(id, _)| reached.contains(*id)) {
        let input = match node.class.as_deref() {
            Some("KSampler" | "KSamplerAdvanced" | "SamplerCustom" | "CFGGuider") => side,
            Some("BasicGuider") if side == "positive" => "conditioning",
            _ => continue,
        };
        open.extend(node.link(input).cloned());
    }
    let mut seen: BTreeSet<(String, usize)> = BTreeSet::new();
    let mut found: BTreeSet<Place> = BTreeSet::new();
    while let Some(link) = open.pop() {
        if !seen.insert((link.node.clone(), link.slot)) {
            continue;
        }
        let Some(node) = graph.get(&link.node) else {
            continue;
        };
        let Some(def) = node.class.as_deref().and_then(nodes::find) else {
            continue;
        };
        // A node with two sides gives each out again at the place of its own.
        let two_sided = def.input("positive").is_some();
        for input in def.inputs {
            match input.kind {
                InputKind::Text {
                    multiline: true, ..
                } if node.value(input.name).is_some() => {
                    found.insert((link.node.clone(), input.name));
                }
                InputKind::Socket(Socket::Conditioning | Socket::Any) => {
                    let of_side = match link.slot {
                        0 => input.name != "negative",
                        _ => input.name != "positive",
                    };
                    if !two_sided || of_side {
                        open.extend(node.link(input.name).cloned());
                    }
                }
                _ => {}
            }
        }
    }
    found.into_iter().collect()
}
