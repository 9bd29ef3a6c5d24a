//! The op suite: each case planned in two of the ways there are, by turns. `nino doctor --verify` runs
//! every case every way.

use crate::devices;
use nino_gpu::Tier;
use nino_graph::Device;
use nino_suite::{PROBLEMS, compare, reference, variants};

fn check(tier: Option<Tier>, chosen: impl Fn(&str) -> bool) {
    let mut failures = Vec::new();
    for device in devices(tier) {
        for problem in PROBLEMS.iter().filter(|p| chosen(p.name)) {
            for (i, case) in problem.cases().iter().enumerate() {
                let expected = reference::eval(&case.graph, &case.inputs, &case.params).unwrap();
                let variants = variants(&device, case);
                let two = [i, i + variants.len() / 2].map(|i| variants[i % variants.len()]);
                for variant in two {
                    let what = format!("{} {} ({variant:?})", device.name(), case.name);
                    match compare(&device, case, variant, &expected) {
                        Ok(d) if case.class.accepts(&d) => {}
                        // The one thing kernels refuse: no model has it.
                        Err(e) if e.to_string().contains("16-bit heads of odd size") => {}
                        Ok(d) => failures.push(format!("{what}: {d}")),
                        Err(e) => failures.push(format!("{what}: {e}")),
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn dense(name: &str) -> bool {
    ["linear", "matmul", "conv"]
        .iter()
        .any(|part| name.contains(part))
}

#[test]
fn gpu_products_agree_with_the_reference() {
    check(None, |name| dense(name) && !name.contains("into"));
}

#[test]
fn gpu_other_ops_agree_with_the_reference() {
    check(None, |name| !dense(name) || name.contains("into"));
}

/// Reductions without subgroups: what differs from the tiers above.
#[test]
fn gpu_rows_agree_at_the_lowest_tier() {
    check(Some(Tier::F32), |name| {
        name.starts_with("row norm") || name == "softmax"
    });
}
