//! What is wrong with a graph, with ComfyUI's names, messages and details, and as the JSON that its
//! server answers with.

use crate::graph::{Link, Node};
use crate::node::{InputDef, InputKind};
use crate::python;
use crate::types::Socket;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A graph of which nothing can run.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// Classes of nodes that are not known, all of them.
    #[error("{}", missing_nodes(.0))]
    MissingNodes(Vec<MissingNode>),
    #[error("the graph has no output: no node of it saves or shows anything")]
    NoOutputs,
    #[error("{}", failed(problems))]
    Outputs {
        /// The outputs that cannot run.
        outputs: Vec<String>,
        /// What is wrong, by the node it is wrong with.
        problems: BTreeMap<String, NodeProblems>,
    },
}

/// A node of a class that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingNode {
    pub node: String,
    /// `None` where the graph does not say.
    pub class: Option<String>,
    pub title: Option<String>,
    /// Classes that are known and take and give what it does, the likeliest first.
    pub would_serve: Vec<&'static str>,
}

/// What is wrong with the inputs of a node.
#[derive(Clone, Debug)]
pub struct NodeProblems {
    pub class: &'static str,
    pub problems: Vec<Problem>,
    /// The outputs that need the node.
    pub dependent_outputs: Vec<String>,
}

/// What is wrong with one input.
#[derive(Clone, Debug)]
pub enum Problem {
    Missing {
        input: &'static InputDef,
    },
    BadLink {
        input: &'static InputDef,
        found: Json,
    },
    NoSuchNode {
        input: &'static InputDef,
        link: Link,
    },
    NoSuchOutput {
        input: &'static InputDef,
        link: Link,
        outputs: usize,
    },
    Type {
        input: &'static InputDef,
        received: Socket,
        link: Link,
    },
    Conversion {
        input: &'static InputDef,
        to: Socket,
        found: Json,
        why: String,
    },
    TooSmall {
        input: &'static InputDef,
        min: String,
        found: String,
    },
    TooBig {
        input: &'static InputDef,
        max: String,
        found: String,
    },
    NotInList {
        input: &'static InputDef,
        found: Json,
        options: Vec<String>,
    },
    /// What this program finds wrong beyond ComfyUI's own checks, such as a file that is not there.
    Custom {
        input: &'static InputDef,
        why: String,
    },
    /// The node needs itself.
    Cycle {
        node: String,
        /// `3 (KSampler) -> 8 (VAEDecode) -> 3 (KSampler)`; a long way is shortened.
        path: Arc<str>,
        /// The nodes of that way.
        nodes: Arc<[String]>,
    },
}

/// Lists of more names than this are counted, not shown.
const SHOWN: usize = 20;

