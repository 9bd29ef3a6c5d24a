//! Names, budgets of made-up machines, and devices of this one.

use super::*;
use nino_graph::{Graph, Load};

const GIB: u64 = 1 << 30;

fn memory() -> HostMemory {
    HostMemory {
        total: Some(32 * GIB),
        available: Some(20 * GIB),
        limit: None,
    }
}

fn reading(source: MemorySource, total: u64, free: u64) -> MemoryReading {
    MemoryReading {
        source,
        total,
        free: Some(free),
    }
}

#[test]
fn device_names() {
    for name in ["auto", "cpu", "gpu", "gpu:0", "gpu:12"] {
        let parsed: DeviceName = name.parse().unwrap();
        assert_eq!(parsed.to_string(), name);
    }
    for name in ["", "GPU", "gpu:", "gpu:-1", "gpu:x", "cuda", "gpu:0:1"] {
        assert!(name.parse::<DeviceName>().is_err(), "{name}");
    }
}

#[test]
fn a_budget_is_its_least_term() {
    let card = [reading(MemorySource::VulkanBudget, 24 * GIB, 22 * GIB)];
    let of = |cap| Budget::adapter(AdapterKind::Discrete, &card, &memory(), cap).unwrap();
    assert_eq!(of(None).bytes, (24.0 * 0.9 * GIB as f64) as u64);
    assert_eq!(of(Some(3 * GIB)).bytes, 3 * GIB);
    let host = Budget::host(&memory(), None).unwrap();
    // 5 % of 32 GiB stay free.
    assert_eq!(host.bytes, 20 * GIB - 32 * GIB / 20);
    let small = HostMemory {
        total: Some(2 * GIB),
        available: Some(GIB),
        limit: None,
    };
    let small = Budget::host(&small, None).unwrap();
    assert_eq!(
        small.bytes,
        GIB / 2,
        "the reserve leaves half of what there is"
    );
    let untold = HostMemory {
        total: Some(10 * GIB),
        ..HostMemory::default()
    };
    assert_eq!(Budget::host(&untold, None).unwrap().bytes, 9 * GIB);
    assert_eq!(Budget::host(&HostMemory::default(), None), None);
}

/// A driver's own memory is not part of what it says is used before a device is opened.
#[test]
fn a_card_that_others_use_leaves_room_for_its_driver() {
    let budget = |kind, free| {
        let card = [reading(MemorySource::VulkanBudget, 8 * GIB, free)];
        Budget::adapter(kind, &card, &memory(), None).unwrap()
    };
    let reserve = 256 << 20;
    let found = budget(AdapterKind::Discrete, 6 * GIB);
    assert_eq!(found.bytes, 6 * GIB - reserve);
    let limit = Limit::VulkanFree { reserve };
    assert!(found.terms.iter().any(|t| t.limit == limit));
    // An idle card keeps its tenth for both.
    let idle = budget(AdapterKind::Discrete, 8 * GIB).bytes;
    assert_eq!(idle, (8.0 * 0.9 * GIB as f64) as u64);
    assert_eq!(budget(AdapterKind::Discrete, 1 << 20).bytes, 1 << 19);
    assert_eq!(budget(AdapterKind::Integrated, 6 * GIB).bytes, 6 * GIB);
}

#[test]
fn an_integrated_gpu_counts_gtt_and_what_the_system_has_left() {
    let kind = AdapterKind::Integrated;
    let readings = [
        reading(MemorySource::AmdVram, GIB, GIB),
        reading(MemorySource::AmdGtt, 48 * GIB, 47 * GIB),
    ];
    let mut memory = HostMemory {
        total: Some(96 * GIB),
        available: Some(90 * GIB),
        limit: None,
    };
    let found = Budget::adapter(kind, &readings, &memory, None).unwrap();
    assert_eq!(found.bytes, (49.0 * 0.9 * GIB as f64) as u64, "{found:?}");
    memory.available = Some(10 * GIB);
    let found = Budget::adapter(kind, &readings, &memory, None).unwrap();
    assert_eq!(found.bytes, 10 * GIB - 96 * GIB / 20, "{found:?}");
    let nothing = Budget::adapter(AdapterKind::Other, &[], &HostMemory::default(), None);
    assert_eq!(nothing, None);
}

