//! The CPU as a device: its threads, its vector level, and what it says about itself.

use std::path::PathBuf;
use std::sync::Arc;

use nino_dtype::DType;
use nino_graph::{
    Budget, Device, ExecError, Limits, ParamSource, Plan, Rewrites, Session, Weights, taking_turns,
};

use crate::exec;
use crate::gemm::linear::takes_gate;
use crate::gemm::{pairs, q8};
use crate::memory::{self, Buffer};
use crate::params::Params;
use crate::simd::Level;
use crate::spill::Spill;
use crate::threads::Threads;

/// How to open the CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuOptions {
    /// The number of threads; all cores when not given.
    pub threads: Option<usize>,
    /// The vector level; the best one when not given. A level that this machine lacks is an error.
    pub level: Option<Level>,
    /// The folder for values that do not fit into memory; `/var/tmp` and then the system's folder
    /// for temporary files when it is not given or cannot be written.
    pub temp_dir: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    #[error("this CPU has no {wanted}; it has {}", names(available))]
    NoLevel {
        wanted: Level,
        available: Vec<Level>,
    },
    #[error("the number of threads must be at least 1")]
    NoThreads,
}

fn names(levels: &[Level]) -> String {
    levels
        .iter()
        .map(|l| l.name())
        .collect::<Vec<_>>()
        .join(", ")
}

/// The memory that the program takes beside weights and arena, rounded up: 15 MiB of its own file,
/// tokenizers, and what the C library keeps of weights that were freed, up to 14 MiB in runs of
/// `cargo xtask soak`; and 3.4 MiB of scratch a thread for the widest convolutions.
const PROGRAM_BYTES: usize = 32 << 20;
const THREAD_BYTES: usize = 4 << 20;

/// The CPU; holds its own threads.
pub struct Cpu {
    threads: Arc<Threads>,
    level: Level,
    temp_dir: Option<PathBuf>,
}

impl Cpu {
    pub fn new(options: CpuOptions) -> Result<Cpu, CpuError> {
        memory::give_back_what_is_freed();
        let available = Level::available();
        let level = options.level.unwrap_or(available[0]);
        if !available.contains(&level) {
            return Err(CpuError::NoLevel {
                wanted: level,
                available,
            });
        }
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = options.threads.unwrap_or_else(cores);
        if threads == 0 {
            return Err(CpuError::NoThreads);
        }
        Ok(Cpu {
            threads: Arc::new(Threads::new(threads)),
            level,
            temp_dir: options.temp_dir,
        })
    }

    pub fn threads(&self) -> usize {
        self.threads.count()
    }

    pub fn level(&self) -> Level {
        self.level
    }

    /// Bytes that are free on the disk where values wait that do not fit into memory; `None` where
    /// the system does not tell.
    pub fn free_disk_bytes(&self) -> Option<u64> {
        Spill::free_bytes(self.temp_dir.as_deref())
    }

    pub(crate) fn team(&self) -> &Threads {
        &self.threads
    }
}

impl Device for Cpu {
    fn name(&self) -> String {
        "cpu".to_owned()
    }

    fn limits(&self) -> Limits {
        Limits {
            align: Buffer::ALIGN,
            // The fetch in use, the next one, and its bytes as read before they are packed.
            fetch_copies: 3,
            ..Limits::default()
        }
    }

    fn budget(&self) -> Budget {
        Budget {
            reserve: PROGRAM_BYTES + self.threads() * THREAD_BYTES,
            ..Budget::default()
        }
    }

    fn rewrites(&self) -> Rewrites {
        Rewrites {
            gate_into_linear: Some(takes_gate),
            ..Rewrites::ALL
        }
    }

    fn faster_dtype(&self) -> Option<DType> {
        pairs::supported(self.level).then_some(DType::BF16)
    }

    fn multiplies_integers(&self) -> bool {
        q8::supported(self.level)
    }

    /// There is nothing to compile: a session costs the first touch of its arena's pages, while an
    /// arena that waits is memory that other programs of the machine could use.
    fn keeps_every_size(&self) -> bool {
        false
    }

    fn load(&self, plans: &[&Plan], source: Arc<dyn ParamSource>) -> Result<Weights, ExecError> {
        let params = Params::load(self.level, plans, &self.threads, source)?;
        tracing::debug!(bytes = params.bytes(), "weights loaded");
        Ok(Arc::new(params))
    }

    fn sessions(
        &self,
        plans: &[Arc<Plan>],
        weights: &Weights,
    ) -> Result<Vec<Box<dyn Session>>, ExecError> {
        let other = |_| ExecError::NotInPlan {
            what: "weights of another device".to_owned(),
        };
        let weights = weights.clone().downcast::<Params>().map_err(other)?;
        let temp_dir = self.temp_dir.as_deref();
        let sessions = exec::sessions(plans, &weights, &self.threads, self.level, temp_dir)?;
        let boxed = |s| -> Box<dyn Session> { Box::new(s) };
        Ok(taking_turns(sessions.into_iter().map(boxed).collect()))
    }
}
