//! Known bad combinations: a table of conditions over facts, what each means and what to do.
//!
//! `when` gives the evidence (the numbers that made it true) or nothing. Sources name public issue
//! threads; the texts are ours.

use super::facts::{Adapter, Facts, Family};
use crate::bytes::Bytes;
use nino_engine::device::{AdapterKind, MemorySource};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Something does not work until it is mended.
    Problem,
    /// Works, but worse than it could.
    Warning,
    /// Good to know.
    Note,
}

enum When {
    Machine(fn(&Facts) -> Option<String>),
    Adapter(fn(&Facts, &Adapter) -> Option<String>),
}

struct Rule {
    id: &'static str,
    level: Level,
    when: When,
    what: &'static str,
    todo: &'static str,
    source: &'static str,
}

/// A rule that holds on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) id: &'static str,
    pub(crate) level: Level,
    /// `gpu:0`, or nothing when the machine is meant.
    pub(crate) device: Option<String>,
    pub(crate) what: &'static str,
    pub(crate) evidence: String,
    pub(crate) todo: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) source: &'static str,
}

/// Every rule that holds, worst first.
pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    for rule in RULES {
        let mut push = |device: Option<String>, evidence: Option<String>| {
            if let Some(evidence) = evidence {
                found.push(Finding {
                    id: rule.id,
                    level: rule.level,
                    device,
                    what: rule.what,
                    evidence,
                    todo: rule.todo,
                    source: rule.source,
                });
            }
        };
        match rule.when {
            When::Machine(when) => push(None, when(facts)),
            When::Adapter(when) => {
                for adapter in &facts.adapters {
                    push(Some(adapter.device.clone()), when(facts, adapter));
                }
            }
        }
    }
    found.sort_by_key(|f| f.level);
    found
}

#[cfg(test)]
pub(super) fn ids() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.id)
}

