//! The op suite on every vector level this machine has, and the device's own promises.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // these are all tests

mod session;
mod stream;

use nino_cpu::{Cpu, CpuOptions, Level};
use nino_suite::{Class, Difference};
use std::collections::BTreeMap;

#[test]
fn every_level_passes_the_suite() {
    let mut failures = Vec::new();
    let mut passed = 0;
    for level in Level::available() {
        let cpu = Cpu::new(CpuOptions {
            threads: Some(2),
            level: Some(level),
            ..CpuOptions::default()
        })
        .unwrap();
        let mut worst: BTreeMap<Class, Difference> = BTreeMap::new();
        for report in nino_suite::verify(&cpu, "", |_| {}) {
            passed += report.passed;
            for (&class, &difference) in &report.worst {
                let most = worst.entry(class).or_default();
                *most = most.worst(difference);
            }
            failures.extend(
                report
                    .failures
                    .iter()
                    .map(|f| format!("{level} {}: {f}", report.problem)),
            );
            failures.extend(
                report
                    .unsupported
                    .iter()
                    .map(|f| format!("{level} unsupported: {f}")),
            );
        }
        for (class, difference) in worst {
            println!("{level} {class:?}: {difference}");
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(passed > 500, "only {passed} runs");
}
