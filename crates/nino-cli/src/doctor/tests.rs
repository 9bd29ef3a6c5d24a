use super::facts::{Adapter, Card, Facts, Family, Memory};
use super::rules::findings;
use super::verify::{self, Outcome, Verdict};
use super::{arch, print, system};
use crate::env::SetVariable;
use nino_engine::device::{AdapterKind, Budget, HostMemory, MemoryReading, MemorySource};
use nino_suite::Class;
use std::collections::BTreeMap;

const GIB: u64 = 1 << 30;

/// A machine that nothing is wrong with.
fn good() -> Facts {
    let mut facts = Facts::default();
    facts.system.os = "linux";
    facts.system.arch = "x86_64";
    facts.system.kernel = Some("6.12.5-generic".to_owned());
    facts.cpu.features = vec!["avx2", "fma"];
    facts.memory = Memory {
        total: Some(32 * GIB),
        available: Some(20 * GIB),
        ..Memory::default()
    };
    facts.adapters = vec![card(0x744c, "AMD Radeon RX 7900 XTX (RADV NAVI31)")];
    facts
}

fn card(device_id: u32, name: &str) -> Adapter {
    Adapter {
        device: "gpu:0".to_owned(),
        name: name.to_owned(),
        kind: AdapterKind::Discrete,
        vendor_id: 0x1002,
        device_id,
        architecture: arch::find(0x1002, device_id, name),
        driver: "radv".to_owned(),
        driver_info: "Mesa 25.2.1".to_owned(),
        tiers: ["f32", "f16", "subgroup", "coop"]
            .map(str::to_owned)
            .to_vec(),
        max_binding: 4 * GIB,
        memory: vec![reading(MemorySource::VulkanBudget, 24 * GIB, 22 * GIB)],
        ..Adapter::default()
    }
}

fn reading(source: MemorySource, total: u64, free: u64) -> MemoryReading {
    MemoryReading {
        source,
        total,
        free: Some(free),
    }
}

fn budget_of(adapter: &Adapter, facts: &Facts, cap: Option<u64>) -> Option<Budget> {
    let memory = HostMemory {
        total: facts.memory.total,
        available: facts.memory.available,
        limit: None,
    };
    Budget::adapter(adapter.kind, &adapter.memory, &memory, cap)
}

fn variable(name: &str, value: &str) -> SetVariable {
    SetVariable {
        name: name.to_owned(),
        value: value.to_owned(),
        about: "",
        unknown: false,
    }
}

/// A Strix Halo with 96 GiB of memory and half of it as GTT.
fn strix_halo() -> Facts {
    let mut facts = good();
    facts.memory.total = Some(96 * GIB);
    facts.memory.available = Some(90 * GIB);
    let mut adapter = card(0x1586, "Radeon 8060S Graphics (RADV GFX1151)");
    adapter.kind = AdapterKind::Integrated;
    adapter.memory = vec![
        reading(MemorySource::AmdVram, GIB, GIB),
        reading(MemorySource::AmdGtt, 48 * GIB, 47 * GIB),
    ];
    facts.adapters = vec![adapter];
    facts
}

#[test]
fn nothing_is_said_of_a_good_machine() {
    assert_eq!(findings(&good()), []);
}

