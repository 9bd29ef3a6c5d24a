//! The kernels and tiles that AMD's cards get, on the adapters of this machine.

use crate::adapters;
use crate::suite::{check, check_cases, dense};
use nino_dtype::DType;
use nino_gpu::{AdapterInfo, Arch, Gpu, GpuDevice, OpenOptions, Tier};
use nino_suite::{Case, CaseBuilder, Class, Rng, compare, reference, variants};

/// Opens every adapter that has the tier, with the tiles of another architecture.
fn devices(arch: Arch, tier: Tier) -> Vec<GpuDevice> {
    let adapters = adapters();
    let open = |info: &AdapterInfo| {
        let options = OpenOptions {
            adapter: info.index.to_string(),
            tier: Some(tier),
            arch: Some(arch),
            ptx: false,
            ..OpenOptions::default()
        };
        GpuDevice::new(Gpu::open_in(&adapters, &options).unwrap())
    };
    let able = adapters.infos.iter().filter(|i| i.tiers.contains(&tier));
    able.map(open).collect()
}

/// Half precision is what these cards compute with; f32 takes the same text.
#[test]
fn gpu_attention_agrees_as_on_gcn() {
    let half = |case: &str| case.ends_with(" f16");
    let devices = devices(Arch::Gcn, Tier::F16);
    check_cases(devices, |name| name == "attention", half);
}

/// Winograd's kernels, with matrix units and without, whatever the adapter's best tier is.
#[test]
fn gpu_convolutions_agree_as_on_amd() {
    for (arch, tier) in [(Arch::Gcn, Tier::F16), (Arch::RdnaMatrix, Tier::Coop)] {
        let alike = ["conv of operands stored alike", "causal conv"];
        check(devices(arch, tier), |name| alike.contains(&name));
    }
}

#[test]
fn gpu_products_agree_as_on_rdna_with_matrices() {
    let devices = devices(Arch::RdnaMatrix, Tier::Coop);
    check(devices, |name| dense(name) || name == "attention");
    // Products are tiled alike there.
    check(self::devices(Arch::Rdna4, Tier::Coop), |name| {
        name == "attention"
    });
}

/// Large enough for the large tiles, and of sizes that fit none.
fn large_products() -> Vec<Case> {
    let mut rng = Rng::new(17);
    let mut cases = Vec::new();
    for (m, n, k) in [(1030, 1048, 40), (520, 520, 56)] {
        let mut c = CaseBuilder::new(&mut rng);
        let x = c.input([m, k], DType::F16);
        let w = c.weight([n, k], DType::F16);
        let out = c.g.linear(x, w, None);
        cases.push(c.finish(format!("linear {m}x{n}x{k}"), out, Class::Half));
    }
    for (side, cin, cout) in [(130, 16, 128), (66, 24, 72)] {
        let mut c = CaseBuilder::new(&mut rng);
        let x = c.input([1, side, side, cin], DType::F16);
        let w = c.weight([cout, 3, 3, cin], DType::F16);
        let out = c.g.conv2d(x, w, None, 1);
        let name = format!("conv of {side} pixels, {cin} to {cout}");
        cases.push(c.finish(name, out, Class::Half));
    }
    cases
}

#[test]
fn gpu_large_products_agree_as_on_amd() {
    let mut failures = Vec::new();
    let kinds = [
        (Arch::Gcn, Tier::F16),
        (Arch::Rdna, Tier::F16),
        (Arch::RdnaMatrix, Tier::Coop),
    ];
    for case in large_products() {
        let expected = reference::eval(&case.graph, &case.inputs, &case.params).unwrap();
        for (arch, tier) in kinds {
            for device in devices(arch, tier) {
                let whole = variants(&device, &case)[0];
                match compare(&device, &case, whole, &expected) {
                    Ok(d) if case.class.accepts(&d) => {}
                    Ok(d) => failures.push(format!("{arch:?} {}: {d}", case.name)),
                    Err(e) => failures.push(format!("{arch:?} {}: {e}", case.name)),
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Every op at every tier that an adapter has, with the choices of an architecture.
fn whole_suite(arch: Arch) {
    for tier in [Tier::F32, Tier::F16, Tier::Subgroup, Tier::Coop] {
        check(devices(arch, tier), |_| true);
    }
}

#[test]
#[ignore = "takes minutes: for a real card, with --run-ignored all"]
fn gpu_whole_suite_agrees_as_on_gcn() {
    whole_suite(Arch::Gcn);
}

#[test]
#[ignore = "takes minutes: for a real card, with --run-ignored all"]
fn gpu_whole_suite_agrees_as_on_rdna() {
    whole_suite(Arch::Rdna);
}

#[test]
#[ignore = "takes minutes: for a real card, with --run-ignored all"]
fn gpu_whole_suite_agrees_as_on_rdna_with_matrices() {
    whole_suite(Arch::RdnaMatrix);
}
