//! One device's models: weights, plans and sessions that stay from request to request, within its
//! budget.
//!
//! Weights are kept by the identity of their network (files, LoRAs, quantization) and by how a plan
//! holds them, so one model is never taken for another. What was used longest ago goes first when
//! something else needs the room; what is in use never goes. A [`Store`] is a handle: clones share
//! what is kept, and any thread may hold one. Text encoders may have a store of another device.

mod cache;
mod kept;
mod lease;
#[cfg(test)]
mod tests;

use crate::decode::part::strategy;
use crate::model::identity::NetId;
use crate::{Conditioning, EngineError, Stage, timeline};
use cache::Cache;
use kept::{Kept, LeaseId};
pub(crate) use lease::Lease;
use lease::Sessions;
use nino_dtype::DType;
use nino_graph::{Device, ExecError, Graph, Memory, Mib, Node, Op, ParamSource, Plan, Weights};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Plans that are remembered. They are small beside weights.
const PLANS: usize = 64;
/// Encoded prompts that are remembered.
const TEXTS: usize = 64;

/// The models of one device. See the module's text.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    device: Arc<dyn Device>,
    keeps: bool,
    rehearses: bool,
    state: Mutex<State>,
    /// Held while weights are loaded, so that two requests do not load the same ones at once.
    loading: Mutex<()>,
    /// Where text encoders run, if that is another device.
    text: OnceLock<Store>,
}

/// What an encoded prompt is remembered by: its encoders, and the prompt with all that changes its
/// meaning.
pub(crate) type TextKey = (Vec<NetId>, String);

/// Everything that changes.
struct State {
    plans: Cache<(NetId, String), Arc<dyn Any + Send + Sync>>,
    texts: Cache<TextKey, Arc<Conditioning>>,
    kept: Kept,
    /// The networks that were opened, where somebody wants to know.
    opened: Option<Vec<Opened>>,
}

/// A network that was opened.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) stage: Stage,
    pub(crate) net: NetId,
    pub(crate) plans: Vec<Arc<Plan>>,
}

/// What a store holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUse {
    /// Bytes of weights on the device.
    pub weight_bytes: usize,
    /// Bytes of arenas on the device and of rings for streamed weights, of sessions that run and of
    /// those that wait.
    pub arena_bytes: usize,
    /// Bytes of both that a request is using now.
    pub busy_bytes: usize,
    /// The most bytes that were there at once since [`Store::reset_peak`].
    pub peak_bytes: usize,
    /// The same with what stages held in host memory beside that.
    pub peak_bytes_with_host: usize,
    /// Times that weights were loaded.
    pub loads: usize,
}

/// A network as a stage wants it on the device.
pub(crate) struct Network<'a> {
    pub(crate) stage: Stage,
    pub(crate) net: NetId,
    /// Graphs that run by turns in one arena.
    pub(crate) plans: &'a [Arc<Plan>],
    /// Bytes of host memory that the stage holds meanwhile, which count where the device's memory
    /// is the program's.
    pub(crate) beside: usize,
    /// Gives its weights, if they have to be loaded.
    pub(crate) source: &'a dyn Fn() -> Result<Arc<dyn ParamSource>, EngineError>,
}

impl Store {
    /// A store that keeps what fits the device's budget.
    pub fn new(device: Arc<dyn Device>) -> Store {
        Store::make(device, true, false)
    }

    /// A store that gives everything back as soon as a stage is done: for one picture in the least
    /// memory.
    pub fn keeping_nothing(device: Arc<dyn Device>) -> Store {
        Store::make(device, false, false)
    }

    /// The store for so many pictures of one request: nothing is kept for the only one.
    pub fn for_pictures(device: Arc<dyn Device>, pictures: usize) -> Store {
        Store::make(device, pictures > 1, false)
    }

    /// A store for planning, whose device computes nothing.
    pub(crate) fn rehearsal(device: Arc<dyn Device>, keeps: bool) -> Store {
        Store::make(device, keeps, true)
    }

    fn make(device: Arc<dyn Device>, keeps: bool, rehearses: bool) -> Store {
        Store(Arc::new(Inner {
            device,
            keeps,
            rehearses,
            state: Mutex::new(State {
                plans: Cache::new(PLANS),
                texts: Cache::new(TEXTS),
                kept: Kept::default(),
                opened: None,
            }),
            loading: Mutex::default(),
            text: OnceLock::new(),
        }))
    }

    /// Lets text encoders run on another device, which has a budget of its own. It is said once,
    /// before anything runs; said again, it changes nothing.
    pub fn encode_text_on(&self, device: Arc<dyn Device>) {
        self.0
            .text
            .get_or_init(|| Store::make(device, self.0.keeps, self.0.rehearses));
    }

    /// The store of the device for text encoders, where that is another one.
    pub(crate) fn other_for_text(&self) -> Option<&Store> {
        self.0.text.get()
    }

