//! Opens devices. The only file that knows the executors' constructors.

use super::list::{Target, adapter, adapters};
use super::predicted::Predicted;
use super::{
    Budget, Card, Ceiling, DeviceChoice, DeviceError, DeviceName, HostMemory, Reopening, ceiling,
    measure, ops_log, resident_bytes,
};
use crate::timeline;
use nino_cpu::{Cpu, CpuOptions};
use nino_gpu::{Gpu, GpuDevice, GpuError, OpenOptions, Tier};
use nino_graph::{Around, Device, ExecError, Load, Mib, Rates};
use std::ops::Deref;
use std::sync::Arc;

/// A device ready to run plans, and how to speak of it.
pub struct Opened {
    /// Plans made for this device keep to its budget; one that is lost can be opened again.
    pub device: Arc<dyn Device>,
    /// `cpu` or `gpu:N`.
    pub name: DeviceName,
    /// What its maker calls it.
    pub model: String,
    /// The level of GPU kernels; none for the CPU.
    pub tier: Option<Tier>,
    /// The memory that the machine has for plans, whatever the user allows; `None` when nothing is
    /// known.
    pub available: Option<Budget>,
    pub(super) executor: Executor,
}

pub(super) enum Executor {
    Cpu(Arc<Cpu>),
    Gpu(GpuDevice),
    Card(Arc<Predicted>),
}

impl Opened {
    /// Whether it stands for a card that is not in this machine, so that all that is told of it is
    /// predicted.
    pub fn is_predicted(&self) -> bool {
        matches!(self.executor, Executor::Card(_))
    }

    /// Bytes that are free where values wait outside the device: on disk for a CPU, in the host's
    /// memory for a GPU. `None` where the system does not tell.
    pub fn outside_bytes(&self) -> Option<u64> {
        match &self.executor {
            Executor::Cpu(cpu) => cpu.free_disk_bytes(),
            Executor::Gpu(_) => HostMemory::read().available,
            Executor::Card(_) => None,
        }
    }

    /// Measures copies and arithmetic for about a second, with memory well beyond any cache.
    pub fn ceiling(&self) -> Result<Ceiling, DeviceError> {
        match &self.executor {
            Executor::Cpu(cpu) => ceiling::cpu(cpu, ceiling::LARGE),
            Executor::Gpu(gpu) => ceiling::gpu(gpu.gpu(), ceiling::LARGE),
            Executor::Card(_) => Err(DeviceError::NotHere {
                model: self.model.clone(),
            }),
        }
    }

    /// Measures for about a second how fast the kinds of op in `loads` run, and how fast values
    /// come from the host, where any do; the other rates are those of any device of the kind. It
    /// takes little memory and is not held to the budget: where a plan fits, its time can be
    /// estimated. The rates of a card that is not here are predicted.
    pub fn rates(&self, loads: &[&Load]) -> Result<Rates, DeviceError> {
        let ceiling = match &self.executor {
            Executor::Cpu(cpu) => ceiling::cpu(cpu, ceiling::SMALL)?,
            Executor::Gpu(gpu) => ceiling::gpu(gpu.gpu(), ceiling::beside_a_plan(gpu.gpu()))
                // The card may be full: less memory still gives an estimate.
                .or_else(|_| ceiling::gpu(gpu.gpu(), ceiling::SMALL))?,
            Executor::Card(card) => return Ok(card.rates(loads)),
        };
        let bare: &dyn Device = match &self.executor {
            Executor::Cpu(cpu) => &**cpu,
            Executor::Gpu(gpu) => gpu,
            Executor::Card(card) => &**card,
        };
        measure::rates(bare, ceiling, loads)
    }
}

/// Opens the one device that was chosen. `auto`, which is meant when nothing was said, takes the
/// CPU where no real GPU can be opened.
pub fn open(choice: &DeviceChoice) -> Result<Opened, DeviceError> {
    let wanted = choice.device.unwrap_or(DeviceName::Auto);
    if wanted == DeviceName::Cpu {
        return open_target(&Target::cpu(), choice);
    }
    let before = resident_bytes();
    match open_gpu(wanted, choice) {
        // With a tier asked for, the CPU would not be what was meant.
        Err(e) if wanted == DeviceName::Auto && choice.tier.is_none() => {
            if let DeviceError::Gpu(GpuError::NoAdapter { .. }) = e {
                tracing::info!("auto uses the CPU: {e}");
            } else {
                tracing::warn!("auto uses the CPU: {e}");
            }
            let grown = resident_bytes()
                .zip(before)
                .map(|(now, then)| now.saturating_sub(then));
            open_beside(&Target::cpu(), choice, in_blocks(grown.unwrap_or(0)))
        }
        opened => opened,
    }
}

