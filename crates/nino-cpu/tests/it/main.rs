//! The op suite on every vector level this machine has, and the device's own promises.

#![allow(clippy::unwrap_used)] // these are all tests

mod session;
mod stream;

use nino_cpu::{Cpu, CpuOptions, Level};

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
        for report in nino_suite::verify(&cpu, "", |_| {}) {
            passed += report.passed;
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
    }
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(passed > 500, "only {passed} runs");
}
