//! Which nodes of a graph mean what: those that its outputs need, where settings have their values,
//! and the prompts of each side.

use crate::{Graph, InputKind, Link, Node, Socket, nodes};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A place for a value: the id of a node, and the name of its input.
pub type Place = (String, &'static str);

/// A class of nodes, and one of its inputs.
pub type ClassInput = (&'static str, &'static str);

/// Settings that are one value, by the names of `nino generate`'s flags, and where nodes have them.
pub const SETTINGS: &[(&str, &[ClassInput])] = &[
    (
        "steps",
        &[
            ("KSampler", "steps"),
            ("KSamplerAdvanced", "steps"),
            ("BasicScheduler", "steps"),
            ("KarrasScheduler", "steps"),
            ("ExponentialScheduler", "steps"),
            ("SDTurboScheduler", "steps"),
        ],
    ),
    (
        "cfg",
        &[
            ("KSampler", "cfg"),
            ("KSamplerAdvanced", "cfg"),
            ("SamplerCustom", "cfg"),
            ("CFGGuider", "cfg"),
            ("DualCFGGuider", "cfg_conds"),
            ("PerpNegGuider", "cfg"),
        ],
    ),
    (
        "sampler",
        &[
            ("KSampler", "sampler_name"),
            ("KSamplerAdvanced", "sampler_name"),
            ("KSamplerSelect", "sampler_name"),
        ],
    ),
    (
        "scheduler",
        &[
            ("KSampler", "scheduler"),
            ("KSamplerAdvanced", "scheduler"),
            ("BasicScheduler", "scheduler"),
        ],
    ),
    (
        "denoise",
        &[
            ("KSampler", "denoise"),
            ("BasicScheduler", "denoise"),
            ("SDTurboScheduler", "denoise"),
        ],
    ),
    ("start-at-step", &[("KSamplerAdvanced", "start_at_step")]),
    ("end-at-step", &[("KSamplerAdvanced", "end_at_step")]),
    ("cfg-rescale", &[("RescaleCFG", "multiplier")]),
    ("prediction", &[("ModelSamplingDiscrete", "sampling")]),
    (
        "guidance",
        &[
            ("FluxGuidance", "guidance"),
            ("CLIPTextEncodeFlux", "guidance"),
        ],
    ),
    (
        "batch",
        &[
            ("EmptyLatentImage", "batch_size"),
            ("EmptySD3LatentImage", "batch_size"),
        ],
    ),
    (
        "model",
        &[
            ("CheckpointLoaderSimple", "ckpt_name"),
            ("UNETLoader", "unet_name"),
            ("UnetLoaderGGUF", "unet_name"),
        ],
    ),
    (
        "clip",
        &[("CLIPLoader", "clip_name"), ("CLIPLoaderGGUF", "clip_name")],
    ),
    ("image", &[("LoadImage", "image")]),
    ("mask", &[("LoadImageMask", "image")]),
    ("latent", &[("LoadLatent", "latent")]),
];

/// Nodes that draw noise, and where they have their seed.
pub const SEEDS: &[ClassInput] = &[
    ("KSampler", "seed"),
    ("KSamplerAdvanced", "noise_seed"),
    ("SamplerCustom", "noise_seed"),
    ("RandomNoise", "noise_seed"),
];

/// The ids of the nodes that the output nodes need, and of those nodes themselves. A graph whose
/// output nodes are not known here ends in the nodes that no other needs.
pub fn reached(graph: &Graph) -> BTreeSet<String> {
    let is_output = |node: &Node| {
        let def = node.class.as_deref().and_then(nodes::find);
        def.is_some_and(|def| def.is_output)
    };
    let ids = |is_wanted: &dyn Fn(&str, &Node) -> bool| -> Vec<String> {
        let wanted = graph.iter().filter(|(id, node)| is_wanted(id, node));
        wanted.map(|(id, _)| id.to_owned()).collect()
    };
    let mut open = ids(&|_, node| is_output(node));
    if open.is_empty() {
        let links = graph.iter().flat_map(|(_, node)| node.links());
        let needed: BTreeSet<&str> = links.map(|link| link.node.as_str()).collect();
        open = ids(&|id, _| !needed.contains(id));
    }
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
pub fn places(graph: &Graph, wanted: &[ClassInput]) -> Vec<Place> {
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

/// The value of an input.
pub fn value<'g>(graph: &'g Graph, (node, input): &Place) -> Option<&'g Value> {
    graph.get(node)?.value(input)
}

/// The seeds of nodes that add noise. Others have one that means nothing.
pub fn seeds(graph: &Graph) -> Vec<Place> {
    let adds = |(node, _): &Place| {
        let add = graph.get(node).and_then(|n| n.value("add_noise"));
        !matches!(add, Some(Value::Bool(false))) && add != Some(&json!("disable"))
    };
    places(graph, SEEDS).into_iter().filter(adds).collect()
}

/// The prompts that samplers are given as their `positive` or `negative` ones. A node that is not
/// known here is taken to pass on what it is given.
pub fn prompts(graph: &Graph, side: &'static str) -> Vec<Place> {
    let reached = reached(graph);
    let mut open: Vec<Link> = Vec::new();
    for (_, node) in graph.iter().filter(|(id, _)| reached.contains(*id)) {
        let input = match node.class.as_deref() {
            Some(
                "KSampler" | "KSamplerAdvanced" | "SamplerCustom" | "CFGGuider" | "PerpNegGuider",
            ) => side,
            Some("DualCFGGuider") if side == "positive" => "cond1",
            Some("DualCFGGuider") => side,
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
            let inputs = node.inputs.keys().map(String::as_str);
            let two_sided = node.link("positive").is_some();
            let of_side = inputs.filter(|name| !two_sided || is_of_side(name, link.slot));
            open.extend(of_side.filter_map(|name| node.link(name).cloned()));
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
                InputKind::Socket(Socket::Conditioning | Socket::Any)
                    if !two_sided || is_of_side(input.name, link.slot) =>
                {
                    open.extend(node.link(input.name).cloned());
                }
                _ => {}
            }
        }
    }
    found.into_iter().collect()
}

/// Whether an input is not of the other side, in a node that gives the positive one out first.
fn is_of_side(input: &str, slot: usize) -> bool {
    match slot {
        0 => input != "negative",
        _ => input != "positive",
    }
}