/// Stands for a card that is not in this machine: plans can be made for it, at the level of kernels
/// and within the budget that were chosen.
pub fn open_card(card: &'static Card, choice: &DeviceChoice) -> Result<Opened, DeviceError> {
    let tier = choice.tier.unwrap_or(card.tier);
    if tier > card.tier {
        return Err(DeviceError::NoSuchTier {
            tier,
            looked_at: vec![card.name.to_owned()],
        });
    }
    let predicted = Arc::new(Predicted::new(card, tier));
    let available = predicted.budget();
    let budget = choice.budget.unwrap_or(available.bytes);
    Ok(Opened {
        device: budgeted(predicted.clone(), Some(budget), 0),
        name: DeviceName::Card(card.name),
        model: card.model.to_owned(),
        tier: Some(tier),
        available: Some(available),
        executor: Executor::Card(predicted),
    })
}

/// Opens one of [`super::targets`].
pub fn open_target(target: &Target, choice: &DeviceChoice) -> Result<Opened, DeviceError> {
    open_beside(target, choice, 0)
}

/// Graphics drivers stay in memory once they were asked. They are counted in blocks, so that plans
/// do not change with every page of theirs.
fn in_blocks(bytes: usize) -> usize {
    const BLOCK: usize = 16 << 20;
    bytes.next_multiple_of(BLOCK)
}

fn open_gpu(wanted: DeviceName, choice: &DeviceChoice) -> Result<Opened, DeviceError> {
    let adapters = adapters()?;
    let info = adapter(&adapters, wanted)?;
    open_target(&Target::gpu(info, choice.tier), choice)
}

/// `drivers` is how many bytes of this process a budget for the CPU has to leave to others.
fn open_beside(
    target: &Target,
    choice: &DeviceChoice,
    drivers: usize,
) -> Result<Opened, DeviceError> {
    let memory = HostMemory::read();
    let (device, executor, available) = if let DeviceName::GpuAt(n) = target.name {
        let (device, gpu) = open_adapter(n, target.tier, choice)?;
        let info = &gpu.gpu().info;
        let available = Budget::adapter(info.kind, &info.memory, &memory, None);
        (device, Executor::Gpu(gpu), available)
    } else {
        let cpu = Arc::new(Cpu::new(CpuOptions {
            threads: choice.threads,
            temp_dir: choice.temp_dir.clone(),
            ..CpuOptions::default()
        })?);
        let device: Arc<dyn Device> = cpu.clone();
        (device, Executor::Cpu(cpu), Budget::host(&memory, None))
    };
    let budget = choice.budget.or(available.as_ref().map(|b| b.bytes));
    tell(target, choice, budget);
    Ok(Opened {
        device: budgeted(
            timeline::recorded(ops_log::listened(device)),
            budget,
            drivers,
        ),
        name: target.name,
        model: target.model.clone(),
        tier: target.tier,
        available,
        executor,
    })
}

/// Which device was taken, and how much memory plans may use there.
fn tell(target: &Target, choice: &DeviceChoice, budget: Option<u64>) {
    let tier = target.tier.map_or(String::new(), |t| format!(", tier {t}"));
    let memory = match budget {
        Some(bytes) => format!("{} of memory", Mib::down(bytes as usize)),
        None => "memory without a limit".to_owned(),
    };
    let whose = if choice.budget.is_some() {
        "as --budget or a setting says"
    } else {
        "as much as is free"
    };
    let Target { name, model, .. } = target;
    tracing::info!("device {name} ({model}{tier}) with {memory}, {whose}");
}

/// The GPU itself, and the same as a device that can be opened again.
fn open_adapter(
    index: usize,
    tier: Option<Tier>,
    choice: &DeviceChoice,
) -> Result<(Arc<dyn Device>, GpuDevice), DeviceError> {
    let options = OpenOptions {
        adapter: index.to_string(),
        tier,
        cache_dir: choice.kernels_dir(),
        ptx: !choice.no_ptx,
        dot_products: choice.gpu_int8,
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
    Ok((Arc::new(device), gpu))
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

    fn budget(&self) -> nino_graph::Budget {
        let own = self.device.budget();
        let least = own.total.map_or(self.budget, |b| b.min(self.budget));
        nino_graph::Budget {
            total: Some(least),
            reserve: own.reserve + self.drivers,
            ..own
        }
    }
}