impl Problem {
    /// ComfyUI's name of the kind of problem.
    pub fn kind(&self) -> &'static str {
        match self {
            Problem::Missing { .. } => "required_input_missing",
            Problem::BadLink { .. } => "bad_linked_input",
            Problem::NoSuchNode { .. } | Problem::NoSuchOutput { .. } => {
                "exception_during_inner_validation"
            }
            Problem::Type { .. } => "return_type_mismatch",
            Problem::Conversion { .. } => "invalid_input_type",
            Problem::TooSmall { .. } => "value_smaller_than_min",
            Problem::TooBig { .. } => "value_bigger_than_max",
            Problem::NotInList { .. } => "value_not_in_list",
            Problem::Custom { .. } => "custom_validation_failed",
            Problem::Cycle { .. } => "dependency_cycle",
        }
    }

    /// ComfyUI's sentence for it.
    pub fn message(&self) -> String {
        match self {
            Problem::Missing { .. } => "Required input is missing".to_owned(),
            Problem::BadLink { .. } => {
                "Bad linked input, must be a length-2 list of [node_id, slot_index]".to_owned()
            }
            Problem::NoSuchNode { .. } | Problem::NoSuchOutput { .. } => {
                "Exception when validating inner node".to_owned()
            }
            Problem::Type { .. } => "Return type mismatch between linked nodes".to_owned(),
            Problem::Conversion { to, .. } => {
                format!("Failed to convert an input value to a {to} value")
            }
            Problem::TooSmall { min, found, .. } => {
                format!("Value {found} smaller than min of {min}")
            }
            Problem::TooBig { max, found, .. } => {
                format!("Value {found} bigger than max of {max}")
            }
            Problem::NotInList { .. } => "Value not in list".to_owned(),
            Problem::Custom { .. } => "Custom validation failed for node".to_owned(),
            Problem::Cycle { .. } => "Dependency cycle detected".to_owned(),
        }
    }

    /// What it is about: the input, and what was found.
    pub fn details(&self) -> String {
        match self {
            Problem::Missing { input }
            | Problem::BadLink { input, .. }
            | Problem::TooSmall { input, .. }
            | Problem::TooBig { input, .. } => input.name.to_owned(),
            Problem::NoSuchNode { input, link } => {
                format!("{}: there is no node '{}'", input.name, link.node)
            }
            Problem::NoSuchOutput {
                input,
                link,
                outputs,
            } => format!(
                "{}: node '{}' has {outputs} outputs, none of them is number {}",
                input.name, link.node, link.slot
            ),
            Problem::Type {
                input, received, ..
            } => format!(
                "{}, received_type({received}) mismatch input_type({})",
                input.name,
                input.kind.socket()
            ),
            Problem::Conversion {
                input, found, why, ..
            } => format!("{}, {}, {why}", input.name, python::words(found)),
            Problem::NotInList {
                input,
                found,
                options,
            } => {
                let listed = if options.len() > SHOWN {
                    format!("(list of length {})", options.len())
                } else {
                    let options: Vec<String> = options.iter().map(|o| format!("'{o}'")).collect();
                    format!("[{}]", options.join(", "))
                };
                format!("{}: {} not in {listed}", input.name, python::repr(found))
            }
            Problem::Custom { input, why } => format!("{} - {why}", input.name),
            Problem::Cycle { path, .. } => path.to_string(),
        }
    }

    /// ComfyUI's JSON of it.
    pub fn to_json(&self) -> Json {
        let mut extra = json!({});
        match self {
            Problem::Cycle { node, nodes, .. } => {
                extra = json!({ "node_id": node, "cycle_nodes": nodes[..] });
            }
            Problem::Missing { input } | Problem::Custom { input, .. } => {
                extra["input_name"] = json!(input.name);
            }
            Problem::NoSuchNode { input, link } | Problem::NoSuchOutput { input, link, .. } => {
                extra["input_name"] = json!(input.name);
                extra["linked_node"] = json!([link.node, link.slot]);
            }
            Problem::Type {
                input,
                received,
                link,
            } => {
                extra["input_name"] = json!(input.name);
                extra["input_config"] = config(input.kind);
                extra["received_type"] = json!(received.name());
                extra["linked_node"] = json!([link.node, link.slot]);
            }
            Problem::BadLink { input, found } => {
                extra["input_name"] = json!(input.name);
                extra["input_config"] = config(input.kind);
                extra["received_value"] = found.clone();
            }
            Problem::Conversion {
                input, found, why, ..
            } => {
                extra["input_name"] = json!(input.name);
                extra["input_config"] = config(input.kind);
                extra["received_value"] = found.clone();
                extra["exception_message"] = json!(why);
            }
            Problem::TooSmall { input, found, .. } | Problem::TooBig { input, found, .. } => {
                extra["input_name"] = json!(input.name);
                extra["input_config"] = config(input.kind);
                extra["received_value"] = serde_json::from_str(found).unwrap_or(json!(found));
            }
            Problem::NotInList {
                input,
                found,
                options,
            } => {
                extra["input_name"] = json!(input.name);
                let short = options.len() <= SHOWN;
                extra["input_config"] = if short {
                    json!([options, {}])
                } else {
                    Json::Null
                };
                extra["received_value"] = found.clone();
            }
        }
        json!({
            "type": self.kind(),
            "message": self.message(),
            "details": self.details(),
            "extra_info": extra,
        })
    }
}

/// The type and the range of an input, as ComfyUI tells them beside an error.
fn config(kind: InputKind) -> Json {
    let name = kind.socket().name();
    match kind {
        InputKind::Int { min, max, .. } => {
            let [min, max] = [min, max].map(crate::node::integer);
            json!([name, { "min": min, "max": max }])
        }
        InputKind::Float { min, max, .. } => json!([name, { "min": min, "max": max }]),
        _ => json!([name, {}]),
    }
}

/// Writes the problem for people. ComfyUI's own words are [`Problem::message`] and
/// [`Problem::details`].
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Custom { input, why } => write!(f, "{}: {why}", input.name),
            _ => write!(f, "{}: {}", self.message(), self.details()),
        }
    }
}

impl MissingNode {
    pub(super) fn new(id: &str, node: &Node, would_serve: Vec<&'static str>) -> MissingNode {
        MissingNode {
            node: id.to_owned(),
            class: node.class.clone(),
            title: node.title.clone(),
            would_serve,
        }
    }