#[test]
fn a_control_group_limits_the_host() {
    let mut memory = memory();
    memory.limit = Some(GroupLimit {
        bytes: 4 * GIB,
        group: "/box".to_owned(),
    });
    let budget = Budget::host(&memory, None).unwrap();
    assert_eq!(budget.bytes, (4.0 * 0.9 * GIB as f64) as u64);
    let limit = Limit::ControlGroup { of: 4 * GIB };
    assert!(budget.terms.iter().any(|t| t.limit == limit));
}

#[test]
fn system_files_are_read() {
    let meminfo = "MemTotal:       24684100 kB\nMemAvailable:   23882784 kB\n";
    let field = |name| memory::meminfo_field(meminfo, name);
    assert_eq!(field("MemTotal"), Some(24_684_100 * 1024));
    assert_eq!(field("Mem"), None);
    assert_eq!(memory::meminfo_field("MemTotal: lots kB", "MemTotal"), None);
}

#[test]
fn the_least_control_group_limit_counts() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("a/b/memory.max", "max\n");
    write("a/memory.max", "1073741824\n");
    let limit = |groups| {
        let found = cgroup::limit(root.path(), groups)?;
        Some((found.bytes, found.group))
    };
    assert_eq!(limit("0::/a/b\n"), Some((GIB, "/a".to_owned())));
    assert_eq!(limit("0::/other\n"), None);
    write("memory/c/memory.limit_in_bytes", "2147483648\n");
    assert_eq!(limit("5:cpu,memory:/c\n"), Some((2 * GIB, "/c".to_owned())));
    assert_eq!(limit("nonsense"), None);
}

fn cpu(budget: Option<u64>) -> Opened {
    open(&DeviceChoice {
        device: Some(DeviceName::Cpu),
        budget,
        ..DeviceChoice::default()
    })
    .unwrap()
}

#[test]
fn the_cpu_is_listed_and_plans_within_what_is_free() {
    let listed = list();
    assert_eq!(listed[0].name, DeviceName::Cpu);
    assert!(!listed[0].model.is_empty());
    let opened = cpu(None);
    let Some(available) = opened.available.clone() else {
        println!("skipped: this system does not tell how much memory it has");
        return;
    };
    let budget = opened.device.budget().total.unwrap() as u64;
    assert_eq!(budget, available.bytes);
    let total = HostMemory::read().total.unwrap();
    assert!(budget < total, "{budget} of {total}");
    assert_eq!(cpu(Some(7 << 20)).device.budget().total, Some(7 << 20));
}

/// Estimates once took 256 MiB and failed under a budget that the plan itself fitted.
#[test]
fn rates_are_measured_outside_the_budget_and_in_little_memory() {
    let opened = cpu(Some(1 << 20));
    let mut g = Graph::new();
    let x = g.input("x", [1, 8, 8, 64], nino_dtype::DType::F32);
    let w = g.param("w", [64, 3, 3, 64], nino_dtype::DType::F32);
    let y = g.conv2d(x, w, None, 1);
    g.output(y);
    let load = Load {
        work: g.finish().unwrap().work(),
        host_bytes: 1 << 20,
        ..Load::default()
    };
    let before = resident_bytes();
    let rates = opened.rates(&[&load]).unwrap();
    let seconds = rates.seconds(&load);
    assert!(seconds > 0.0 && seconds.is_finite(), "{rates:?}");
    assert!(rates.host_bytes > 0.0);
    let peak = memory::text("/proc/self/status")
        .and_then(|status| memory::meminfo_field(&status, "VmHWM"));
    if let (Some(before), Some(peak)) = (before, peak) {
        let grown = peak.saturating_sub(before as u64);
        assert!(grown < 64 << 20, "{} MiB", grown >> 20);
    }
}

#[test]
fn a_gpu_or_tier_that_is_not_there_is_an_error_with_names() {
    let choice = |device, tier| DeviceChoice {
        device,
        tier,
        ..DeviceChoice::default()
    };
    assert!(open(&choice(Some(DeviceName::GpuAt(999)), None)).is_err());
    let found = targets(&choice(Some(DeviceName::Cpu), None)).unwrap();
    assert_eq!(found.len(), 1);
    let all = targets(&choice(None, None)).unwrap();
    assert_eq!(all[0].name, DeviceName::Cpu);
    match targets(&choice(None, Some(Tier::Coop))) {
        Ok(found) => assert!(found.iter().all(|t| t.tier == Some(Tier::Coop))),
        Err(e) => assert!(
            e.to_string().contains("no device supports the tier coop"),
            "{e}"
        ),
    }
}

