//! A graph of nodes in ComfyUI's API format: `{"id": {"class_type": …, "inputs": {…}}}`.
//!
//! An input is a value or a link, `["id", slot]`, to another node's output. `{"__value__": x}` is
//! the value `x` itself, which lets a value be a list. Nothing is known here of which nodes there
//! are; [`crate::check`] is the place for that.

use crate::GraphError;
use nino_engine::device::HostMemory;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// How large a graph may be. It may come from anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of JSON.
    pub bytes: usize,
    pub nodes: usize,
    /// Bytes of one text, such as a prompt.
    pub text: usize,
    /// Numbers in one result of a node: a batch of pictures, latents or masks.
    pub values: usize,
}

impl Limits {
    /// The limits of this machine, by the memory that it has or that its control group allows.
    #[must_use]
    pub fn of_this_machine() -> Limits {
        let memory = HostMemory::read();
        let allowed = memory.limit.map(|limit| limit.bytes);
        Limits::for_memory(allowed.into_iter().chain(memory.total).min())
    }

    /// As many numbers in a result as a machine with so much memory can hold: a quarter of it, as
    /// a node's inputs are there beside its result, or the default where it is more.
    #[must_use]
    fn for_memory(bytes: Option<u64>) -> Limits {
        let usual = Limits::default();
        let quarter = bytes.map_or(0, |bytes| bytes / 4 / size_of::<f32>() as u64);
        let quarter = usize::try_from(quarter).unwrap_or(usize::MAX);
        Limits {
            values: usual.values.max(quarter),
            ..usual
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes: 16 << 20,
            nodes: 5_000,
            text: nino_engine::MAX_PROMPT_BYTES,
            // 1 GiB, which is five pictures of 4096 by 4096.
            values: 1 << 28,
        }
    }
}

/// Nodes by their ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    nodes: BTreeMap<Id, Node>,
}

/// A node's id. Ids that are numbers come first, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Id(String);

/// One node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// `None` where the graph does not say, which is an error once it is checked.
    pub class: Option<String>,
    /// The title its user gave it.
    pub title: Option<String>,
    pub inputs: BTreeMap<String, Input>,
}

/// What an input is given.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Link(Link),
    Value(Value),
    /// A list that is no link: not an id and an output's number.
    BadLink(Value),
}

/// An output of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    pub node: String,
    pub slot: usize,
}

