//! A graph's inputs, checked as ComfyUI checks them before anything runs.
//!
//! Only nodes that an output node needs are looked at. Every node is visited once, so that a graph
//! which leads back into itself is an error like any other. Where some outputs are right and others
//! are not, the right ones can run.

mod coerce;
mod problem;
mod serve;
#[cfg(test)]
mod tests;

use crate::graph::{Graph, Input, Link, Node};
use crate::host::Folder;
use crate::node::{InputDef, InputKind, Need, NodeDef};
use crate::value::Value;
use crate::{Host, Limits, nodes};
pub use problem::{MissingNode, NodeProblems, Problem, PromptError};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A graph that can run.
pub struct Checked {
    pub(crate) nodes: HashMap<String, CheckedNode>,
    /// The output nodes to run, in the order of their ids.
    pub outputs: Vec<String>,
    /// What is wrong with the outputs that cannot run, by the node it is wrong with.
    pub problems: BTreeMap<String, NodeProblems>,
}

impl Checked {
    /// The files that its nodes read, by the paths that the host found, in no order.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let inputs = self.nodes.values().flat_map(|node| &node.inputs);
        inputs.filter_map(|(_, bound)| match bound {
            Bound::File(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// ComfyUI's `node_errors`: [`Checked::problems`] as JSON.
    pub fn problems_json(&self) -> serde_json::Value {
        problem::problems_json(&self.problems)
    }
}

/// A node whose inputs are right.
pub(crate) struct CheckedNode {
    pub(crate) def: &'static NodeDef,
    pub(crate) inputs: Vec<(&'static str, Bound)>,
}

/// What an input is.
pub(crate) enum Bound {
    Link(Link),
    Value(Value),
    /// A file, by the path that the host found.
    File(PathBuf),
}

/// Checks a graph. An error where no output can run.
pub fn check(graph: &Graph, host: &dyn Host, limits: &Limits) -> Result<Checked, PromptError> {
    check_outputs(graph, None, host, limits)
}

/// Checks those output nodes of a graph that `wanted` names, or all of them.
pub fn check_outputs(
    graph: &Graph,
    wanted: Option<&[String]>,
    host: &dyn Host,
    limits: &Limits,
) -> Result<Checked, PromptError> {
    let missing: Vec<MissingNode> = graph
        .iter()
        .filter(|(_, node)| class(node).is_none())
        .map(|(id, node)| MissingNode::new(id, node, serve::would_serve(graph, id, node)))
        .collect();
    if !missing.is_empty() {
        return Err(PromptError::MissingNodes(missing));
    }
    let all = graph.iter();
    let outputs = all.filter(|(_, node)| class(node).is_some_and(|def| def.is_output));
    let is_wanted = |id: &&str| wanted.is_none_or(|wanted| wanted.iter().any(|w| w == id));
    let outputs: Vec<&str> = outputs.map(|(id, _)| id).filter(is_wanted).collect();
    if outputs.is_empty() {
        return Err(PromptError::NoOutputs);
    }
    let mut checker = Checker {
        graph,
        host,
        limits,
        seen: HashMap::new(),
        nodes: HashMap::new(),
    };
    let mut problems: BTreeMap<String, NodeProblems> = BTreeMap::new();
    let mut right = Vec::new();
    let mut wrong = Vec::new();
    for output in outputs {
        checker.visit(output);
        if checker.is_right(output) {
            right.push(output.to_owned());
            continue;
        }
        wrong.push(output);
        for (id, seen) in checker.found() {
            let entry = problems.entry(id.to_owned());
            let entry = entry.or_insert_with(|| NodeProblems {
                class: seen.class,
                problems: Vec::new(),
                dependent_outputs: Vec::new(),
            });
            entry.problems.clone_from(&seen.problems);
            entry.dependent_outputs.push(output.to_owned());
        }
    }
    if right.is_empty() {
        return Err(PromptError::Outputs {
            outputs: wrong.into_iter().map(str::to_owned).collect(),
            problems,
        });
    }
    Ok(Checked {
        nodes: checker.nodes,
        outputs: right,
        problems,
    })
}

fn class(node: &Node) -> Option<&'static NodeDef> {
    nodes::find(node.class.as_deref()?)
}

/// Fills in what a graph leaves out and a page would: the defaults of inputs that are no links.
/// Graphs that were made before a node had an input are run so. A server does not do this, since
/// ComfyUI's does not.
pub fn fill_defaults(graph: &mut Graph) {
    let ids: Vec<String> = graph.iter().map(|(id, _)| id.to_owned()).collect();
    for id in ids {
        let Some(node) = graph.get_mut(&id) else {
            continue;
        };
        let Some(def) = class(node) else { continue };
        for input in def.inputs.iter().filter(|i| i.need == Need::Required) {
            if let (false, Some(value)) =
                (node.inputs.contains_key(input.name), input.kind.default())
            {
                let value = Input::Value(value);
                node.inputs.insert(input.name.to_owned(), value);
            }
        }
    }
}

/// What is known of a node.
struct Seen {
    class: &'static str,
    problems: Vec<Problem>,
    /// Whether it and all that it needs are right.
    right: bool,
}

struct Checker<'a> {
    graph: &'a Graph,
    host: &'a dyn Host,
    limits: &'a Limits,
    seen: HashMap<String, Seen>,
    nodes: HashMap<String, CheckedNode>,
}

/// A node on the way from an output to what it needs.
struct Visit<'a> {
    id: &'a str,
    node: &'a Node,
    def: &'static NodeDef,
    /// The nodes that are still to be visited before it.
    before: Vec<&'a str>,
}

/// Nodes of a cycle that are named.
const SHOWN_OF_CYCLE: usize = 32;

impl Visit<'_> {
    /// `3 (KSampler)`
    fn label(&self) -> String {
        format!("{} ({})", self.id, self.def.class)
    }
}