#[test]
fn each_rule_holds_for_the_machine_it_was_written_for() {
    let machine = |change: fn(&mut Facts)| {
        let mut facts = good();
        change(&mut facts);
        facts
    };
    let halo = |change: fn(&mut Facts)| {
        let mut facts = strix_halo();
        change(&mut facts);
        facts
    };
    let cases = [
        (
            "broken-settings",
            machine(|f| f.config.problems = vec!["budget is \"lots\"".to_owned()]),
        ),
        (
            "models-folder-missing",
            machine(|f| f.config.missing_folders = vec!["/nope".to_owned()]),
        ),
        (
            "models-folder-open",
            machine(|f| f.config.open_folders = vec!["/srv/models".to_owned()]),
        ),
        (
            "no-gpu",
            machine(|f| f.no_adapter = Some("no Vulkan loader".to_owned())),
        ),
        (
            "card-without-driver",
            machine(|f| {
                f.system.cards = vec![Card {
                    vendor_id: 0x1002,
                    device_id: 0x67df,
                    ..Card::default()
                }];
            }),
        ),
        (
            "matrices-refused",
            machine(|f| f.adapters[0].matrices_refused = Some("killed by a signal".to_owned())),
        ),
        (
            "render-node-closed",
            machine(|f| f.system.closed_nodes = vec!["renderD128".to_owned()]),
        ),
        (
            "driver-file-missing",
            machine(|f| f.system.missing_drivers = vec!["radeon_icd.json".to_owned()]),
        ),
        (
            "unknown-variable",
            machine(|f| {
                f.environment = vec![SetVariable {
                    unknown: true,
                    ..variable("NINO_BUGDET", "4GiB")
                }];
            }),
        ),
        (
            "wsl",
            machine(|f| {
                f.system.wsl = true;
                f.adapters[0].name = "Microsoft Direct3D12 (AMD Radeon RX 7900 XTX)".to_owned();
            }),
        ),
        (
            "amdvlk",
            machine(|f| f.adapters[0].driver = "AMD open-source driver".to_owned()),
        ),
        (
            "old-mesa-matrix",
            machine(|f| {
                f.adapters[0].driver_info = "Mesa 23.2.1".to_owned();
                f.adapters[0].tiers.pop();
            }),
        ),
        (
            "old-mesa-integrated",
            machine(|f| {
                f.adapters[0] = card(0x1681, "AMD Radeon 680M (RADV REMBRANDT)");
                f.adapters[0].kind = AdapterKind::Integrated;
                f.adapters[0].driver_info = "Mesa 23.0.4".to_owned();
            }),
        ),
        ("gtt-small", halo(|_| ())),
        (
            "memory-tight",
            machine(|f| {
                f.adapters[0].memory = vec![reading(MemorySource::VulkanBudget, 24 * GIB, GIB)];
            }),
        ),
        (
            "small-binding",
            machine(|f| f.adapters[0].max_binding = 128 << 20),
        ),
        (
            "polaris",
            machine(|f| f.adapters[0] = card(0x67df, "AMD Radeon RX 580 Series")),
        ),
        (
            "little-vram",
            machine(|f| {
                let mut a = card(0x743f, "RX 6400");
                a.memory = vec![reading(MemorySource::VulkanBudget, 4 * GIB, 4 * GIB)];
                a.budget = budget_of(&a, f, None);
                f.adapters[0] = a;
            }),
        ),
        ("compute-ring-reset", halo(|_| ())),
        (
            "mmap-slow",
            halo(|f| f.system.kernel = Some("7.0.0-rc1".to_owned())),
        ),
        ("windows-shared-memory", halo(|f| f.system.os = "windows")),
        (
            "radv-debug",
            machine(|f| f.environment = vec![variable("RADV_DEBUG", "nodcc")]),
        ),
        (
            "validation-layers",
            machine(|f| {
                f.environment = vec![variable(
                    "VK_INSTANCE_LAYERS",
                    "VK_LAYER_KHRONOS_validation",
                )];
            }),
        ),
        (
            "rocm-variables",
            machine(|f| f.environment = vec![variable("MIOPEN_FIND_MODE", "2")]),
        ),
        (
            "capture",
            machine(|f| f.environment = vec![variable("ROCM_NINODES_DEBUG", "1")]),
        ),
        ("no-avx2", machine(|f| f.cpu.features.clear())),
        (
            "memory-limit",
            machine(|f| f.memory.limit = Some((4 * GIB, "/box".to_owned()))),
        ),
        ("memory-low", machine(|f| f.memory.available = Some(GIB))),
    ];
    for (id, facts) in &cases {
        let found: Vec<&str> = findings(facts).iter().map(|f| f.id).collect();
        assert!(found.contains(id), "{id} is missing from {found:?}");
    }
    let tried: Vec<&str> = cases.iter().map(|c| c.0).collect();
    let all: Vec<&str> = super::rules::ids().collect();
    assert_eq!(
        tried, all,
        "every rule has a machine here, in the table's order"
    );
}

