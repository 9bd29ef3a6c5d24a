//! `nino bench generate`: what a picture is made of, timed on one device: text encoders, a step of
//! the UNet, and a whole picture, with a checkpoint or with made-up weights.

mod cases;
mod network;
mod report;
#[cfg(test)]
mod tests;

use super::timing::Timing;
use super::{each, finish, sentences};
use crate::args::BenchGenerateArgs;
use crate::device::{self, Choice, DeviceName, Opened};
use crate::env::Env;
use crate::interrupt;
use crate::printer::Printer;
use crate::resident;
use anyhow::{Context, Result};
use cases::{Case, Parts};
use network::{Loaded, Network};
use nino_dtype::DType;
use nino_engine::DeviceChoice;
use nino_graph::Device;
use report::{Report, Row};
use std::collections::HashMap;
use std::time::Duration;

pub(crate) fn run(args: &BenchGenerateArgs, env: &Env, printer: Printer) -> Result<()> {
    let choice = Choice::new(&args.device, env)?;
    let cases = cases::chosen(args, env)?;
    let opened = device::open(&choice)?;
    let activations = crate::decode::precision(args.precision).dtype(&*opened.device);
    let mut report = Report::new(&opened, activations);
    printer.text(report.heading())?;
    let bar = printer.progress(cases.len() as u64);
    let mut bench = Bench {
        opened: &opened,
        args,
        activations,
        exact: HashMap::new(),
    };
    let errors = each(
        &cases,
        &bar,
        |case| case.name.clone(),
        |case| {
            bench
                .one(case)
                .with_context(|| format!("{} on {}", case.name, opened.name))
        },
        |row| {
            bar.suspend(|| printer.text(row.line()))?;
            report.rows.push(row);
            Ok(())
        },
    )?;
    report.failures = sentences(&errors);
    let table = report.table();
    finish(&report, table, report.rows.is_empty(), errors, printer)
}

struct Bench<'a> {
    opened: &'a Opened,
    args: &'a BenchGenerateArgs,
    activations: DType,
    /// Results in f32 throughout on the CPU, by network: rows that differ in weights share them.
    exact: HashMap<String, Vec<f32>>,
}

impl Bench<'_> {
    fn one(&mut self, case: &Case) -> Result<Row> {
        interrupt::check()?;
        match &case.parts {
            Parts::One(network) => self.network(case, network),
            Parts::Picture { text, unet, vae } => self.picture(case, text, unet, vae),
        }
    }

    /// One network, over and over: inputs in, run, output out.
    fn network(&mut self, case: &Case, network: &Network) -> Result<Row> {
        let device = &*self.opened.device;
        resident::reset_peak();
        let mut loaded = Loaded::new(device, network, self.activations)?;
        let timing = Timing::measure(self.args.runs, || loaded.once())?;
        let mut row = Row::new(case, timing, loaded.flops());
        row.resident_peak_bytes = resident::peak();
        row.planned_bytes = loaded.planned_bytes();
        row.allocated_bytes = loaded.allocated_bytes();
        if self.args.profile {
            row.profile(&loaded.profiled()?);
        }
        if self.args.quality {
            let values = loaded.values()?;
            drop(loaded);
            row.nmse = Some(nmse(&values, self.exact(network)?));
        }
        Ok(row)
    }

    /// Both prompts, the steps, the decode; each network is loaded when it is needed, as `generate`
    /// does. Loading is not timed: weights may be made up.
    fn picture(&self, case: &Case, text: &[Network], unet: &Network, vae: &Network) -> Result<Row> {
        let mut flops = 0.0;
        let (mut planned, mut allocated) = (0, 0);
        resident::reset_peak();
        let mut once = || -> Result<Duration> {
            let mut time = Duration::ZERO;
            flops = 0.0;
            let parts = text.iter().map(|t| (t, 2));
            let parts = parts.chain([(unet, self.args.steps), (vae, 1)]);
            for (network, runs) in parts {
                let device: &dyn Device = &*self.opened.device;
                let mut loaded = Loaded::new(device, network, self.activations)?;
                for _ in 0..runs {
                    interrupt::check()?;
                    time += loaded.once()?;
                }
                flops += loaded.flops() * f64::from(runs);
                planned = planned.max(loaded.planned_bytes());
                allocated = allocated.max(loaded.allocated_bytes());
            }
            Ok(time)
        };
        let times = (0..self.args.runs)
            .map(|_| once())
            .collect::<Result<Vec<_>>>()?;
        let mut row = Row::new(case, Timing::new(times[0], times), flops);
        row.steps = Some(self.args.steps);
        row.resident_peak_bytes = resident::peak();
        row.planned_bytes = planned;
        row.allocated_bytes = allocated;
        Ok(row)
    }

    /// The network's output from the same weights in f32 and f32 activations, on the CPU.
    fn exact(&mut self, network: &Network) -> Result<&[f32]> {
        if !self.exact.contains_key(&network.name) {
            let cpu = nino_engine::device::open(&DeviceChoice {
                device: Some(DeviceName::Cpu),
                ..DeviceChoice::default()
            })?;
            let exact = network.with_weights(DType::F32);
            let mut loaded = Loaded::new(&*cpu.device, &exact, DType::F32)?;
            loaded.once()?;
            self.exact.insert(network.name.clone(), loaded.values()?);
        }
        Ok(&self.exact[&network.name])
    }
}

/// Mean square of the difference over mean square of the exact values.
fn nmse(found: &[f32], exact: &[f32]) -> f64 {
    let square = |v: f32| f64::from(v) * f64::from(v);
    let difference: f64 = found.iter().zip(exact).map(|(a, b)| square(a - b)).sum();
    difference / exact.iter().map(|&v| square(v)).sum::<f64>()
}
