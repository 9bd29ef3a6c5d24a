//! The graphs that a workflow of the page is made of: itself, and one for every use of a subgraph.
//! Links are followed through them to the nodes that run.

use crate::graph::Link;
use crate::{GraphError, Limits};
use serde_json::Value;
use std::collections::BTreeMap;

/// Nodes that only the page has.
const REMARKS: [&str; 2] = ["Note", "MarkdownNote"];
/// A bend of a link.
const REROUTE: &str = "Reroute";
/// A value on its own, for widgets that are linked to it.
const PRIMITIVE: &str = "PrimitiveNode";

/// The mode of a node that never runs.
const MUTED: u64 = 2;
/// The mode of a node whose inputs go straight to its outputs.
const BYPASSED: u64 = 4;

/// The mode of any other node.
const RUNS: u64 = 0;

/// The ends of a subgraph's own links that lead outside.
const FROM_OUTSIDE: &str = "-10";
const TO_OUTSIDE: &str = "-20";

/// The types of inputs that have widgets.
const WIDGETS: [&str; 5] = ["INT", "FLOAT", "STRING", "BOOLEAN", "COMBO"];

/// How deep subgraphs may be in each other.
const MAX_DEPTH: usize = 16;

/// All graphs of a workflow; the first one is the workflow itself.
pub(super) struct Parts<'a> {
    parts: Vec<Part<'a>>,
    subgraphs: Vec<&'a Value>,
}

/// One graph: the workflow, or one use of a subgraph.
struct Part<'a> {
    /// What the ids of its nodes begin with.
    prefix: String,
    /// The part with the node that stands for this one, and that node.
    around: Option<(usize, &'a Value)>,
    nodes: BTreeMap<String, &'a Value>,
    /// Links by their numbers.
    links: BTreeMap<u64, Ends>,
    /// The parts that its subgraphs' nodes stand for.
    inner: BTreeMap<String, usize>,
}

/// The ends of a link.
struct Ends {
    from: String,
    slot: usize,
    to: String,
    to_slot: usize,
}

/// What an input gets by its link.
pub(super) enum Source {
    Link(Link),
    Value(Value),
}

impl<'a> Parts<'a> {
    pub(super) fn of(workflow: &'a Value, limits: &Limits) -> Result<Parts<'a>, GraphError> {
        let subgraphs = workflow["definitions"]["subgraphs"].as_array();
        let mut parts = Parts {
            parts: Vec::new(),
            subgraphs: subgraphs.into_iter().flatten().collect(),
        };
        let mut left = limits.nodes;
        parts.add(workflow, "", None, (0, &mut left), limits)?;
        Ok(parts)
    }

    /// Adds a graph with the subgraphs in it; `depth` and `left` are how deep it is and how many
    /// nodes there may be more.
    fn add(
        &mut self,
        graph: &'a Value,
        prefix: &str,
        around: Option<(usize, &'a Value)>,
        (depth, left): (usize, &mut usize),
        limits: &Limits,
    ) -> Result<usize, GraphError> {
        let too_many = || GraphError::Nodes {
            found: limits.nodes + 1,
            most: limits.nodes,
        };
        let nodes = graph["nodes"].as_array().into_iter().flatten();
        let nodes: BTreeMap<String, &Value> = nodes.map(|n| (text(&n["id"]), n)).collect();
        *left = left.checked_sub(nodes.len()).ok_or_else(too_many)?;
        let links = graph["links"].as_array().into_iter().flatten();
        let this = self.parts.len();
        self.parts.push(Part {
            prefix: prefix.to_owned(),
            around,
            links: links.filter_map(ends).collect(),
            nodes: nodes.clone(),
            inner: BTreeMap::new(),
        });
        for (id, node) in nodes {
            let Some(subgraph) = self.subgraph(node).filter(|_| mode(node) == RUNS) else {
                continue;
            };
            if depth == MAX_DEPTH {
                return Err(GraphError::Depth { most: MAX_DEPTH });
            }
            let prefix = format!("{prefix}{id}:");
            let around = Some((this, node));
            let inner = self.add(subgraph, &prefix, around, (depth + 1, left), limits)?;
            self.parts[this].inner.insert(id, inner);
        }
        Ok(this)
    }

    fn subgraph(&self, node: &Value) -> Option<&'a Value> {
        let class = node["type"].as_str()?;
        let mut all = self.subgraphs.iter();
        all.find(|s| s["id"].as_str() == Some(class)).copied()
    }

    /// The nodes that run, each with its part.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (usize, &'a Value)> {
        let all = self.parts.iter().enumerate();
        let all = all.flat_map(|(i, part)| part.nodes.values().map(move |node| (i, *node)));
        all.filter(|(_, node)| {
            let class = node["type"].as_str().unwrap_or_default();
            let on_page = REMARKS.contains(&class) || [REROUTE, PRIMITIVE].contains(&class);
            !on_page && mode(node) == RUNS && self.subgraph(node).is_none()
        })
    }