    /// ComfyUI's sentence for it.
    pub fn message(&self) -> String {
        match (&self.class, &self.title) {
            (None, title) => {
                let name = title
                    .clone()
                    .unwrap_or_else(|| format!("ID #{}", self.node));
                format!(
                    "Node '{name}' has no class_type. The workflow may be corrupted or a custom node is missing."
                )
            }
            (Some(class), title) => {
                let name = title.as_ref().unwrap_or(class);
                format!("Node '{name}' not found. The custom node may not be installed.")
            }
        }
    }
}

impl PromptError {
    /// ComfyUI's name of the kind of error.
    pub fn kind(&self) -> &'static str {
        match self {
            PromptError::MissingNodes(_) => "missing_node_type",
            PromptError::NoOutputs => "prompt_no_outputs",
            PromptError::Outputs { .. } => "prompt_outputs_failed_validation",
        }
    }

    /// What ComfyUI's server answers: `error` and `node_errors`. All missing nodes are in
    /// `extra_info`, not only the first, each with what would serve in its place.
    pub fn to_json(&self) -> Json {
        let (message, details, extra, nodes) = match self {
            PromptError::MissingNodes(missing) => {
                let all = |m: &MissingNode| json!({ "node_id": m.node, "class_type": m.class, "node_title": m.title });
                let first = missing.first();
                let mut extra = first.map_or(json!({}), all);
                if let Some(MissingNode {
                    class: Some(class),
                    title: None,
                    ..
                }) = first
                {
                    extra["node_title"] = json!(class);
                }
                extra["missing_nodes"] = missing
                    .iter()
                    .map(|node| {
                        let mut told = all(node);
                        told["would_serve"] = json!(node.would_serve);
                        told
                    })
                    .collect();
                let details = first.map(|m| format!("Node ID '#{}'", m.node));
                let message = first.map(MissingNode::message);
                (
                    message.unwrap_or_default(),
                    details.unwrap_or_default(),
                    extra,
                    json!({}),
                )
            }
            PromptError::NoOutputs => (
                "Prompt has no outputs".to_owned(),
                String::new(),
                json!({}),
                json!({}),
            ),
            PromptError::Outputs { outputs, problems } => {
                let own = outputs.iter().filter_map(|o| problems.get(o));
                let problems_of = own.flat_map(|node| &node.problems);
                let lines = problems_of.map(|p| format!("{}: {}", p.message(), p.details()));
                (
                    "Prompt outputs failed validation".to_owned(),
                    lines.collect::<Vec<_>>().join("\n"),
                    json!({}),
                    problems_json(problems),
                )
            }
        };
        json!({
            "error": {
                "type": self.kind(),
                "message": message,
                "details": details,
                "extra_info": extra,
            },
            "node_errors": nodes,
        })
    }
}

/// ComfyUI's `node_errors`.
pub(super) fn problems_json(problems: &BTreeMap<String, NodeProblems>) -> Json {
    let entries = problems.iter().map(|(id, node)| {
        let entry = json!({
            "errors": node.problems.iter().map(Problem::to_json).collect::<Vec<_>>(),
            "dependent_outputs": node.dependent_outputs,
            "class_type": node.class,
        });
        (id.clone(), entry)
    });
    Json::Object(entries.collect())
}

/// Every class once, with the nodes that have it.
fn missing_nodes(missing: &[MissingNode]) -> String {
    let mut by_class: BTreeMap<&str, (Vec<&str>, &[&str])> = BTreeMap::new();
    for node in missing {
        let class = node.class.as_deref().unwrap_or("without a class");
        let entry = by_class.entry(class);
        let entry = entry.or_insert((Vec::new(), &node.would_serve));
        entry.0.push(&node.node);
    }
    let classes = by_class.iter().map(|(class, (ids, serve))| {
        let nodes = if ids.len() == 1 { "node" } else { "nodes" };
        let serve = match serve {
            [] => String::new(),
            serve => format!("; {} would serve", serve.join(" or ")),
        };
        format!("{class} ({nodes} {}{serve})", ids.join(", "))
    });
    let classes: Vec<String> = classes.collect();
    format!(
        "the graph has nodes that are not known here: {}",
        classes.join(", ")
    )
}

fn failed(problems: &BTreeMap<String, NodeProblems>) -> String {
    let mut told: Vec<String> = Vec::new();
    for (id, node) in problems {
        for problem in &node.problems {
            let text = match problem {
                Problem::Cycle { .. } => problem.to_string(),
                _ => format!("node {id} ({}): {problem}", node.class),
            };
            if told.len() < SHOWN && !told.contains(&text) {
                told.push(text);
            }
        }
    }
    format!("the graph cannot run: {}", told.join("; "))
}