#[test]
fn capture_off_is_no_finding() {
    let mut facts = good();
    facts.environment = vec![variable("ROCM_NINODES_DEBUG", "0")];
    assert_eq!(findings(&facts), []);
}

#[test]
fn a_strix_halo_with_its_memory_lent_is_not_warned_of_gtt() {
    let mut facts = strix_halo();
    facts.adapters[0].memory[1] = reading(MemorySource::AmdGtt, 90 * GIB, 89 * GIB);
    let found: Vec<&str> = findings(&facts).iter().map(|f| f.id).collect();
    assert_eq!(found, ["compute-ring-reset"]);
}

#[test]
fn architectures() {
    let cases = [
        (0x1002, 0x1586, "x", Some(("gfx1151", Family::Rdna35))),
        (0x1002, 0x150e, "x", Some(("gfx1150", Family::Rdna35))),
        (0x1002, 0x67df, "x", Some(("gfx803", Family::Polaris))),
        (0x1002, 0x6fdf, "x", Some(("gfx803", Family::Polaris))),
        (0x1002, 0x744c, "x", Some(("gfx1100", Family::Rdna3))),
        (0x1002, 0x7550, "x", Some(("gfx1201", Family::Rdna4))),
        (0x1002, 0x73bf, "x", Some(("gfx1030", Family::Rdna2))),
        (0x1002, 0x731f, "x", Some(("gfx1010", Family::Rdna1))),
        (0x1002, 0x687f, "x", Some(("gfx900", Family::Vega))),
        (0x1002, 0x740f, "x", Some(("gfx90a", Family::Cdna))),
        // Not in the table yet, but RADV says it.
        (
            0x1002,
            0xffff,
            "Radeon 8060S (RADV GFX1151)",
            Some(("gfx1151", Family::Rdna35)),
        ),
        (
            0x1002,
            0xffff,
            "AMD Radeon RX 580 Series (RADV POLARIS10)",
            Some(("gfx803", Family::Polaris)),
        ),
        (0x1002, 0xffff, "a new card", None),
        (
            0x10de,
            0x2335,
            "NVIDIA H200",
            Some(("Hopper", Family::Nvidia)),
        ),
        (
            0x10de,
            0x2684,
            "NVIDIA GeForce RTX 4090",
            Some(("Ada", Family::Nvidia)),
        ),
        (
            0x10de,
            0x0001,
            "NVIDIA Something",
            Some(("NVIDIA", Family::Nvidia)),
        ),
        (
            0x8086,
            0x56a0,
            "Intel(R) Arc(tm) A770 Graphics (DG2)",
            Some(("Xe-HPG", Family::Intel)),
        ),
        (0x106b, 0, "Apple M3", Some(("Apple", Family::Apple))),
        (0, 0, "Apple M3", Some(("Apple", Family::Apple))),
        (
            0x1_0005,
            0,
            "llvmpipe (LLVM 15.0.6, 256 bits)",
            Some(("lavapipe", Family::Software)),
        ),
    ];
    for (vendor, device, name, wanted) in cases {
        let found = arch::find(vendor, device, name).map(|a| (a.id, a.family));
        assert_eq!(found, wanted, "{vendor:04x}:{device:04x} {name}");
    }
}

#[test]
fn no_chip_id_is_claimed_twice() {
    let mut ranges: Vec<(u32, u32)> = arch::amd_ranges().collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        assert!(
            pair[0].1 < pair[1].0,
            "{:x?} and {:x?} overlap",
            pair[0],
            pair[1]
        );
    }
}

