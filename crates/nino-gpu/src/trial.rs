//! Matrix units on trial. Some drivers of AMD's die of cooperative matrices, and with them the
//! process that uses them. So another process tries first, once for each driver, and what became of
//! it is kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use half::f16;
use nino_dtype::DType;
use nino_files::{Child, ChildError, Pipes, Stop};

use crate::caps::AMD;
use crate::kernel::View;
use crate::ops::act::ActCode;
use crate::ops::gemm::Gemm;
use crate::{AdapterInfo, Adapters, Gpu, GpuError, OpenOptions, Tier};

/// How another process is asked to try an adapter: `program args.. N` calls [`Trial::attempt`]
/// with N and ends well where that does.
#[derive(Clone, Debug)]
pub struct Trial {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// Where verdicts are kept; without one, each process has its own trial.
    pub folder: Option<PathBuf>,
}

/// A driver that compiles for longer is taken for one that hangs.
const MOST_TIME: Duration = Duration::from_secs(30);
const PASSED: &str = "passed";
/// The exit code of a process that met an error and told it.
const FAILED: i32 = 1;
/// A verdict is a few lines.
const MOST_BYTES: u64 = 4096;

/// What became of the other process.
enum End {
    Passed,
    /// With the driver: it would again.
    Died(String),
    /// By an error, such as too little memory: it may pass another time.
    Failed(String),
}

impl Trial {
    /// Whether an adapter's matrix units are put on trial: those that have died of them are AMD's.
    pub fn concerns(info: &AdapterInfo) -> bool {
        info.vendor_id == AMD && info.tiers.contains(&Tier::Coop)
    }

    /// Why the adapter's matrix units must not be used; nothing where they may.
    pub fn verdict(&self, info: &AdapterInfo) -> Option<String> {
        let name = format!("matrices_{:x}_{:x}", info.vendor_id, info.device_id);
        let path = self.folder.as_ref().map(|folder| folder.join(name));
        // Another driver, or another build of ours, is another trial.
        let version = env!("CARGO_PKG_VERSION");
        let head = format!("{version} {} {}", info.driver, info.driver_info);
        let head = head.replace('\n', " ");
        if let Some(kept) = path.as_deref().and_then(|p| kept(p, &head)) {
            return kept;
        }
        let (why, lasts) = match self.run(info.index) {
            End::Passed => (None, true),
            End::Died(why) => (Some(why), true),
            End::Failed(why) => (Some(why), false),
        };
        let said = why.as_deref().unwrap_or(PASSED);
        if let Some(path) = path.filter(|_| lasts) {
            crate::pipeline::replace(&path, format!("{head}\n{said}\n").as_bytes());
        }
        why
    }

    fn run(&self, index: usize) -> End {
        let mut command = Command::new(&self.program);
        command.args(&self.args).arg(index.to_string());
        let begun = Instant::now();
        let stop = Stop::when(move || begun.elapsed() > MOST_TIME);
        let child = Child::start(command, Pipes::default(), stop);
        match child.and_then(|mut child| child.finish()) {
            Ok(()) => End::Passed,
            Err(ChildError::Stopped { .. }) => End::Died(format!(
                "the process that tried them hung for {MOST_TIME:?}"
            )),
            Err(ChildError::Failed { status, said, .. }) => {
                let why = format!("the process that tried them ended with {status}: {said}");
                let why = why.replace('\n', " ");
                if status.code() == Some(FAILED) {
                    End::Failed(why)
                } else {
                    End::Died(why)
                }
            }
            Err(e) => End::Failed(e.to_string().replace('\n', " ")),
        }
    }

    /// What the other process does: multiplies on the adapter's matrix units and looks at the
    /// result.
    pub fn attempt(index: usize) -> Result<(), GpuError> {
        let gpu = Gpu::open(&OpenOptions {
            adapter: index.to_string(),
            tier: Some(Tier::Coop),
            ptx: false,
            ..OpenOptions::default()
        })?;
        gpu.multiply_and_look()
    }
}

/// The verdict of a file that begins with `head`: nothing where there is none, else why not.
#[allow(clippy::option_option)] // whether there is one, and what it is
fn kept(path: &Path, head: &str) -> Option<Option<String>> {
    let text = String::from_utf8(nino_files::read_own(path, MOST_BYTES)?).ok()?;
    let (first, said) = text.split_once('\n')?;
    let said = said.trim_end();
    (first == head && !said.is_empty()).then(|| (said != PASSED).then(|| said.to_owned()))
}

impl Adapters {
    /// As [`Adapters::enumerate`], without the matrix units that did not pass their trial.
    pub fn enumerate_tried(trial: &Trial) -> Adapters {
        let mut adapters = Adapters::enumerate();
        for info in adapters.infos.iter_mut().filter(|i| Trial::concerns(i)) {
            if let Some(why) = trial.verdict(info) {
                // `nino doctor` warns of it.
                tracing::info!("{}: matrix units are not used: {why}", info.name);
                info.tiers.retain(|t| *t < Tier::Coop);
                info.matrices_refused = Some(why);
            }
        }
        adapters
    }
}

impl Gpu {
    /// A product of small whole numbers, which is exact.
    fn multiply_and_look(&self) -> Result<(), GpuError> {
        const SIDE: u32 = 64;
        let value = |i: u32| (i % 7) as f32 - 3.0;
        let numbers: Vec<f16> = (0..SIDE * SIDE).map(|i| f16::from_f32(value(i))).collect();
        let bytes: &[u8] = bytemuck::cast_slice(&numbers);
        let (x, out) = (
            self.buffer("trial", bytes.len() as u64)?,
            self.buffer("trial", 8192)?,
        );
        self.write(&x, 0, bytes)?;
        let view = View::whole(&x, DType::F16);
        let gemm = Gemm {
            m: SIDE,
            n: SIDE,
            k: SIDE,
            batch: 1,
            first: 0,
            w_first: 0,
            x: view,
            w: view,
            out: View::whole(&out, DType::F16),
            bias: None,
            scale: None,
            factor: None,
            beside: None,
            prologue: None,
            act: ActCode::default(),
            post: ActCode::default(),
            halves: None,
            gate: None,
            alpha: 1.0,
            w_kn: false,
            w_packed: false,
            conv: None,
        };
        let dispatch = self.dispatch(&gemm.best(&self.caps)?)?;
        self.time(&dispatch, 1)?;
        let found = self.read(&out, 0, bytes.len())?;
        let found = found
            .chunks_exact(2)
            .map(|b| f16::from_le_bytes([b[0], b[1]]));
        let dot = |i: u32| {
            let (row, column) = (i / SIDE * SIDE, i % SIDE * SIDE);
            (0..SIDE)
                .map(|k| value(row + k) * value(column + k))
                .sum::<f32>()
        };
        let wrong = (0..)
            .zip(found)
            .find(|(i, v)| v.to_f32().to_bits() != dot(*i).to_bits());
        match wrong {
            None => Ok(()),
            Some((i, v)) => Err(GpuError::Validation {
                what: "matrix units".to_owned(),
                reason: format!("value {i} of a product is {v}, and {} is right", dot(i)),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
