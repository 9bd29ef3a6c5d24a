//! Which devices there are, without opening any.

use super::memory::{sysctl, text};
use super::{Budget, DeviceChoice, DeviceError, DeviceName, HostMemory};
use nino_gpu::{AdapterInfo, AdapterKind, Adapters, GpuError, Tier, Trial};
use std::panic::catch_unwind;
use std::sync::OnceLock;

/// A device of this machine.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// `cpu` or `gpu:N`.
    pub name: DeviceName,
    /// What its maker calls it.
    pub model: String,
    /// The levels of kernels it has, best last; none for the CPU.
    pub tiers: Vec<Tier>,
    /// Whether it computes on the CPU, as lavapipe does: such a device is used only when named.
    pub is_software: bool,
    /// The memory that plans may use when the user says nothing; `None` when nothing is known.
    pub budget: Option<Budget>,
    /// Everything else that is known of a GPU.
    pub adapter: Option<AdapterInfo>,
}

/// Every device of this machine, the CPU first. A machine whose graphics drivers fail has the CPU.
pub fn list() -> Vec<DeviceInfo> {
    let memory = HostMemory::read();
    let cpu = DeviceInfo {
        name: DeviceName::Cpu,
        model: cpu_model(),
        tiers: Vec::new(),
        is_software: false,
        budget: Budget::host(&memory, None),
        adapter: None,
    };
    let infos = adapters().map_or_else(|_| Vec::new(), |a| a.infos);
    let gpus = infos.into_iter().map(|info| DeviceInfo {
        name: DeviceName::GpuAt(info.index),
        model: info.name.clone(),
        tiers: info.tiers.clone(),
        is_software: info.kind == AdapterKind::Software,
        budget: Budget::adapter(info.kind, &info.memory, &memory, None),
        adapter: Some(info),
    });
    std::iter::once(cpu).chain(gpus).collect()
}

static TRIAL: OnceLock<Trial> = OnceLock::new();

/// From here on, matrix units that drivers have died of are tried by another process before they
/// are used, and not used where it dies. A host calls it once, before anything else of this module.
pub fn try_matrices_with(trial: Trial) {
    if TRIAL.set(trial).is_err() {
        tracing::debug!("matrix units are tried as was said first");
    }
}

/// What the graphics drivers offer. A driver that panics while it starts is an error.
pub fn adapters() -> Result<Adapters, GpuError> {
    let found = catch_unwind(|| match TRIAL.get() {
        Some(trial) => Adapters::enumerate_tried(trial),
        None => Adapters::enumerate(),
    });
    found.map_err(|_| GpuError::NoAdapter {
        reason: "a graphics driver failed while starting".to_owned(),
    })
}

/// The processor's name, as the operating system gives it.
pub fn cpu_model() -> String {
    let info = text("/proc/cpuinfo").unwrap_or_default();
    let mut fields = info.lines().filter_map(|l| l.split_once(':'));
    let name = fields.find(|(key, _)| key.trim() == "model name");
    let name = name.map(|(_, value)| value.trim().to_owned());
    name.or_else(|| sysctl("machdep.cpu.brand_string"))
        .unwrap_or_else(|| format!("unknown {} CPU", std::env::consts::ARCH))
}

/// A device at one level of kernels, not opened yet.
#[derive(Clone, Debug)]
pub struct Target {
    /// `cpu` or `gpu:N`.
    pub name: DeviceName,
    /// What its maker calls it.
    pub model: String,
    /// The level of GPU kernels; none for the CPU.
    pub tier: Option<Tier>,
}

impl Target {
    pub(super) fn cpu() -> Target {
        Target {
            name: DeviceName::Cpu,
            model: cpu_model(),
            tier: None,
        }
    }

    /// An adapter at `tier`, or at the best one it has.
    pub(super) fn gpu(info: &AdapterInfo, tier: Option<Tier>) -> Target {
        Target {
            name: DeviceName::GpuAt(info.index),
            model: info.name.clone(),
            tier: tier.or(info.tiers.last().copied()),
        }
    }
}

/// Every device the choice allows: without a name the CPU and all adapters, without a tier each
/// tier an adapter has. A name or tier that is not there is an error.
pub fn targets(choice: &DeviceChoice) -> Result<Vec<Target>, DeviceError> {
    if choice.device == Some(DeviceName::Cpu) {
        return Ok(vec![Target::cpu()]);
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
    let mut found = Vec::new();
    if named.is_none() && choice.tier.is_none() {
        found.push(Target::cpu());
    }
    for info in &infos {
        let wanted = |tier: &&Tier| choice.tier.is_none_or(|t| t == **tier);
        let tiers = info.tiers.iter().filter(wanted);
        found.extend(tiers.map(|t| Target::gpu(info, Some(*t))));
    }
    match choice.tier {
        Some(tier) if found.is_empty() => Err(DeviceError::NoSuchTier {
            tier,
            looked_at: infos.iter().map(|a| format!("gpu:{}", a.index)).collect(),
        }),
        _ => Ok(found),
    }
}

/// The adapter of `gpu:N`, else the best real one.
pub(super) fn adapter(
    adapters: &Adapters,
    wanted: DeviceName,
) -> Result<&AdapterInfo, DeviceError> {
    let DeviceName::GpuAt(n) = wanted else {
        return Ok(adapters.pick("auto")?);
    };
    if adapters.infos.is_empty() {
        adapters.pick("auto")?;
    }
    let named = |a: &AdapterInfo| format!("gpu:{} ({})", a.index, a.name);
    adapters.infos.get(n).ok_or_else(|| DeviceError::NoSuchGpu {
        wanted: n,
        found: adapters.infos.iter().map(named).collect(),
    })
}