const RULES: &[Rule] = &[
    Rule {
        id: "broken-settings",
        level: Level::Problem,
        when: When::Machine(|f| some_list(&f.config.problems)),
        what: "a setting is invalid, so every other verb refuses to start",
        todo: "fix the line in the config file, or the variable",
        source: "",
    },
    Rule {
        id: "models-folder-missing",
        level: Level::Warning,
        when: When::Machine(|f| some_list(&f.config.missing_folders)),
        what: "a folder of models that NINO_MODELS, NINO_COMFYUI or the config file names does not exist",
        todo: "create the folder, or set the one that has the models",
        source: "",
    },
    Rule {
        id: "models-folder-open",
        level: Level::Note,
        when: When::Machine(|f| some_list(&f.config.open_folders)),
        what: "any user of this machine can add or change models in a folder that is searched",
        todo: "if that is not intended: chmod o-w the folder",
        source: "",
    },
    Rule {
        id: "no-gpu",
        level: Level::Note,
        when: When::Machine(|f| f.no_adapter.clone()),
        what: "no graphics adapter was found, so the CPU is used",
        todo: "if there is a graphics card: install libvulkan1 and its Vulkan driver (AMD, Intel: mesa-vulkan-drivers)",
        source: "",
    },
    Rule {
        id: "card-without-driver",
        level: Level::Problem,
        when: When::Machine(card_without_driver),
        what: "there is a graphics card, but no Vulkan driver supports it",
        todo: "install its driver (AMD and Intel: mesa-vulkan-drivers; NVIDIA: its own) and log in \
               again",
        source: "",
    },
    Rule {
        id: "matrices-refused",
        level: Level::Warning,
        when: When::Adapter(|_, a| a.matrices_refused.clone()),
        what: "the driver failed a test of its matrix units, so they are not used",
        todo: "install a newer driver; NINO_GPU_TRIAL=0 uses them without the test",
        source: "",
    },
    Rule {
        id: "render-node-closed",
        level: Level::Problem,
        when: When::Machine(|f| some_list(&f.system.closed_nodes)),
        what: "this user may not open the graphics card",
        todo: "add the user to the groups render and video (`usermod -aG render,video NAME`) and \
               log in again",
        source: "",
    },
    Rule {
        id: "driver-file-missing",
        level: Level::Problem,
        when: When::Machine(|f| some_list(&f.system.missing_drivers)),
        what: "VK_DRIVER_FILES or VK_ICD_FILENAMES names a driver that does not exist, which hides the real ones",
        todo: "unset the variable",
        source: "",
    },
    Rule {
        id: "unknown-variable",
        level: Level::Warning,
        when: When::Machine(|f| {
            let names = f
                .environment
                .iter()
                .filter(|v| v.unknown)
                .map(|v| v.name.clone());
            some_list(&names.collect::<Vec<_>>())
        }),
        what: "an unknown NINO_ variable is set",
        todo: "see `nino doctor` for the known names, or unset it",
        source: "",
    },
    Rule {
        id: "wsl",
        level: Level::Warning,
        when: When::Adapter(|f, a| {
            let dozen = a.driver.to_lowercase().contains("dozen") || a.name.contains("Direct3D12");
            (f.system.wsl && dozen).then(|| a.driver.clone())
        }),
        what: "under WSL the card is used through Direct3D 12, which is slow and incomplete",
        todo: "use the Windows build of nino",
        source: "",
    },
    Rule {
        id: "amdvlk",
        level: Level::Warning,
        when: When::Adapter(|_, a| {
            let driver = a.driver.to_lowercase();
            let amdvlk = driver.contains("amdvlk") || driver.contains("amd open-source");
            (a.is_amd() && amdvlk).then(|| a.driver.clone())
        }),
        what: "AMDVLK is no longer developed, and its largest buffers are smaller than RADV's",
        todo: "install mesa-vulkan-drivers and remove AMDVLK, or set AMD_VULKAN_ICD=RADV",
        source: "ggml-org/llama.cpp#16135",
    },
    Rule {
        id: "old-mesa-matrix",
        level: Level::Warning,
        when: When::Adapter(|_, a| {
            let family = a.family()?;
            let matrix = matches!(family, Family::Rdna3 | Family::Rdna35 | Family::Rdna4);
            let has = a.tiers.iter().any(|t| t == "coop");
            (matrix && !has && a.mesa()? < (25, 0)).then(|| a.driver_info.clone())
        }),
        what: "this Mesa does not support the card's matrix units, which are several times faster",
        todo: "update to Mesa 25 or newer",
        source: "",
    },
    Rule {
        id: "old-mesa-integrated",
        level: Level::Warning,
        when: When::Adapter(|_, a| {
            let wrong = a.is_amd() && a.kind == AdapterKind::Integrated && a.mesa()? < (24, 1);
            wrong.then(|| a.driver_info.clone())
        }),
        what: "integrated AMD graphics gave wrong images with drivers of this age",
        todo: "run `nino doctor --verify`; update Mesa if an op differs",
        source: "leejet/stable-diffusion.cpp#563, #1279, #1471",
    },
    Rule {
        id: "gtt-small",
        level: Level::Warning,
        when: When::Adapter(gtt_small),
        what: "the GPU shares system memory and may use only a part of it",
        todo: "raise ttm.pages_limit (4 KiB pages) on the kernel's command line; docs/amd.md has the line",
        source: "ROCm/ROCm#5444, #5595",
    },
    Rule {
        id: "memory-tight",
        level: Level::Warning,
        when: When::Adapter(|_, a| {
            let readings = a.memory.iter().filter(|r| r.source != MemorySource::AmdGtt);
            let tight = readings.filter_map(|r| Some((r.free?, r.total)));
            let (free, total) = tight.filter(|(free, total)| free * 4 < *total).min()?;
            Some(format!("{} of {} free", Bytes(free), Bytes(total)))
        }),
        what: "most of the card's memory is in use, and drivers have produced bad images instead \
               of failing",
        todo: "close other programs that use the card, or lower --budget",
        source: "leejet/stable-diffusion.cpp#1589",
    },
    Rule {
        id: "small-binding",
        level: Level::Note,
        when: When::Adapter(|_, a| {
            let small = a.kind != AdapterKind::Software && a.max_binding < 1 << 30;
            small.then(|| format!("{} at once", Bytes(a.max_binding)))
        }),
        what: "the driver has a small binding limit, so large ops are split by rows",
        todo: "nothing to do: the result is the same; a newer driver may be faster",
        source: "leejet/stable-diffusion.cpp#1290",
    },
    Rule {
        id: "polaris",
        level: Level::Note,
        when: When::Adapter(|_, a| (a.family()? == Family::Polaris).then(|| a.name.clone())),
        what: "this card computes in f32 and only stores f16; programs that compute in f16 give black images on it",
        todo: "nothing to do here: nino stores f16 and computes f32; for SDXL use a quantized file",
        source: "LostRuins/koboldcpp#1667",
    },
    Rule {
        id: "little-vram",
        level: Level::Note,
        when: When::Adapter(|_, a| {
            let bytes = a
                .budget
                .as_ref()
                .filter(|_| a.kind == AdapterKind::Discrete)?
                .bytes;
            (bytes < 5 << 30).then(|| format!("budget {}", Bytes(bytes)))
        }),
        what: "little memory for models: Stable Diffusion 1.5 fits, larger models need quantized \
               files",
        todo: "use q8_0 or q4_k files; large decodes are tiled automatically",
        source: "",
    },
    Rule {
        id: "compute-ring-reset",
        level: Level::Note,
        when: When::Adapter(|_, a| {
            let id = a.architecture?.id;
            ["gfx902", "gfx90c", "gfx1151"]
                .contains(&id)
                .then(|| id.to_owned())
        }),
        what: "the kernel resets this GPU if one submission takes longer than 2 to 10 s",
        todo: "nothing to do here: nino's submissions take about 0.2 s; report it if the device is \
               lost",
        source: "ggml-org/llama.cpp#21724, #25664",
    },
    Rule {
        id: "mmap-slow",
        level: Level::Note,
        when: When::Machine(|f| {
            let halo = f
                .adapters
                .iter()
                .any(|a| a.architecture.is_some_and(|c| c.id == "gfx1151"));
            let kernel = f.kernel().filter(|k| *k >= (7, 0));
            kernel
                .filter(|_| halo)
                .map(|(major, minor)| format!("Linux {major}.{minor}"))
        }),
        what: "on this kernel ROCm programs that map model files load them hundreds of times slower",
        todo: "nothing to do here: nino reads files; in ComfyUI use --disable-mmap",
        source: "ROCm/ROCm#6530, #6582",
    },
    Rule {
        id: "windows-shared-memory",
        level: Level::Note,
        when: When::Adapter(|f, a| {
            let shared =
                f.system.os == "windows" && a.is_amd() && a.kind == AdapterKind::Integrated;
            shared.then(|| a.name.clone())
        }),
        what: "Windows reports less memory for integrated GPUs than they can use",
        todo: "set the real size with --budget",
        source: "LostRuins/koboldcpp#1789",
    },
    Rule {
        id: "radv-debug",
        level: Level::Warning,
        when: When::Machine(|f| {
            let value = f.variable("RADV_DEBUG")?;
            Some(format!("RADV_DEBUG={value}"))
        }),
        what: "debug switches of the driver are on; most make it slower",
        todo: "unset RADV_DEBUG",
        source: "",
    },
    Rule {
        id: "validation-layers",
        level: Level::Warning,
        when: When::Machine(|f| {
            let value = f.variable("VK_INSTANCE_LAYERS")?;
            value.contains("validation").then(|| value.to_owned())
        }),
        what: "Vulkan's validation layer is on, which makes everything slower",
        todo: "unset VK_INSTANCE_LAYERS",
        source: "",
    },
    Rule {
        id: "rocm-variables",
        level: Level::Note,
        when: When::Machine(|f| {
            let rocm = |n: &str| {
                ["HSA_", "HIP_", "MIOPEN_", "ROCR_"]
                    .iter()
                    .any(|p| n.starts_with(p))
            };
            let names = f
                .environment
                .iter()
                .map(|v| v.name.clone())
                .filter(|n| rocm(n));
            some_list(&names.collect::<Vec<_>>())
        }),
        what: "variables for ROCm are set; they do nothing here",
        todo: "nothing to do; --device gpu:N chooses the card",
        source: "Comfy-Org/ComfyUI#5759",
    },
    Rule {
        id: "capture",
        level: Level::Note,
        when: When::Machine(|f| {
            let value = f.variable("ROCM_NINODES_DEBUG").filter(|v| *v != "0")?;
            Some(format!("ROCM_NINODES_DEBUG={value}"))
        }),
        what: "capture of inputs and outputs is on, which is slow and fills the disk",
        todo: "unset ROCM_NINODES_DEBUG when you are done",
        source: "",
    },
    Rule {
        id: "no-avx2",
        level: Level::Warning,
        when: When::Machine(|f| {
            let slow = f.system.arch == "x86_64" && !f.cpu.features.contains(&"avx2");
            slow.then(|| f.cpu.model.clone())
        }),
        what: "this CPU has no AVX2, so slow plain kernels are used",
        todo: "use a GPU; in a virtual machine, pass the host's CPU features through",
        source: "",
    },
    Rule {
        id: "memory-limit",
        level: Level::Note,
        when: When::Machine(|f| {
            let (bytes, group) = f.memory.limit.as_ref()?;
            Some(format!("{} by the control group {group}", Bytes(*bytes)))
        }),
        what: "a container or service limits the memory of this process",
        todo: "raise the limit if plans do not fit",
        source: "",
    },
    Rule {
        id: "memory-low",
        level: Level::Warning,
        when: When::Machine(|f| {
            let available = f.memory.available.filter(|b| *b < 2 << 30)?;
            Some(format!("{} available", Bytes(available)))
        }),
        what: "little system memory is free",
        todo: "close other programs before running a model",
        source: "",
    },
];