    /// The input of a subgraph's node that its subgraph has at a place. The node may have fewer of
    /// them, or others first: their names say which is which.
    fn given(&self, node: &'a Value, slot: usize) -> Option<&'a Value> {
        let inputs = node["inputs"].as_array()?;
        match self.subgraph(node)?["inputs"][slot]["name"].as_str() {
            Some(name) => inputs.iter().find(|input| input["name"] == name),
            None => inputs.get(slot),
        }
    }

    /// The value that a subgraph's node itself has for an input of its subgraph: its widgets stand
    /// for the inputs that are no sockets. A node with a list of which widgets it shows has the
    /// values of those, which are the inner nodes' own.
    fn set(&self, node: &Value, slot: usize) -> Option<Value> {
        let inputs = self.subgraph(node)?["inputs"].as_array()?;
        let values = node["widgets_values"].as_array()?;
        let is_widget = |input: &&Value| {
            let kind = input["type"].as_str();
            kind.is_some_and(|kind| WIDGETS.contains(&kind))
        };
        let shows = node["properties"]["proxyWidgets"].as_array();
        let is_list = shows.is_some_and(|shown| !shown.is_empty());
        let n = inputs.iter().filter(is_widget).count();
        let at = inputs.iter().take(slot).filter(is_widget).count();
        let fits = n == values.len() && !is_list;
        inputs.get(slot).filter(is_widget).filter(|_| fits)?;
        values.get(at).filter(|value| !value.is_null()).cloned()
    }

    /// The id of a node as the page sends it.
    pub(super) fn id(&self, part: usize, node: &Value) -> String {
        format!("{}{}", self.parts[part].prefix, text(&node["id"]))
    }

    /// What a link of a part leads to, for an input of type `wanted`; `None` where it leads to
    /// nothing that runs.
    pub(super) fn source(&self, part: usize, link: u64, wanted: &Value) -> Option<Source> {
        let (mut part, mut link) = (part, link);
        // A circle of bends would be followed for ever.
        let steps = self.parts.iter().map(|p| p.links.len()).sum::<usize>();
        for _ in 0..=steps {
            let here = &self.parts[part];
            let ends = here.links.get(&link)?;
            if ends.from == FROM_OUTSIDE {
                let (outside, node) = here.around?;
                let given = self.given(node, ends.slot).and_then(|i| i["link"].as_u64());
                let Some(outer) = given else {
                    return self.set(node, ends.slot).map(Source::Value);
                };
                link = outer;
                part = outside;
                continue;
            }
            let node = *here.nodes.get(&ends.from)?;
            if let Some(&inner) = here.inner.get(&ends.from) {
                let mut inside = self.parts[inner].links.iter();
                let leads_out = |l: &Ends| l.to == TO_OUTSIDE && l.to_slot == ends.slot;
                link = *inside.find(|(_, l)| leads_out(l))?.0;
                part = inner;
                continue;
            }
            match (node["type"].as_str().unwrap_or_default(), mode(node)) {
                (_, MUTED) => return None,
                (REROUTE, _) => link = node["inputs"][0]["link"].as_u64()?,
                (PRIMITIVE, _) => return Some(Source::Value(node["widgets_values"][0].clone())),
                (_, BYPASSED) => link = passed_through(node, ends.slot, wanted)?,
                _ => {
                    return Some(Source::Link(Link {
                        node: self.id(part, node),
                        slot: ends.slot,
                    }));
                }
            }
        }
        None
    }
}

/// The link whose value a bypassed node gives at an output: that of the input at the same place, or
/// of the first one, that has the wanted type.
fn passed_through(node: &Value, slot: usize, wanted: &Value) -> Option<u64> {
    let inputs = node["inputs"].as_array()?;
    let mut all = inputs.get(slot).into_iter().chain(inputs);
    all.find(|input| input["type"] == *wanted)?["link"].as_u64()
}

/// Nodes that say nothing run.
fn mode(node: &Value) -> u64 {
    let mode = node["mode"].as_u64();
    let known = mode.filter(|mode| [MUTED, BYPASSED].contains(mode));
    known.unwrap_or(RUNS)
}

/// A link: a list `[id, from, slot, to, slot, type]`, or an object.
fn ends(link: &Value) -> Option<(u64, Ends)> {
    let field = |i: usize, name: &str| match link {
        Value::Array(link) => link.get(i),
        link => link.get(name),
    };
    let place = |i, name| Some(field(i, name)?.as_u64()? as usize);
    let ends = Ends {
        from: text(field(1, "origin_id")?),
        slot: place(2, "origin_slot")?,
        to: field(3, "target_id").map(text).unwrap_or_default(),
        to_slot: place(4, "target_slot").unwrap_or(0),
    };
    Some((field(0, "id")?.as_u64()?, ends))
}

/// An id, which is a number or a text.
fn text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}