#[test]
fn profiles_are_found_in_any_case() {
    assert_eq!(DeviceProfile::find("RX580-4GB").unwrap().max_batch, Some(1));
    assert_eq!(DeviceProfile::find("rx580"), None);
}

#[test]
fn cards_are_found_as_people_write_them() {
    let name = |text: &str| Card::find(text).map(|card| card.name);
    for (text, wanted) in [
        ("rx580-8gb", "rx580-8gb"),
        ("RX 580 8GB", "rx580-8gb"),
        ("Radeon RX 7900 XTX", "rx7900xtx"),
        ("geforce rtx 4090", "rtx4090"),
        ("rtx3060", "rtx3060-12gb"),
        ("8060S 128GB", "8060s-128gb"),
    ] {
        assert_eq!(name(text), Ok(wanted), "{text}");
    }
    let several = name("rx580").unwrap_err().to_string();
    assert_eq!(several, "\"rx580\" may be rx580-4gb or rx580-8gb");
    let unknown = name("rx590-8gb").unwrap_err().to_string();
    assert!(unknown.contains("nearest are"), "{unknown}");
    assert!(name("").is_err());
}

#[test]
fn every_card_has_all_figures_and_limits_that_plans_can_keep_to() {
    for card in CARDS {
        assert!(card.memory >= GIB, "{}", card.name);
        assert!(card.bandwidth.per_second >= 5e10, "{}", card.name);
        assert!(card.f32_flops.per_second >= 1e12, "{}", card.name);
        assert_eq!(
            card.matrix_flops.is_some(),
            card.tier == Tier::Coop,
            "{}",
            card.name
        );
        assert_eq!(card.bus.is_none(), card.kind == AdapterKind::Integrated);
        let limits = card.caps(card.tier).limits();
        assert!(limits.max_binding > 1 << 30 && limits.page >= limits.max_binding);
        assert_eq!(CARDS.iter().filter(|c| c.name == card.name).count(), 1);
    }
}

#[test]
fn a_card_that_is_not_here_plans_within_its_memory_and_runs_nothing() {
    let card = Card::find("rx580-4gb").unwrap();
    let opened = open_card(card, &DeviceChoice::default()).unwrap();
    assert!(opened.is_predicted());
    assert_eq!(opened.name.to_string(), "rx580-4gb");
    assert_eq!(opened.device.activation_dtype(), nino_dtype::DType::F16);
    let budget = opened.device.budget().total.unwrap() as u64;
    assert_eq!(budget, (4.0 * 0.9 * GIB as f64) as u64);
    assert!(opened.ceiling().is_err());
    let choice = DeviceChoice {
        tier: Some(Tier::Coop),
        ..DeviceChoice::default()
    };
    assert!(open_card(card, &choice).is_err(), "it has no matrix units");
    let work = |x| {
        let mut g = Graph::new();
        let x = g.input("x", [1, 64, 64, 320], x);
        let w = g.param("w", [320, 3, 3, 320], nino_dtype::DType::F16);
        let y = g.conv2d(x, w, None, 1);
        g.output(y);
        Load {
            work: g.finish().unwrap().work(),
            ..Load::default()
        }
    };
    let (half, full) = (work(nino_dtype::DType::F16), work(nino_dtype::DType::F32));
    let seconds = |name: &str, load: &Load| {
        let card = Card::find(name).unwrap();
        let opened = open_card(card, &DeviceChoice::default()).unwrap();
        opened.rates(&[load]).unwrap().seconds(load)
    };
    assert!(seconds("rx7900xtx", &half) < seconds("rx6600", &half));
    assert!(seconds("rx6600", &half) < seconds("rx570-8gb", &half));
    // Matrix units take f16 alone.
    assert!(seconds("rx7900xtx", &half) < seconds("rx7900xtx", &full));
}