impl<'a> Checker<'a> {
    fn is_right(&self, id: &str) -> bool {
        self.seen.get(id).is_some_and(|seen| seen.right)
    }

    /// The nodes with problems of their own, in the order of their ids.
    fn found(&self) -> Vec<(&'a str, &Seen)> {
        let all = self.graph.iter();
        let seen = all.filter_map(|(id, _)| Some((id, self.seen.get(id)?)));
        seen.filter(|(_, seen)| !seen.problems.is_empty()).collect()
    }

    /// Checks a node after everything that it needs. A stack of its own: a chain of nodes may be
    /// longer than the thread's.
    fn visit(&mut self, output: &'a str) {
        let mut stack: Vec<Visit<'a>> = Vec::new();
        let mut open: BTreeSet<&'a str> = BTreeSet::new();
        stack.extend(self.enter(output, &mut open));
        while let Some(top) = stack.last_mut() {
            let Some(next) = top.before.pop() else {
                let Some(done) = stack.pop() else { break };
                open.remove(done.id);
                self.leave(&done);
                continue;
            };
            if open.contains(next) {
                self.cycle(&stack, next);
            } else if !self.seen.contains_key(next) {
                stack.extend(self.enter(next, &mut open));
            }
        }
    }

    fn enter(&self, id: &'a str, open: &mut BTreeSet<&'a str>) -> Option<Visit<'a>> {
        let node = self.graph.get(id)?;
        let def = class(node)?;
        open.insert(id);
        // Only what a known input is linked to is needed; the last is visited first.
        let links = def.inputs.iter().rev();
        let links = links.filter_map(|input| node.link(input.name));
        Some(Visit {
            id,
            node,
            def,
            before: links.map(|link| link.node.as_str()).collect(),
        })
    }

    /// Everything from `back` to the top of the stack needs itself.
    fn cycle(&mut self, stack: &[Visit<'a>], back: &str) {
        let start = stack.iter().position(|visit| visit.id == back);
        let around = &stack[start.unwrap_or(0)..];
        let is_known = |v: &Visit<'_>| self.seen.contains_key(v.id);
        if around.first().is_some_and(is_known) && around.last().is_some_and(is_known) {
            return;
        }
        let shown = &around[..around.len().min(SHOWN_OF_CYCLE)];
        let nodes: Arc<[String]> = shown.iter().map(|visit| visit.id.to_owned()).collect();
        let mut path: Vec<String> = shown.iter().map(Visit::label).collect();
        if shown.len() < around.len() {
            path.push(format!("{} more", around.len() - shown.len()));
        }
        path.extend(around.first().map(Visit::label));
        let path: Arc<str> = path.join(" -> ").into();
        for visit in around {
            let seen = self.seen.entry(visit.id.to_owned()).or_insert(Seen {
                class: visit.def.class,
                problems: Vec::new(),
                right: false,
            });
            if seen.problems.is_empty() {
                seen.problems.push(Problem::Cycle {
                    node: visit.id.to_owned(),
                    path: Arc::clone(&path),
                    nodes: Arc::clone(&nodes),
                });
            }
        }
    }

    /// Checks the inputs of a node, now that what it needs was checked.
    fn leave(&mut self, visit: &Visit<'_>) {
        let mut inputs = Vec::new();
        let mut problems = Vec::new();
        let mut right = true;
        for def in visit.def.inputs.iter().filter(|i| i.need != Need::Grown) {
            let Some(given) = visit.node.inputs.get(def.name) else {
                if def.need == Need::Required {
                    problems.push(Problem::Missing { input: def });
                }
                continue;
            };
            match self.input(def, given) {
                Ok(bound) => {
                    if let Bound::Link(link) = &bound {
                        right &= self.is_right(&link.node);
                    }
                    inputs.push((def.name, bound));
                }
                Err(problem) => problems.push(problem),
            }
        }
        let seen = self.seen.entry(visit.id.to_owned()).or_insert(Seen {
            class: visit.def.class,
            problems: Vec::new(),
            right: true,
        });
        seen.problems.extend(problems);
        seen.right &= right && seen.problems.is_empty();
        if seen.right {
            let def = visit.def;
            let node = CheckedNode { def, inputs };
            self.nodes.insert(visit.id.to_owned(), node);
        }
    }

    fn input(&self, def: &'static InputDef, given: &Input) -> Result<Bound, Problem> {
        match given {
            Input::BadLink(value) => Err(Problem::BadLink {
                input: def,
                found: value.clone(),
            }),
            Input::Link(link) => self.link(def, link).map(|()| Bound::Link(link.clone())),
            Input::Value(value) => match def.kind {
                InputKind::File(folder) => self.file(def, folder, value),
                _ => coerce::value(def, value, self.limits).map(Bound::Value),
            },
        }
    }

    /// Whether a link leads to an output of the right type.
    fn link(&self, def: &'static InputDef, link: &Link) -> Result<(), Problem> {
        let node = self.graph.get(&link.node).and_then(class);
        let Some(from) = node else {
            return Err(Problem::NoSuchNode {
                input: def,
                link: link.clone(),
            });
        };
        let Some(output) = from.outputs.get(link.slot) else {
            return Err(Problem::NoSuchOutput {
                input: def,
                link: link.clone(),
                outputs: from.outputs.len(),
            });
        };
        if output.socket.fits(def.kind.socket()) {
            return Ok(());
        }
        Err(Problem::Type {
            input: def,
            received: output.socket,
            link: link.clone(),
        })
    }

    fn file(
        &self,
        def: &'static InputDef,
        folder: Folder,
        value: &serde_json::Value,
    ) -> Result<Bound, Problem> {
        let name = coerce::choice(value);
        // Pictures and latents lie in folders within each other, of which lists show the top.
        if !folder.is_input()
            && let Some(names) = self.host.list(folder)
            && !names.contains(&name)
        {
            return Err(Problem::NotInList {
                input: def,
                found: value.clone(),
                options: names,
            });
        }
        match self.host.find(folder, &name) {
            Ok(path) => Ok(Bound::File(path)),
            Err(error) => Err(Problem::Custom {
                input: def,
                why: error.to_string(),
            }),
        }
    }
}
