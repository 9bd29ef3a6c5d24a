//! The op suite: each case is planned in two of the six ways, by turns. `nino doctor --verify` runs
//! every case every way.

use crate::devices;
use nino_gpu::{GpuDevice, Tier};
use nino_graph::{Device, ExecError};
use nino_suite::{PROBLEMS, RunError, compare, reference, variants};

/// The cases a device may refuse: 16-bit heads of an odd size, which no model has.
const MAY_BE_REFUSED: [&str; 2] = [
    "attention 1x1 heads 1x1 hd 1 f16",
    "attention 1x1 heads 1x1 hd 1 bf16",
];

pub(crate) fn check(devices: Vec<GpuDevice>, chosen: impl Fn(&str) -> bool) {
    check_cases(devices, chosen, |_| true);
}

/// Problems and their cases by their names.
pub(crate) fn check_cases(
    devices: Vec<GpuDevice>,
    problems: impl Fn(&str) -> bool,
    cases: impl Fn(&str) -> bool,
) {
    let mut failures = Vec::new();
    for device in devices {
        for problem in PROBLEMS.iter().filter(|p| problems(p.name)) {
            let all = problem.cases();
            for (i, case) in all.iter().enumerate().filter(|(_, c)| cases(&c.name)) {
                let expected = reference::eval(&case.graph, &case.inputs, &case.params).unwrap();
                let variants = variants(&device, case);
                let two = [i, i + variants.len() / 2].map(|i| variants[i % variants.len()]);
                for variant in two {
                    let what = format!("{} {} ({variant:?})", device.name(), case.name);
                    match compare(&device, case, variant, &expected) {
                        Ok(d) if case.class.accepts(&d) => {}
                        Err(RunError::Exec(ExecError::Unsupported { .. }))
                            if MAY_BE_REFUSED.contains(&&*case.name) => {}
                        Ok(d) => failures.push(format!("{what}: {d}")),
                        Err(e) => failures.push(format!("{what}: {e}")),
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

pub(crate) fn dense(name: &str) -> bool {
    ["linear", "matmul", "conv"]
        .iter()
        .any(|part| name.contains(part))
}

#[test]
fn gpu_products_agree_with_the_reference() {
    check(devices(None), |name| dense(name) && !name.contains("into"));
}

#[test]
fn gpu_other_ops_agree_with_the_reference() {
    check(devices(None), |name| !dense(name) || name.contains("into"));
}

/// Reductions without subgroups: what differs from the tiers above.
#[test]
fn gpu_rows_agree_at_the_lowest_tier() {
    check(devices(Some(Tier::F32)), |name| {
        name.starts_with("row norm") || name == "softmax"
    });
}
