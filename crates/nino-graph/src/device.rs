//! What a device offers to run plans: weights, sessions, and the errors of running.

use crate::{Budget, Limits, Mib, Node, ParamSpec, Plan, Rates, Rewrites};
use nino_dtype::DType;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Gives a parameter's bytes in the graph's layout and dtype, straight into the device's memory. A
/// device may keep it and read again later: weights that do not fit are read each time they are
/// used.
pub trait ParamSource: Send + Sync {
    /// `dst` is exactly `param.bytes()` long.
    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError>;

    /// How [`ParamSource::read_rows`] gives a parameter's rows; `None` where it cannot, and the
    /// parameter has to be read whole.
    fn stored_rows(&self, _param: &ParamSpec) -> Option<StoredRows> {
        None
    }

    /// Some rows of a parameter's first dimension as they are stored, in the graph's dtype: for a
    /// device that lays weights out in its own way and need not have them whole before. `dst` is
    /// exactly as long as the rows.
    fn read_rows(
        &self,
        param: &ParamSpec,
        _rows: Range<usize>,
        _dst: &mut [u8],
    ) -> Result<(), ParamError> {
        Err(ParamError {
            name: param.name.clone(),
            what: "cannot be read by rows".to_owned(),
        })
    }
}

/// The order of values within a stored row of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredRows {
    /// The order of the graph: a kernel's positions, then channels.
    Same,
    /// Channels, then a kernel's positions, as most files have convolutions.
    ChannelsFirst,
}

#[derive(Debug, thiserror::Error)]
#[error("weight {name:?}: {what}")]
pub struct ParamError {
    pub name: String,
    pub what: String,
}

/// Loaded parameters by name, shared by the sessions of one device; only that device looks inside.
pub type Weights = Arc<dyn Any + Send + Sync>;

/// A CPU or a GPU that runs plans.
pub trait Device: Send + Sync {
    /// Short name for tables: `cpu`, `gpu:0`.
    fn name(&self) -> String;

    /// What every plan for this device keeps to.
    fn limits(&self) -> Limits;

    /// The memory that plans may take here; without a limit where nobody gave one.
    fn budget(&self) -> Budget {
        Budget::default()
    }

    /// How fast a device of this kind is, about; the same on every machine, so that plans are.
    fn rates(&self) -> Rates {
        Rates::cpu()
    }

    /// The fusions that pay on this device.
    fn rewrites(&self) -> Rewrites {
        Rewrites::ALL
    }

    /// The storage type of activations that is fastest here without visible loss.
    fn activation_dtype(&self) -> DType {
        DType::F32
    }

    /// A storage type of activations whose products are faster here than those of
    /// [`Device::activation_dtype`], at a loss: who knows the network says whether it is small.
    fn faster_dtype(&self) -> Option<DType> {
        None
    }

    /// Whether weights in blocks of integers, such as `Q4_K`, are multiplied as integers in linear
    /// layers: activations are then rounded to 8 bits, with a scale for each 32.
    fn multiplies_integers(&self) -> bool {
        false
    }

    /// Whether small ops leave most of the device idle: frames of a clip are then better computed
    /// together than one by one, where memory allows.
    fn favors_large_ops(&self) -> bool {
        false
    }

    /// Whether making sessions takes so long that those of every size of picture are worth their
    /// arena between requests; elsewhere only those of a network's last size wait.
    fn keeps_every_size(&self) -> bool {
        true
    }

    /// Reads the parameters that `plans` need, each once.
    fn load(&self, plans: &[&Plan], source: Arc<dyn ParamSource>) -> Result<Weights, ExecError>;

    /// Allocates one arena for plans that run by turns, and a session in it for each: what one
    /// leaves at a place, the others find there ([`crate::Graph::share`]). The weights must hold
    /// every parameter of the plans, which differ at most in their windows; nothing is steady in
    /// more than one of them.
    fn sessions(
        &self,
        plans: &[Arc<Plan>],
        weights: &Weights,
    ) -> Result<Vec<Box<dyn Session>>, ExecError>;

    /// A session with an arena of its own.
    fn session(&self, plan: Arc<Plan>, weights: &Weights) -> Result<Box<dyn Session>, ExecError> {
        let mut sessions = self.sessions(&[plan], weights)?;
        Ok(sessions.remove(0))
    }

    /// How to copy what would be hard to compute again to host memory, in case the device is lost;
    /// `None` where that is of no use.
    fn backup(&self) -> Option<Backup> {
        None
    }