    /// The store that text encoders use.
    pub(crate) fn for_text(&self) -> &Store {
        self.other_for_text().unwrap_or(self)
    }

    /// Whether what its device gives means nothing.
    pub(crate) fn rehearses(&self) -> bool {
        self.0.rehearses
    }

    pub fn device(&self) -> &dyn Device {
        &*self.0.device
    }

    /// The device as a handle of its own.
    pub fn shared_device(&self) -> Arc<dyn Device> {
        Arc::clone(&self.0.device)
    }

    /// Whether models stay from one request to the next.
    pub(crate) fn keeps(&self) -> bool {
        self.0.keeps
    }

    /// What it holds.
    pub fn usage(&self) -> StoreUse {
        self.state().kept.usage()
    }

    /// Counts [`StoreUse::peak_bytes`] anew.
    pub fn reset_peak(&self) {
        self.state().kept.reset_peak();
    }

    /// Whether weights of a network are on the device.
    pub(crate) fn holds(&self, net: &NetId) -> bool {
        self.state().kept.holds(net)
    }

    /// Gives back everything that no request is using.
    pub fn clear(&self) {
        let mut state = self.state();
        state.plans.clear();
        state.texts.clear();
        state.kept.clear();
        drop(state);
        self.other_for_text().into_iter().for_each(Store::clear);
    }

    /// Opens the device anew after it was lost. What was on it is gone.
    pub fn reopen(&self) -> Result<(), ExecError> {
        self.clear();
        self.state().kept.forget_device();
        self.0.device.reopen()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan made for `what` of a network, or the one that `make` makes now. `what` tells apart
    /// everything that plans of one network can differ in.
    pub(crate) fn plan<T: Send + Sync + 'static>(
        &self,
        net: &NetId,
        what: String,
        make: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<Arc<T>, EngineError> {
        let key = (net.clone(), what);
        let known = self.state().plans.get(&key);
        if let Some(plan) = known.and_then(|p| p.downcast::<T>().ok()) {
            return Ok(plan);
        }
        let plan = Arc::new(make()?);
        let any: Arc<dyn Any + Send + Sync> = plan.clone();
        self.state().plans.insert(key, any);
        Ok(plan)
    }

    /// Takes over the plans of another store, whose device has the same limits and budget.
    pub(crate) fn learn_plans(&self, other: &Store) {
        let plans = other.state().plans.to_vec();
        let mut state = self.state();
        for (key, plan) in plans {
            state.plans.insert(key, plan);
        }
        drop(state);
        if let (Some(own), Some(others)) = (self.other_for_text(), other.other_for_text()) {
            own.learn_plans(others);
        }
    }

    /// An encoded prompt that was remembered.
    pub(crate) fn known_text(&self, key: &TextKey) -> Option<Conditioning> {
        self.state()
            .texts
            .get(key)
            .map(|known| Conditioning::clone(&known))
    }

    pub(crate) fn remember_text(&self, key: TextKey, made: Conditioning) {
        self.state().texts.insert(key, Arc::new(made));
    }

    /// Sessions of a network: ones that wait, or new ones with weights that are there or are loaded
    /// now.
    pub(crate) fn open(&self, network: &Network<'_>) -> Result<Lease, EngineError> {
        let started = Instant::now();
        timeline::begin_stage(network.stage);
        network.net.check_unchanged()?;
        let beside = network.beside;
        let capacity = self.capacity(beside).unwrap_or(usize::MAX);
        let idle = self.state().kept.lend_idle(network.plans, beside, capacity);
        if let Some((id, sessions)) = idle {
            self.note(network);
            let took = started.elapsed();
            return Ok(Lease::new(self, id, network.plans, sessions, took));
        }
        let key: WeightsKey = (network.net.clone(), held(network.plans));
        let loading = self.0.loading.lock();
        let _loading = loading.unwrap_or_else(PoisonError::into_inner);
        if !self.device().keeps_every_size() {
            self.state().kept.drop_sessions_of(&network.net);
        }
        let needs = Memory::of(network.plans.iter().map(|p| &**p));
        let room = self.state().kept.make_room(&key, (needs, beside), capacity);
        let id = room.map_err(|no| EngineError::Busy {
            need: no.need,
            busy: no.busy,
            capacity,
        })?;
        match self.make_sessions(network, id, &key) {
            Ok(sessions) => {
                let took = started.elapsed();
                Ok(Lease::new(self, id, network.plans, sessions, took))
            }
            Err(error) => {
                self.state().kept.end(id, self.0.keeps);
                Err(error)
            }
        }
    }

    /// The most bytes for weights and arenas together, while a stage holds `beside` bytes more;
    /// `None` without a budget.
    fn capacity(&self, beside: usize) -> Option<usize> {
        self.device().budget().with_beside(beside).for_plans()
    }

    fn make_sessions(
        &self,
        network: &Network<'_>,
        id: LeaseId,
        key: &WeightsKey,
    ) -> Result<Sessions, EngineError> {
        let known = self.state().kept.weights(key);
        self.note(network);
        tell(network, known.is_some());
        let weights = if let Some(weights) = known {
            weights
        } else {
            let weights = self.load(network)?;
            self.state().kept.loaded(id, &weights);
            weights
        };
        let sessions = match self.device().sessions(network.plans, &weights) {
            Err(ExecError::OutOfMemory { .. }) if self.state().kept.clear() => {
                self.device().sessions(network.plans, &weights)?
            }
            made => made?,
        };
        Ok(Sessions(sessions))
    }

    /// Loads a network's weights; once more without anything that waits, where memory ran out.
    fn load(&self, network: &Network<'_>) -> Result<Weights, EngineError> {
        let plans: Vec<&Plan> = network.plans.iter().map(|p| &**p).collect();
        match self.device().load(&plans, (network.source)()?) {
            Err(ExecError::OutOfMemory { .. }) if self.state().kept.clear() => {
                Ok(self.device().load(&plans, (network.source)()?)?)
            }
            loaded => Ok(loaded?),
        }
    }

    fn note(&self, network: &Network<'_>) {
        let mut state = self.state();
        let Some(all) = &mut state.opened else {
            return;
        };
        all.push(Opened {
            stage: network.stage,
            net: network.net.clone(),
            plans: network.plans.to_vec(),
        });
    }

    /// Remembers from now on which networks are opened.
    pub(crate) fn remember_opened(&self) {
        self.state().opened = Some(Vec::new());
        self.other_for_text()
            .into_iter()
            .for_each(Store::remember_opened);
    }

    /// The networks that were opened on this device since [`Store::remember_opened`], in that
    /// order; no more are remembered.
    pub(crate) fn take_opened(&self) -> Vec<Opened> {
        self.state().opened.take().unwrap_or_default()
    }
}

/// Says how a network is run: what is on the device, what streams, how activations are cut.
fn tell(network: &Network<'_>, is_loaded: bool) {
    for plan in network.plans {
        let streamed = plan.streamed().each_run;
        let outside = plan.host_bytes();
        let mut parts = vec![format!(
            "{} of weights{}, {} of activations ({})",
            Mib::up(plan.weight_bytes()),
            if is_loaded { " already loaded" } else { "" },
            Mib::up(plan.arena_bytes()),
            strategy(std::iter::once(&**plan)).name()
        )];
        if streamed > 0 {
            parts.push(format!(
                "{} of weights streamed in every run",
                Mib::up(streamed)
            ));
        }
        if outside > 0 {
            parts.push(format!("{} of values offloaded", Mib::up(outside)));
        }
        tracing::info!("{}: {}", network.stage.name(), parts.join(", "));
    }
}

/// What weights are kept by: the network, and which of its parameters are held how.
pub(crate) type WeightsKey = (NetId, Arc<BTreeSet<Held>>);

/// A parameter as plans hold it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Held {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    streams: bool,
    /// Devices store a parameter the way that the ops which read it want it.
    reads: BTreeSet<Read>,
}