#[test]
fn versions_are_read() {
    let mut facts = good();
    assert_eq!(facts.kernel(), Some((6, 12)));
    facts.system.kernel = Some("7.0-rc3".to_owned());
    assert_eq!(facts.kernel(), Some((7, 0)));
    facts.system.kernel = Some("strange".to_owned());
    assert_eq!(facts.kernel(), None);
    let mut adapter = card(0x744c, "x");
    adapter.driver_info = "Mesa 22.3.6 (LLVM 15.0.6)".to_owned();
    assert_eq!(adapter.mesa(), Some((22, 3)));
    adapter.driver_info = "570.86".to_owned();
    assert_eq!(adapter.mesa(), None);
}

#[test]
fn system_files_are_read() {
    assert_eq!(system::cache_size("32K"), Some(32 << 10));
    assert_eq!(system::cache_size("32M"), Some(32 << 20));
    assert_eq!(system::cache_size("32X"), None);
    let cpu = |core: u32| format!("processor : 0\nphysical id : 0\ncore id : {core}\n");
    let two_threads_a_core = [cpu(0), cpu(1), cpu(0), cpu(1)].join("\n");
    assert_eq!(system::physical_cores(&two_threads_a_core), Some(2));
    assert_eq!(system::physical_cores(""), None);
}

#[test]
fn the_report_names_what_matters() {
    let mut facts = strix_halo();
    facts.adapters[0].budget = budget_of(&facts.adapters[0], &facts, Some(40 * GIB));
    let text = print::report(&facts, &findings(&facts));
    let wanted = [
        "gpu:0  Radeon 8060S Graphics (RADV GFX1151)",
        "gfx1151 (Strix Halo: Radeon 8060S (Ryzen AI Max))",
        "1002:1586",
        "f32, f16, subgroup, coop",
        "48 GiB total, 47 GiB free  (amdgpu mem_info_gtt)",
        "40 GiB, the minimum of",
        "--budget",
        "warning (gpu:0)",
        "do: raise ttm.pages_limit",
        "VRAM 1 GiB + GTT 48 GiB of 97 GiB",
    ];
    for part in wanted {
        assert!(text.contains(part), "{part:?} is missing from:\n{text}");
    }
}

fn outcome(problem: &'static str, passed: usize, failures: &[&str]) -> Outcome {
    Outcome {
        problem,
        passed,
        unsupported: Vec::new(),
        failures: failures.iter().map(|f| (*f).to_owned()).collect(),
        worst_nmse: BTreeMap::from([(Class::Close, 3e-12)]),
    }
}

#[test]
fn a_verdict_names_the_op_and_the_distance() {
    let mut verdict = Verdict {
        device: "gpu:0".to_owned(),
        model: "A card".to_owned(),
        tier: Some("f16".to_owned()),
        ok: false,
        error: None,
        problems: vec![
            outcome("linear", 40, &[]),
            outcome("conv2d", 30, &["3x3 (Fused): NMSE 1e-2"; 6]),
            outcome("rope", 0, &[]),
        ],
    };
    let ok: Vec<bool> = verdict.problems.iter().map(Outcome::ok).collect();
    assert_eq!(
        ok,
        [true, false, false],
        "a problem that never ran is not ok"
    );
    let text = verify::text(&verdict);
    let wanted = [
        "verify gpu:0  A card, tier f16",
        "ok    linear                  40 of 40    Close 3e-12",
        "FAIL  conv2d                  30 of 36",
        "differs: 3x3 (Fused): NMSE 1e-2",
        "and 2 more",
        "none  rope",
        "Close  3e-12, limit  1e-8: f32",
        "FAILED: 2 of 3 problems: conv2d, rope",
    ];
    for part in wanted {
        assert!(text.contains(part), "{part:?} is missing from:\n{text}");
    }
    verdict.ok = true;
    verdict.problems.truncate(1);
    assert!(verify::text(&verdict).ends_with("pass: 40 runs of 1 problem"));
    verdict.error = Some("out of luck".to_owned());
    assert!(verify::text(&verdict).ends_with("could not run: out of luck"));
}
