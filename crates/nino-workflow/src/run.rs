//! Runs checked graphs: every node after those it needs, and only nodes whose inputs changed since
//! the run before.

mod call;
mod key;
mod lists;

use crate::check::{Bound, Checked, CheckedNode};
use crate::graph::Link;
use crate::host::Host;
use crate::nodes::is_of_lists;
use crate::value::Value;
use crate::{Limits, NodeError, RunError};
pub(crate) use call::{Call, is_clear};
use key::Keys;
use nino_engine::{Control, DType, EngineError, Event, Precision, Preview, Store};
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a graph does not say of how it is run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How activations are stored, in the diffusion model and the VAE.
    pub precision: Precision,
    /// How plain weights of diffusion models and text encoders are held.
    pub quantize: Option<DType>,
    pub preview: Option<Preview>,
    pub limits: Limits,
}

/// Progress of a graph.
#[derive(Clone, Debug)]
pub struct NodeEvent<'a> {
    /// The node's id.
    pub node: &'a str,
    pub class: &'static str,
    pub what: Progress,
}

/// What happens with a node.
#[derive(Clone, Debug)]
pub enum Progress {
    /// Its results are known from a run before.
    Cached,
    Started,
    /// What the engine tells of the work.
    Engine(Event),
    /// What the host called the results of an output node, also where they are known from a run
    /// before.
    Output(Json),
    Finished,
}

/// Who hears of a graph's progress, and can stop it from another thread.
pub struct Watch<'a> {
    pub cancel: &'a AtomicBool,
    pub on_event: &'a mut dyn FnMut(NodeEvent<'_>),
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// What the host called the results of each output node.
    pub outputs: BTreeMap<String, Json>,
}

/// Runs graphs one after the other, and keeps the results of the last one's nodes for the next. It
/// is to be made anew when [`Settings`] change, since results depend on them.
pub struct Executor {
    store: Store,
    settings: Settings,
    keys: Keys,
    results: HashMap<u64, Kept>,
}

/// The results of a node.
#[derive(Clone)]
struct Kept {
    outputs: Arc<[Value]>,
    /// What the host called it, of an output node.
    told: Option<Json>,
}

impl Executor {
    pub fn new(store: Store, settings: Settings) -> Executor {
        Executor {
            store,
            settings,
            keys: Keys::default(),
            results: HashMap::new(),
        }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether and how unfinished latents are shown; results do not depend on it.
    pub fn set_preview(&mut self, preview: Option<Preview>) {
        self.settings.preview = preview;
    }

    /// The nodes of a graph whose results are known from the run before, in the order of a run.
    pub fn cached(&mut self, graph: &Checked, host: &dyn Host) -> Vec<String> {
        let mut run = Run {
            executor: self,
            graph,
            keys: HashMap::new(),
            networks: usize::MAX,
        };
        let mut cached = Vec::new();
        for output in &graph.outputs {
            let mut walk = Walk::to(output);
            while let Some(id) = walk.next(&run) {
                let key = run.executor.keys.of(&graph.nodes[id], &run.keys);
                run.keys.insert(id, key);
                if run.known(key, host).is_some() {
                    cached.push(id.to_owned());
                }
            }
        }
        cached
    }

    /// Forgets the results of all nodes.
    pub fn clear(&mut self) {
        self.keys = Keys::default();
        self.results.clear();
    }

    /// Bytes of the pictures, masks and latents that are kept. What several nodes gave counts once.
    fn held_bytes(&self) -> usize {
        let values = self.results.values().flat_map(|kept| kept.outputs.iter());
        let held: HashMap<usize, usize> = values.flat_map(Value::held).collect();
        held.values().sum()
    }

    /// Runs the outputs of a graph, and what they need.
    pub fn run(
        &mut self,
        graph: &Checked,
        host: &mut dyn Host,
        watch: &mut Watch<'_>,
    ) -> Result<Ran, RunError> {
        self.run_up_to(usize::MAX, graph, host, watch)
    }

    /// Runs a graph for a plan, on a device that computes nothing: up to the last node that has a
    /// network. Those after it would compute pictures that nobody sees.
    pub fn rehearse(
        &mut self,
        graph: &Checked,
        host: &mut dyn Host,
        watch: &mut Watch<'_>,
    ) -> Result<(), RunError> {
        let nodes = graph.nodes.values();
        let networks = nodes.filter(|node| node.def.has_network()).count();
        self.run_up_to(networks, graph, host, watch).map(drop)
    }

    fn run_up_to(
        &mut self,
        networks: usize,
        graph: &Checked,
        host: &mut dyn Host,
        watch: &mut Watch<'_>,
    ) -> Result<Ran, RunError> {
        let mut run = Run {
            executor: self,
            graph,
            keys: HashMap::new(),
            networks,
        };
        let ran = run.outputs(host, watch);
        let used: HashSet<u64> = run.keys.values().copied().collect();
        // What this graph does not need is not needed: only the last graph's results stay.
        self.results.retain(|key, _| used.contains(key));
        self.keys.retain(&used);
        ran
    }
}

/// The class of nodes that take one of two sides.
const SWITCH: &str = "ComfySwitchNode";

/// One run of a graph.
struct Run<'a> {
    executor: &'a mut Executor,
    graph: &'a Checked,
    /// The keys of the nodes that were reached.
    keys: HashMap<&'a str, u64>,
    /// Nodes with networks after which it ends.
    networks: usize,
}

