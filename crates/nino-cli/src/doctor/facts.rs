//! What is known about a machine, as plain values: gathered once, judged by `rules.rs`, printed by
//! `print.rs`. Tests make them up.

use super::budget;
use crate::env::SetVariable;
use crate::settings::Said;
use nino_engine::device::{AdapterKind, Budget, MemoryReading, MemorySource};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Facts {
    pub(crate) version: &'static str,
    pub(crate) system: System,
    pub(crate) cpu: Cpu,
    pub(crate) memory: Memory,
    pub(crate) adapters: Vec<Adapter>,
    /// Why there is no adapter, when there is none.
    pub(crate) no_adapter: Option<String>,
    pub(crate) environment: Vec<SetVariable>,
    pub(crate) config: Config,
}

/// The config file and what it, variables and a profile set.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Config {
    /// Where it is looked for.
    pub(crate) path: Option<PathBuf>,
    pub(crate) found: bool,
    pub(crate) settings: BTreeMap<&'static str, Said>,
    /// What of the file and of the settings cannot be understood.
    pub(crate) problems: Vec<String>,
    /// Folders of models that are named and not there.
    pub(crate) missing_folders: Vec<String>,
    /// Folders of models that any user of this machine can write to.
    pub(crate) open_folders: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct System {
    pub(crate) os: &'static str,
    pub(crate) arch: &'static str,
    /// As `uname -r` prints it.
    pub(crate) kernel: Option<String>,
    /// Graphics cards the kernel shows, whether or not a driver offers them to us.
    pub(crate) cards: Vec<Card>,
    /// Render nodes that exist and that this user may not open.
    pub(crate) closed_nodes: Vec<String>,
    /// Driver files named by VK_DRIVER_FILES or VK_ICD_FILENAMES that do not exist.
    pub(crate) missing_drivers: Vec<String>,
    pub(crate) wsl: bool,
}

/// A PCI graphics card as the kernel shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Card {
    pub(crate) pci: String,
    pub(crate) vendor_id: u32,
    pub(crate) device_id: u32,
    /// Kernel driver bound to it.
    pub(crate) driver: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Cpu {
    pub(crate) model: String,
    pub(crate) cores: Option<usize>,
    /// Hardware threads this process may use.
    pub(crate) threads: usize,
    pub(crate) features: Vec<&'static str>,
    /// The instructions that multiply activations stored in bf16; `None` where f32 does.
    pub(crate) bf16_products: Option<&'static str>,
    pub(crate) caches: Vec<Cache>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cache {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// Memory of the host in bytes.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Memory {
    pub(crate) total: Option<u64>,
    pub(crate) available: Option<u64>,
    /// Least limit of the control groups this process is in, and which one sets it.
    pub(crate) limit: Option<(u64, String)>,
    #[serde(serialize_with = "budget::json")]
    pub(crate) budget: Option<Budget>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Adapter {
    /// `gpu:0`
    pub(crate) device: String,
    pub(crate) name: String,
    #[serde(serialize_with = "kind_json")]
    pub(crate) kind: AdapterKind,
    pub(crate) vendor_id: u32,
    pub(crate) device_id: u32,
    pub(crate) pci: String,
    pub(crate) architecture: Option<Architecture>,
    pub(crate) backend: String,
    pub(crate) driver: String,
    pub(crate) driver_info: String,
    pub(crate) tiers: Vec<String>,
    /// Why its matrix units are not used, where they did not pass their trial.
    pub(crate) matrices_refused: Option<String>,
    pub(crate) subgroup: (u32, u32),
    pub(crate) coop_size: Option<u32>,
    pub(crate) f16_arithmetic: bool,
    /// Whether products of packed bytes are an instruction; nothing where kernels cannot have them.
    pub(crate) dot_products: Option<bool>,
    pub(crate) timestamps: bool,
    pub(crate) max_binding: u64,
    pub(crate) max_buffer: u64,
    pub(crate) max_workgroup: u32,
    #[serde(serialize_with = "readings_json")]
    pub(crate) memory: Vec<MemoryReading>,
    #[serde(serialize_with = "budget::json")]
    pub(crate) budget: Option<Budget>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Architecture {
    /// `gfx1151` for AMD, the marketing generation for others.
    pub(crate) id: &'static str,
    pub(crate) family: Family,
    /// What people call cards of this kind.
    pub(crate) cards: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Family {
    Gcn,
    Polaris,
    Vega,
    Cdna,
    Rdna1,
    Rdna2,
    Rdna3,
    #[serde(rename = "Rdna3.5")]
    Rdna35,
    Rdna4,
    Nvidia,
    Intel,
    Apple,
    Software,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn kind_json<S: Serializer>(kind: &AdapterKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match kind {
        AdapterKind::Discrete => "discrete",
        AdapterKind::Integrated => "integrated",
        AdapterKind::Virtual => "virtual",
        AdapterKind::Software => "software",
        AdapterKind::Other => "other",
    })
}

fn readings_json<S: Serializer>(readings: &[MemoryReading], to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct ReadingJson {
        source: &'static str,
        total: u64,
        free: Option<u64>,
    }
    to.collect_seq(readings.iter().map(|r| ReadingJson {
        source: r.source.name(),
        total: r.total,
        free: r.free,
    }))
}

impl Adapter {
    pub(crate) fn family(&self) -> Option<Family> {
        self.architecture.map(|a| a.family)
    }

    pub(crate) fn is_amd(&self) -> bool {
        self.vendor_id == super::arch::AMD
    }

    pub(crate) fn reading(&self, source: MemorySource) -> Option<&MemoryReading> {
        self.memory.iter().find(|r| r.source == source)
    }

    /// Version of Mesa, when Mesa is the driver: (25, 2).
    pub(crate) fn mesa(&self) -> Option<(u32, u32)> {
        let rest = self.driver_info.split("Mesa ").nth(1)?;
        let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

impl Facts {
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let found = self.environment.iter().find(|v| v.name == name);
        found.map(|v| v.value.as_str())
    }

    /// Major and minor number of the kernel.
    pub(crate) fn kernel(&self) -> Option<(u32, u32)> {
        let mut numbers = self.system.kernel.as_ref()?.split('.');
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?;
        let end = minor
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(minor.len());
        Some((major, minor[..end].parse().ok()?))
    }
}
