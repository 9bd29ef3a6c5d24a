//! Times the suite's shapes on this CPU in f32 and bf16 by turns (`ops [FILTER] [THREADS]
//! [ROUNDS]`) or checks every op with the reference (`ops verify [FILTER] [THREADS]`).
//!
//! It is `nino bench ops` and `nino doctor --verify` without a GPU's dependencies, small and
//! quickly built, for machines to which one file is copied.

#![allow(clippy::print_stdout)] // an example is a program of its own

use std::collections::BTreeMap;
use std::time::Duration;

use nino_cpu::{Cpu, CpuOptions};
use nino_dtype::DType;
use nino_suite::bench::{SHAPES, measure};
use nino_suite::{Class, Difference};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).peekable();
    let check = args.next_if(|a| a == "verify").is_some();
    let filter = args.next().unwrap_or_default();
    let threads = args.next().map(|n| n.parse()).transpose()?;
    let rounds = args.next().map(|n| n.parse()).transpose()?.unwrap_or(5);
    let cpu = Cpu::new(CpuOptions {
        threads,
        ..CpuOptions::default()
    })?;
    println!("{} threads, {}", cpu.threads(), cpu.level());
    if check {
        return verify(&cpu, &filter);
    }
    for shape in SHAPES.iter().filter(|s| s.label().contains(&filter)) {
        for dtype in [DType::F32, DType::BF16] {
            let row = measure(&cpu, shape, dtype, rounds, Duration::from_millis(50))?;
            println!(
                "{:40} {dtype:>5} fastest {:8.2} ms, median {:8.2} ms, {:6.1} GFLOP/s, {}",
                shape.label(),
                row.fastest.as_secs_f64() * 1e3,
                row.median.as_secs_f64() * 1e3,
                row.cost.flops / row.fastest.as_secs_f64() * 1e-9,
                row.difference,
            );
        }
    }
    Ok(())
}

fn verify(cpu: &Cpu, filter: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut worst: BTreeMap<Class, Difference> = BTreeMap::new();
    let mut failures = 0;
    for report in nino_suite::verify(cpu, filter, |_| {}) {
        failures += report.failures.len();
        for failure in &report.failures {
            println!("{}: {failure}", report.problem);
        }
        for (&class, &difference) in &report.worst {
            let most = worst.entry(class).or_default();
            *most = most.worst(difference);
        }
    }
    for (class, difference) in worst {
        println!("{class:?}: {difference}");
    }
    match failures {
        0 => Ok(()),
        n => Err(format!("{n} failures").into()),
    }
}