impl<'a> Run<'a> {
    fn outputs(&mut self, host: &mut dyn Host, watch: &mut Watch<'_>) -> Result<Ran, RunError> {
        let mut ran = Ran::default();
        for output in &self.graph.outputs {
            let mut walk = Walk::to(output);
            while self.networks > 0
                && let Some(id) = walk.next(self)
            {
                self.node(id, host, watch)?;
                if self.graph.nodes[id].def.has_network() {
                    self.networks -= 1;
                }
            }
            let key = self.keys.get(output.as_str());
            let kept = key.and_then(|key| self.executor.results.get(key));
            if let Some(told) = kept.and_then(|kept| kept.told.clone()) {
                ran.outputs.insert(output.clone(), told);
            }
        }
        Ok(ran)
    }

    fn has(&self, id: &str) -> bool {
        self.graph.nodes.contains_key(id)
    }

    /// The nodes that a node is linked to and needs. A switch needs only the side that it takes,
    /// and first of all the node that says which, until that has run.
    fn needs(&self, node: &'a CheckedNode) -> Vec<&'a str> {
        let linked = |name: &str| {
            let found = node.inputs.iter().find(|(input, _)| *input == name);
            found.and_then(|(_, bound)| link(bound))
        };
        if node.def.class != SWITCH {
            let links = node.inputs.iter().filter_map(|(_, bound)| link(bound));
            return links.map(|link| link.node.as_str()).collect();
        }
        let side = match self.inputs(node).into_iter().find(|(n, _)| *n == "switch") {
            Some((_, Value::Boolean(true))) => linked("on_true"),
            Some((_, Value::Boolean(false))) => linked("on_false"),
            _ => None,
        };
        let needed = linked("switch").into_iter().chain(side);
        needed.map(|link| link.node.as_str()).collect()
    }

    fn node(
        &mut self,
        id: &'a str,
        host: &mut dyn Host,
        watch: &mut Watch<'_>,
    ) -> Result<(), RunError> {
        let node = &self.graph.nodes[id];
        let class = node.def.class;
        let key = self.executor.keys.of(node, &self.keys);
        self.keys.insert(id, key);
        let mut tell = |what: Progress| {
            (watch.on_event)(NodeEvent {
                node: id,
                class,
                what,
            });
        };
        if let Some(kept) = self.known(key, host) {
            tell(Progress::Cached);
            kept.told
                .clone()
                .into_iter()
                .for_each(|told| tell(Progress::Output(told)));
            return Ok(());
        }
        tell(Progress::Started);
        tracing::debug!(node = id, class, "runs");
        let kept = self.run_node(id, node, host, watch.cancel, &mut tell);
        let stopped = watch.cancel.load(Ordering::Relaxed);
        let kept = kept.map_err(|source| RunError {
            node: id.to_owned(),
            class,
            source: Box::new(match source {
                // Of what it had to give up, such as a clip that another program writes.
                NodeError::Host(_) if stopped => EngineError::Cancelled.into(),
                source => source,
            }),
        })?;
        kept.told
            .clone()
            .into_iter()
            .for_each(|told| tell(Progress::Output(told)));
        self.executor.results.insert(key, kept);
        tell(Progress::Finished);
        Ok(())
    }

    /// The result of a node that is known and still there.
    fn known(&self, key: u64, host: &dyn Host) -> Option<&Kept> {
        let kept = self.executor.results.get(&key)?;
        let is_there = kept.told.as_ref().is_none_or(|told| host.is_there(told));
        is_there.then_some(kept)
    }

    fn run_node(
        &self,
        id: &str,
        node: &CheckedNode,
        host: &mut dyn Host,
        cancel: &AtomicBool,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<Kept, NodeError> {
        if cancel.load(Ordering::Relaxed) {
            return Err(EngineError::Cancelled.into());
        }
        let mut on_event = |event: Event| tell(Progress::Engine(event));
        let inputs = self.inputs(node);
        let calls = if is_of_lists(node.def.class) {
            vec![inputs]
        } else {
            lists::each(inputs)
        };
        let mut held_bytes = self.executor.held_bytes();
        let mut runs = Vec::new();
        let mut told = None;
        for inputs in calls {
            let mut call = Call {
                node: id,
                def: node.def,
                inputs,
                store: &self.executor.store,
                settings: &self.executor.settings,
                host,
                control: Control {
                    cancel,
                    on_event: &mut on_event,
                },
                told: None,
                held_bytes,
            };
            let outputs = (node.def.run)(&mut call)?;
            let expected = node.def.outputs.len();
            if outputs.len() != expected {
                let found = outputs.len();
                return Err(NodeError::Outputs { expected, found });
            }
            told = lists::told(told, call.told);
            let made = outputs.iter().flat_map(Value::held);
            held_bytes += made.map(|(_, bytes)| bytes).sum::<usize>();
            runs.push(outputs);
        }
        Ok(Kept {
            outputs: lists::joined(runs, node.def.outputs.len()).into(),
            told,
        })
    }

    /// The values of a node's inputs, links followed.
    fn inputs(&self, node: &CheckedNode) -> Vec<(&'static str, Value)> {
        let value = |bound: &Bound| match bound {
            Bound::Value(value) => Some(value.clone()),
            Bound::File(path) => Some(Value::File(path.clone().into())),
            Bound::Link(link) => {
                let key = self.keys.get(link.node.as_str())?;
                let kept = self.executor.results.get(key)?;
                kept.outputs.get(link.slot).cloned()
            }
        };
        let inputs = node.inputs.iter();
        inputs
            .filter_map(|(name, bound)| Some((*name, value(bound)?)))
            .collect()
    }
}

/// The way to an output: every node after those that it needs. What a node needs may depend on what
/// another gave, so it is asked for as late as possible.
struct Walk<'a> {
    /// Nodes to come to; a node that is reached is passed over.
    stack: Vec<&'a str>,
}

impl<'a> Walk<'a> {
    fn to(output: &'a str) -> Walk<'a> {
        Walk {
            stack: vec![output],
        }
    }

    /// The next node to run: all that it needs has a key.
    fn next(&mut self, run: &Run<'a>) -> Option<&'a str> {
        while let Some(&id) = self.stack.last() {
            let node = run.graph.nodes.get(id);
            let Some(node) = node.filter(|_| !run.keys.contains_key(id)) else {
                self.stack.pop();
                continue;
            };
            let needs = run.needs(node).into_iter();
            let mut open = needs.filter(|id| !run.keys.contains_key(id) && run.has(id));
            let before = self.stack.len();
            self.stack.extend(open.by_ref());
            if self.stack.len() == before {
                self.stack.pop();
                return Some(id);
            }
            // What is first among the inputs runs first.
            self.stack[before..].reverse();
        }
        None
    }
}

fn link(bound: &Bound) -> Option<&Link> {
    match bound {
        Bound::Link(link) => Some(link),
        _ => None,
    }
}
