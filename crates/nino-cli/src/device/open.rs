//! Opens the devices a choice names. The only file that knows the executors' constructors.

use super::{Choice, DeviceName};
use crate::args::GpuTier;
use crate::device::ceiling::{self, Ceiling};
use crate::resident;
use anyhow::{Context, Result, bail};
use nino_cpu::{Cpu, CpuOptions};
use nino_engine::Reopening;
use nino_gpu::{AdapterInfo, AdapterKind, Adapters, Gpu, GpuDevice, GpuError, OpenOptions, Tier};
use nino_graph::{Around, Budget, Device, ExecError};
use std::ops::Deref;
use std::panic::catch_unwind;
use std::sync::Arc;

/// A device that can be opened, not opened yet.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// `cpu` or `gpu:N`.
    pub(crate) name: DeviceName,
    pub(crate) model: String,
    pub(crate) tier: Option<GpuTier>,
}

/// A device ready to run plans, and how to speak of it.
pub(crate) struct Opened {
    pub(crate) device: Arc<dyn Device>,
    /// `cpu`, `gpu:0`
    pub(crate) name: String,
    /// What the maker calls it.
    pub(crate) model: String,
    pub(crate) tier: Option<GpuTier>,
    kind: Opener,
}

enum Opener {
    Cpu(Arc<Cpu>),
    Gpu(GpuDevice),
}

impl Opened {
    /// Measures for about a second.
    pub(crate) fn ceiling(&self) -> Result<Ceiling> {
        match &self.kind {
            Opener::Cpu(cpu) => ceiling::cpu(cpu),
            Opener::Gpu(gpu) => ceiling::gpu(gpu.gpu()),
        }
    }
}

/// Opens the one device that was chosen; `auto` when nothing was said.
pub(crate) fn open(choice: &Choice) -> Result<Opened> {
    let wanted = choice.device.unwrap_or(DeviceName::Auto);
    if wanted == DeviceName::Cpu {
        return open_target(&cpu_target(), choice);
    }
    let before = resident::now();
    match open_gpu(wanted, choice) {
        // With a tier asked for, the CPU would not be what was meant.
        Err(e) if wanted == DeviceName::Auto && choice.tier.is_none() => {
            if let Some(GpuError::NoAdapter { .. }) = e.downcast_ref() {
                tracing::debug!("auto takes the CPU: {e}");
            } else {
                tracing::warn!("auto takes the CPU: {e:#}");
            }
            let grown = resident::now()
                .zip(before)
                .map(|(now, then)| now.saturating_sub(then));
            open_beside(&cpu_target(), choice, in_blocks(grown.unwrap_or(0)))
        }
        opened => opened,
    }
}

/// Graphics drivers stay in memory once they were asked. In blocks, so that plans do not change with
/// every page of theirs.
fn in_blocks(bytes: usize) -> usize {
    const BLOCK: usize = 16 << 20;
    bytes.next_multiple_of(BLOCK)
}

fn open_gpu(wanted: DeviceName, choice: &Choice) -> Result<Opened> {
    let adapters = adapters()?;
    let info = adapter(&adapters, wanted)?;
    open_target(&gpu_target(info, choice.tier), choice)
}

/// What the drivers offer; one that panics is a reason to have none.
pub(crate) fn adapters() -> Result<Adapters, GpuError> {
    catch_unwind(Adapters::enumerate).map_err(|_| GpuError::NoAdapter {
        reason: "a graphics driver failed while starting".to_owned(),
    })
}

/// The adapter of `gpu:N`, else the best real one.
fn adapter(adapters: &Adapters, wanted: DeviceName) -> Result<&AdapterInfo> {
    let DeviceName::GpuAt(n) = wanted else {
        return Ok(adapters.pick("auto")?);
    };
    if adapters.infos.is_empty() {
        adapters.pick("auto")?;
    }
    let names: Vec<String> = adapters
        .infos
        .iter()
        .map(|a| format!("gpu:{} ({})", a.index, a.name))
        .collect();
    let found = adapters.infos.get(n);
    found.with_context(|| {
        format!(
            "there is no {wanted}; this machine has {}",
            names.join(", ")
        )
    })
}

/// Every device the choice allows: without a name the CPU and all adapters, without a tier each
/// tier an adapter has. A name or tier that is not there is an error.
pub(crate) fn targets(choice: &Choice) -> Result<Vec<Target>> {
    if choice.device == Some(DeviceName::Cpu) {
        return Ok(vec![cpu_target()]);
    }
    let named = choice.device.filter(|name| *name != DeviceName::Auto);
    let adapters = match adapters() {
        Err(e) if named.is_none() => {
            tracing::warn!("{e}");
            None
        }
        found => Some(found?),
    };
    let infos: Vec<&AdapterInfo> = match (named, &adapters) {
        (Some(name), Some(adapters)) => vec![adapter(adapters, name)?],
        _ => adapters.iter().flat_map(|a| &a.infos).collect(),
    };
    let wanted = |tier: &Tier| choice.tier.is_none_or(|t| Tier::from(t) == *tier);
    let mut found = Vec::new();
    if named.is_none() && choice.tier.is_none() {
        found.push(cpu_target());
    }
    for info in &infos {
        let tiers = info.tiers.iter().filter(|t| wanted(t));
        found.extend(tiers.map(|t| gpu_target(info, Some((*t).into()))));
    }
    if let Some(tier) = choice.tier.filter(|_| found.is_empty()) {
        let names: Vec<String> = infos.iter().map(|a| format!("gpu:{}", a.index)).collect();
        bail!(
            "no device has the tier {tier}; looked at {}",
            or_none(&names.join(", "))
        );
    }
    Ok(found)
}