/// Bytes of a value as JSON without blanks.
pub fn json_bytes(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

impl Graph {
    /// Reads a graph in the API format.
    pub fn from_json(text: &str, limits: &Limits) -> Result<Graph, GraphError> {
        Graph::from_value(Graph::parse(text, limits)?, limits)
    }

    /// The JSON of a graph in any format.
    pub(crate) fn parse(text: &str, limits: &Limits) -> Result<Value, GraphError> {
        if text.len() > limits.bytes {
            return Err(GraphError::Bytes {
                found: text.len(),
                most: limits.bytes,
            });
        }
        serde_json::from_str(text).or_else(|error| {
            // Python writes NaN, which JSON does not have.
            let without = text.replace(": NaN", ": null");
            serde_json::from_str(&without).map_err(|_| GraphError::Json(error))
        })
    }

    /// A graph out of JSON that was read already, such as the body of a request.
    pub fn from_value(value: Value, limits: &Limits) -> Result<Graph, GraphError> {
        let bytes = json_bytes(&value);
        if bytes > limits.bytes {
            return Err(GraphError::Bytes {
                found: bytes,
                most: limits.bytes,
            });
        }
        let Value::Object(nodes) = value else {
            return Err(GraphError::NotNodes {
                found: kind(&value),
            });
        };
        if nodes.get("nodes").is_some_and(Value::is_array) && nodes.contains_key("links") {
            return Err(GraphError::PageFormat);
        }
        if nodes.len() > limits.nodes {
            return Err(GraphError::Nodes {
                found: nodes.len(),
                most: limits.nodes,
            });
        }
        let nodes = nodes.into_iter().map(|(id, node)| {
            let node = Node::from_json(&id, node)?;
            Ok((Id(id), node))
        });
        Ok(Graph {
            nodes: nodes.collect::<Result<_, GraphError>>()?,
        })
    }

    /// The graph in the API format.
    pub fn to_json(&self) -> Value {
        let nodes = self
            .iter()
            .map(|(id, node)| (id.to_owned(), node.to_json()));
        Value::Object(nodes.collect())
    }

    /// Ids and nodes, in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(id, node)| (id.0.as_str(), node))
    }

    pub fn get(&self, id: &str) -> Option<&Node> {
        self.nodes.get(&Id(id.to_owned()))
    }

    pub fn get_mut(&mut self, id: &str) -> Option<&mut Node> {
        self.nodes.get_mut(&Id(id.to_owned()))
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Puts a node under an id, in place of one that was there.
    pub(crate) fn insert(&mut self, id: String, node: Node) {
        self.nodes.insert(Id(id), node);
    }

    /// Adds a node under an id that is not taken, which it returns.
    pub fn add(&mut self, node: Node) -> String {
        let free = (self.nodes.len() + 1..).map(|n| n.to_string());
        let mut free = free.filter(|id| self.get(id).is_none());
        let id = free.next().expect("there are more numbers than nodes");
        self.nodes.insert(Id(id.clone()), node);
        id
    }

    /// Every input that is linked to `from` is linked to `to` instead, but not those of the node
    /// `except`.
    pub fn relink(&mut self, from: &Link, to: &Link, except: &str) {
        for (id, node) in &mut self.nodes {
            if id.0 == except {
                continue;
            }
            for input in node.inputs.values_mut() {
                if *input == Input::Link(from.clone()) {
                    *input = Input::Link(to.clone());
                }
            }
        }
    }
}

impl Node {
    /// A node of a class without inputs.
    pub fn new(class: &str) -> Node {
        Node {
            class: Some(class.to_owned()),
            ..Node::default()
        }
    }

    /// The same with a value for an input.
    #[must_use]
    pub fn with(mut self, input: &str, value: impl Into<Value>) -> Node {
        self.inputs
            .insert(input.to_owned(), Input::Value(value.into()));
        self
    }

    /// The same with an input linked to an output of another node.
    #[must_use]
    pub fn linked(mut self, input: &str, node: &str, slot: usize) -> Node {
        let link = Link {
            node: node.to_owned(),
            slot,
        };
        self.inputs.insert(input.to_owned(), Input::Link(link));
        self
    }

    /// The value of an input; `None` where it is linked or not given.
    pub fn value(&self, input: &str) -> Option<&Value> {
        match self.inputs.get(input) {
            Some(Input::Value(value)) => Some(value),
            _ => None,
        }
    }

    /// Where an input is linked to; `None` where it is a value or not given.
    pub fn link(&self, input: &str) -> Option<&Link> {
        match self.inputs.get(input) {
            Some(Input::Link(link)) => Some(link),
            _ => None,
        }
    }

    /// The nodes its inputs are linked to.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.inputs.values().filter_map(|input| match input {
            Input::Link(link) => Some(link),
            _ => None,
        })
    }

    fn from_json(id: &str, node: Value) -> Result<Node, GraphError> {
        let broken = |what| GraphError::Node {
            id: id.to_owned(),
            what,
        };
        let Value::Object(mut node) = node else {
            return Err(broken("it is no object"));
        };
        let class = match node.remove("class_type") {
            None | Some(Value::Null) => None,
            Some(Value::String(class)) => Some(class),
            Some(_) => return Err(broken("its class_type is no text")),
        };
        let inputs = match node.remove("inputs") {
            None => Map::new(),
            Some(Value::Object(inputs)) => inputs,
            Some(_) => return Err(broken("its inputs are no object")),
        };
        let title = node.get("_meta").and_then(|meta| meta["title"].as_str());
        Ok(Node {
            class,
            title: title.map(str::to_owned),
            inputs: inputs
                .into_iter()
                .map(|(name, value)| (name, Input::from_json(value)))
                .collect(),
        })
    }

    fn to_json(&self) -> Value {
        let inputs = self.inputs.iter();
        let inputs = inputs.map(|(name, input)| (name.clone(), input.to_json()));
        let mut node = json!({ "inputs": inputs.collect::<Map<_, _>>() });
        if let Some(class) = &self.class {
            node["class_type"] = json!(class);
        }
        if let Some(title) = &self.title {
            node["_meta"] = json!({ "title": title });
        }
        node
    }
}

impl Input {
    fn from_json(value: Value) -> Input {
        match value {
            Value::Array(list) => match &list[..] {
                [Value::String(node), slot] if slot.is_u64() => Input::Link(Link {
                    node: node.clone(),
                    slot: slot.as_u64().unwrap_or_default() as usize,
                }),
                _ => Input::BadLink(Value::Array(list)),
            },
            Value::Object(mut object) if object.contains_key("__value__") => {
                Input::Value(object.remove("__value__").unwrap_or_default())
            }
            value => Input::Value(value),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match self {
            Input::Link(link) => json!([link.node, link.slot]),
            Input::BadLink(value) => value.clone(),
            Input::Value(list @ Value::Array(_)) => json!({ "__value__": list }),
            Input::Value(value) => value.clone(),
        }
    }
}

impl Ord for Id {
    fn cmp(&self, other: &Id) -> std::cmp::Ordering {
        let key = |id: &Id| match id.0.parse::<u64>() {
            Ok(number) => (0, number, id.0.clone()),
            Err(_) => (1, 0, id.0.clone()),
        };
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Id) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// What JSON calls a value.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