/// An op that reads a parameter: its name, the shape it sees, and the types of all its operands.
type Read = (&'static str, Vec<usize>, Vec<DType>);

fn held(plans: &[Arc<Plan>]) -> Arc<BTreeSet<Held>> {
    let params = plans.iter().flat_map(|plan| {
        let graph = plan.graph();
        let fetched: BTreeSet<_> = plan
            .fetches()
            .iter()
            .flat_map(|f| f.params.iter().map(|(node, _)| *node))
            .collect();
        let mut reads = reads(graph);
        // Constants are a session's own: they depend on sizes, and the weights do not.
        let params = graph.params().filter(|(_, p)| p.inline.is_none());
        params.map(move |(node, p)| Held {
            name: p.name.clone(),
            dtype: p.dtype,
            shape: p.shape.to_vec(),
            streams: fetched.contains(&node),
            reads: reads.remove(&node).unwrap_or_default(),
        })
    });
    Arc::new(params.collect())
}

/// The ops that read each parameter of a graph.
fn reads(graph: &Graph) -> BTreeMap<Node, BTreeSet<Read>> {
    let mut found: BTreeMap<Node, BTreeSet<Read>> = BTreeMap::new();
    // A reshape is a view: what reads that is what counts.
    let ops = graph.ops().filter(|(_, op)| !matches!(op, Op::Reshape(_)));
    for (_, op) in ops {
        let operands = op.operands();
        let dtypes: Vec<DType> = operands.iter().map(|&n| graph.dtype(n)).collect();
        for node in operands.into_iter().filter(|&n| graph.is_param(n)) {
            let read = (op.name(), graph.shape(node).to_vec(), dtypes.clone());
            found.entry(graph.root(node)).or_default().insert(read);
        }
    }
    found
}