    /// Opens the device anew after it was lost; weights and sessions made before are of no use
    /// then.
    fn reopen(&self) -> Result<(), ExecError> {
        let reason = format!("{} cannot be opened again", self.name());
        Err(ExecError::DeviceLost { reason })
    }
}

/// Copies in host memory for when a device is lost.
#[derive(Clone, Copy, Debug)]
pub struct Backup {
    /// All that may be held at a time.
    pub most_bytes: usize,
    /// The time of work that may be lost, if copies take little.
    pub every: Duration,
    /// How fast they are at least, about.
    pub bytes_per_second: f64,
}

/// How a run behaves.
#[derive(Clone, Copy, Default)]
pub struct RunOptions<'a> {
    /// Checked between steps.
    pub cancel: Option<&'a AtomicBool>,
    /// Times each op; [`Session::profile`] gives the times.
    pub profile: bool,
    /// Hears how many of [`Plan::steps`] are behind, now and then; a GPU may have yet to do the
    /// last few.
    pub on_step: Option<&'a dyn Fn(usize)>,
}

impl RunOptions<'_> {
    pub fn cancelled(&self) -> bool {
        self.cancel.is_some_and(|c| c.load(Ordering::Relaxed))
    }

    /// Tells who listens.
    pub fn done(&self, steps: usize) {
        if let Some(on_step) = self.on_step {
            on_step(steps);
        }
    }
}

/// Time one op took in the last profiled run.
#[derive(Clone, Copy, Debug)]
pub struct OpTime {
    pub node: Node,
    pub time: Duration,
}

/// A plan with its arena: write inputs, run, read outputs, again and again. It may move to another
/// thread between calls.
pub trait Session: Send {
    /// Inputs are written before each run: the arena reuses their place once they are consumed.
    /// Those the plan keeps ([`Plan::keeps`]) stay until they are written again.
    fn write(&mut self, input: Node, bytes: &[u8]) -> Result<(), ExecError>;

    /// Runs every step, but not the steady ones again while what they read stays as it is; outputs
    /// can be read until the next write or run.
    fn run(&mut self, options: RunOptions<'_>) -> Result<(), ExecError>;

    fn read(&mut self, output: Node, dst: &mut [u8]) -> Result<(), ExecError>;

    /// [`Session::write`] of some bytes from `at` on, a multiple of 16 like their number unless
    /// they are the last: for values that should not be in host memory twice.
    fn write_part(&mut self, input: Node, at: usize, bytes: &[u8]) -> Result<(), ExecError>;

    /// [`Session::read`] of some bytes from `at` on.
    fn read_part(&mut self, output: Node, at: usize, dst: &mut [u8]) -> Result<(), ExecError>;

    /// [`Session::write`] of zeros.
    fn clear(&mut self, input: Node) -> Result<(), ExecError>;

    /// Fills the arena with NaN, so that a read of a value that is not there shows. Kept inputs are
    /// gone too.
    fn poison(&mut self) -> Result<(), ExecError>;

    /// Bytes allocated for activations: the plan's peak, or the most of those that share the arena.
    fn arena_bytes(&self) -> usize;

    /// Times of the last profiled run, in step order; empty without one.
    fn profile(&self) -> Vec<OpTime>;
}

#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("cancelled")]
    Cancelled,
    #[error("out of memory: wanted {} for {what}{}", up(*wanted), free.map(|f| format!(", {} are free", down(f))).unwrap_or_default())]
    OutOfMemory {
        what: String,
        wanted: u64,
        free: Option<u64>,
    },
    #[error("{} would have to be moved to host memory, of which {} are free", up(*wanted), down(*free))]
    HostMemory { wanted: u64, free: u64 },
    #[error("{} would have to be moved to a temporary file in {folder}{}", up(*wanted), free.map(|f| format!(", where {} are free", down(f))).unwrap_or_default())]
    Disk {
        folder: String,
        wanted: u64,
        free: Option<u64>,
    },
    #[error("the device was lost: {reason}")]
    DeviceLost { reason: String },
    #[error("{op} is not supported on {device}: {why}")]
    Unsupported {
        op: String,
        device: String,
        why: String,
    },
    #[error("{name}: {expected} bytes expected, {found} given")]
    WrongSize {
        name: String,
        expected: usize,
        found: usize,
    },
    #[error("{what} is not part of this plan")]
    NotInPlan { what: String },
    #[error("the device reported: {message}")]
    Device { message: String },
    #[error(transparent)]
    Param(#[from] ParamError),
}

fn up(bytes: u64) -> Mib {
    Mib::up(bytes as usize)
}

fn down(bytes: u64) -> Mib {
    Mib::down(bytes as usize)
}