fn or_none(text: &str) -> &str {
    if text.is_empty() {
        "none, there is no GPU"
    } else {
        text
    }
}

pub(crate) fn open_target(target: &Target, choice: &Choice) -> Result<Opened> {
    open_beside(target, choice, 0)
}

/// `drivers`: bytes of this process that a budget for the CPU has to leave to others.
fn open_beside(target: &Target, choice: &Choice, drivers: usize) -> Result<Opened> {
    let (device, kind): (Arc<dyn Device>, Opener) = if let DeviceName::GpuAt(n) = target.name {
        let options = OpenOptions {
            adapter: n.to_string(),
            tier: target.tier.map(Tier::from),
            cache_dir: choice.cache_dir.as_ref().map(|dir| dir.join("kernels")),
            ptx: !choice.no_ptx,
            ..OpenOptions::default()
        };
        let gpu = GpuDevice::new(Gpu::open(&options)?);
        let again = move || -> Result<Arc<dyn Device>, ExecError> {
            let gpu = Gpu::open(&options).map_err(|e| ExecError::DeviceLost {
                reason: e.to_string(),
            })?;
            Ok(Arc::new(GpuDevice::new(gpu)))
        };
        let device = Reopening::new(Arc::new(gpu.clone()), again);
        (Arc::new(device), Opener::Gpu(gpu))
    } else {
        let cpu = Arc::new(Cpu::new(CpuOptions {
            threads: choice.threads,
            level: None,
        })?);
        (cpu.clone(), Opener::Cpu(cpu))
    };
    Ok(Opened {
        device: budgeted(device, budget(&kind, choice), drivers),
        name: target.name.to_string(),
        model: target.model.clone(),
        tier: target.tier,
        kind,
    })
}

fn cpu_target() -> Target {
    Target {
        name: DeviceName::Cpu,
        model: crate::doctor::cpu_model(),
        tier: None,
    }
}

fn gpu_target(info: &AdapterInfo, tier: Option<GpuTier>) -> Target {
    let best = info.tiers.last().copied().map(GpuTier::from);
    Target {
        name: DeviceName::GpuAt(info.index),
        model: info.name.clone(),
        tier: tier.or(best),
    }
}

impl From<GpuTier> for Tier {
    fn from(tier: GpuTier) -> Tier {
        match tier {
            GpuTier::F32 => Tier::F32,
            GpuTier::F16 => Tier::F16,
            GpuTier::Subgroup => Tier::Subgroup,
            GpuTier::Coop => Tier::Coop,
        }
    }
}

impl From<Tier> for GpuTier {
    fn from(tier: Tier) -> GpuTier {
        match tier {
            Tier::F32 => GpuTier::F32,
            Tier::F16 => GpuTier::F16,
            Tier::Subgroup => GpuTier::Subgroup,
            Tier::Coop => GpuTier::Coop,
        }
    }
}

/// The user's cap, or on a card what `nino doctor` says it has: what a card lacks fails half-way, while
/// an operating system finds a page somewhere.
fn budget(kind: &Opener, choice: &Choice) -> Option<u64> {
    let own = || match kind {
        Opener::Gpu(gpu) if gpu.gpu().info.kind != AdapterKind::Software => {
            crate::doctor::adapter_budget(&gpu.gpu().info)
        }
        _ => None,
    };
    choice.budget.map(|b| b.0).or_else(own)
}

/// Puts the budget into every plan made for the device.
fn budgeted(device: Arc<dyn Device>, budget: Option<u64>, drivers: usize) -> Arc<dyn Device> {
    match budget {
        Some(budget) => Arc::new(Budgeted {
            device,
            budget: budget as usize,
            drivers,
        }),
        None => device,
    }
}

struct Budgeted {
    device: Arc<dyn Device>,
    budget: usize,
    drivers: usize,
}

impl Around for Budgeted {
    fn inner(&self) -> impl Deref<Target = dyn Device + '_> {
        &*self.device
    }

    fn budget(&self) -> Budget {
        let own = self.device.budget();
        let least = own.total.map_or(self.budget, |b| b.min(self.budget));
        Budget {
            total: Some(least),
            reserve: own.reserve + self.drivers,
            ..own
        }
    }
}