fn some_list(items: &[String]) -> Option<String> {
    (!items.is_empty()).then(|| items.join(", "))
}

fn card_without_driver(facts: &Facts) -> Option<String> {
    let served = |card: &super::facts::Card| {
        let ids = |a: &Adapter| (a.vendor_id, a.device_id) == (card.vendor_id, card.device_id);
        facts.adapters.iter().any(ids)
    };
    // Display-only chips (servers' ASPEED, Matrox) have no Vulkan and need none.
    let capable = [0x1002, 0x10de, 0x8086];
    let cards = facts
        .system
        .cards
        .iter()
        .filter(|c| capable.contains(&c.vendor_id) && !served(c));
    let names = cards.map(|c| {
        let known = super::arch::find(c.vendor_id, c.device_id, "").map_or("", |a| a.cards);
        let text = format!("{:04x}:{:04x} {known}", c.vendor_id, c.device_id);
        text.trim_end().to_owned()
    });
    some_list(&names.collect::<Vec<_>>())
}

fn gtt_small(facts: &Facts, adapter: &Adapter) -> Option<String> {
    let total = facts.memory.total?;
    let vram = adapter.reading(MemorySource::AmdVram)?.total;
    let gtt = adapter.reading(MemorySource::AmdGtt)?.total;
    // The carve-out is taken from the memory the kernel sees.
    let machine = total + vram;
    let small =
        adapter.kind == AdapterKind::Integrated && (vram + gtt) as f64 <= 0.7 * machine as f64;
    let large_machine = machine >= 24 << 30;
    (small && large_machine).then(|| {
        format!(
            "VRAM {} + GTT {} of {}",
            Bytes(vram),
            Bytes(gtt),
            Bytes(machine)
        )
    })
}
