//! What the operating system tells about CPU and graphics cards. Where a file is missing the
//! fact is missing, never guessed.

use super::facts::{Cache, Card, Cpu, System};
use nino_engine::device::cpu_model;
use std::fs;
use std::path::Path;

pub(super) fn system(driver_files: &[&str]) -> System {
    let kernel = read("/proc/sys/kernel/osrelease");
    System {
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
        wsl: kernel
            .as_ref()
            .is_some_and(|k| k.to_lowercase().contains("microsoft")),
        kernel,
        cards: cards(Path::new("/sys/class/drm")),
        closed_nodes: closed_nodes(Path::new("/dev/dri")),
        missing_drivers: driver_files
            .iter()
            .flat_map(|list| list.split(if cfg!(windows) { ';' } else { ':' }))
            .filter(|f| !f.is_empty() && !Path::new(f).exists())
            .map(str::to_owned)
            .collect(),
    }
}

pub(super) fn cpu() -> Cpu {
    let info = read("/proc/cpuinfo").unwrap_or_default();
    Cpu {
        model: cpu_model(),
        cores: physical_cores(&info),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        features: features(),
        bf16_products: nino_engine::device::bf16_products(),
        caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
    }
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

fn cpuinfo_field(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().filter_map(|l| l.split_once(':'));
    let mut found = lines.filter(|(key, _)| key.trim() == name);
    found.next().map(|(_, value)| value.trim().to_owned())
}

/// Distinct pairs of socket and core.
pub(super) fn physical_cores(cpuinfo: &str) -> Option<usize> {
    let mut cores = std::collections::BTreeSet::new();
    for cpu in cpuinfo.split("\n\n") {
        let socket = cpuinfo_field(cpu, "physical id");
        if let (Some(socket), Some(core)) = (socket, cpuinfo_field(cpu, "core id")) {
            cores.insert((socket, core));
        }
    }
    Some(cores.len()).filter(|&n| n > 0)
}

fn caches(dir: &Path) -> Vec<Cache> {
    let cache = |index: usize| -> Option<Cache> {
        let at = dir.join(format!("index{index}"));
        let level = read(at.join("level"))?;
        let kind = match read(at.join("type"))?.as_str() {
            "Data" => "d",
            "Instruction" => return None,
            _ => "",
        };
        let bytes = cache_size(&read(at.join("size"))?)?;
        Some(Cache {
            name: format!("L{level}{kind}"),
            bytes,
        })
    };
    (0..8).filter_map(cache).collect()
}

/// `32K`, `1024K`, `32M` as sysfs writes it.
pub(super) fn cache_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let factor = match &text[digits.len()..] {
        "K" => 1 << 10,
        "M" => 1 << 20,
        "" => 1,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

fn cards(dir: &Path) -> Vec<Card> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // `card0-HDMI-A-1` is a connector.
        let number = name.strip_prefix("card").unwrap_or("-");
        if !number.chars().all(|c| c.is_ascii_digit()) {
            continue;
        }
        let device = entry.path().join("device");
        let id = |file: &str| -> Option<u32> {
            u32::from_str_radix(read(device.join(file))?.strip_prefix("0x")?, 16).ok()
        };
        if let (Some(vendor_id), Some(device_id)) = (id("vendor"), id("device")) {
            found.push(Card {
                pci: last_part(&device).unwrap_or_default(),
                vendor_id,
                device_id,
                driver: last_part(&device.join("driver")),
            });
        }
    }
    found.sort_by(|a, b| a.pci.cmp(&b.pci));
    found
}

/// Last part of the path that a link leads to.
fn last_part(link: &Path) -> Option<String> {
    let target = fs::canonicalize(link).ok()?;
    target.file_name().map(|n| n.to_string_lossy().into_owned())
}

fn closed_nodes(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let nodes = entries.filter(|e| e.file_name().to_string_lossy().starts_with("renderD"));
    let mut closed: Vec<String> = nodes
        .map(|e| e.path())
        .filter(|path| {
            let opened = fs::OpenOptions::new().read(true).write(true).open(path);
            opened.is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied)
        })
        .map(|path| path.display().to_string())
        .collect();
    closed.sort();
    closed
}

macro_rules! detected {
    ($detect:tt: $($feature:tt)*) => {
        [$(($feature, std::arch::$detect!($feature))),*]
            .into_iter()
            .filter_map(|(name, has)| has.then_some(name))
            .collect()
    };
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<&'static str> {
    detected!(is_x86_feature_detected: "sse4.2" "avx" "f16c" "fma" "avx2" "avxvnni" "avx512f" "avx512bw"
        "avx512dq" "avx512vl" "avx512vnni" "avx512bf16" "avx512fp16")
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<&'static str> {
    detected!(is_aarch64_feature_detected: "neon" "fp16" "dotprod" "i8mm" "bf16" "sve" "sve2")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<&'static str> {
    Vec::new()
}
