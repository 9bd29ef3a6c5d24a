//! The committed table: one line for each kernel of products and family, so that a change of any of
//! them shows in review and a loss fails the check. Other kernels wait for memory: they have a line
//! where they spill.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};

use crate::family::Report;

/// A kernel's numbers as they are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    pub vgprs: u64,
    pub lds: u64,
    pub waves: u64,
    pub spills: u64,
    pub scratch: u64,
}

/// Lines by family and kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table(BTreeMap<(String, String), Line>);

const HEAD: &str = "family\tvgprs\tlds\twaves\tspills\tscratch\tkernel";

impl Table {
    pub fn of(reports: &[Report]) -> Table {
        let mut lines = BTreeMap::new();
        for report in reports {
            for kernel in report.kernels.iter().filter(|k| k.error.is_none()) {
                let products = kernel.work.as_ref().is_some_and(|w| w.round.is_some());
                let line = Line {
                    vgprs: kernel.stats.vgprs,
                    lds: kernel.stats.lds,
                    waves: u64::from(kernel.waves),
                    spills: kernel.stats.spilled_vgprs,
                    scratch: kernel.stats.scratch,
                };
                if !products && line.spills + line.scratch == 0 {
                    continue;
                }
                lines.insert((report.family.clone(), kernel.label.clone()), line);
            }
        }
        Table(lines)
    }

    pub fn parse(text: &str) -> Result<Table> {
        let mut lines = BTreeMap::new();
        let rows = text.lines().filter(|l| !l.starts_with('#'));
        for (number, row) in rows.skip(1).enumerate() {
            let wrong = || format!("line {} of the table is not one of its lines", number + 2);
            let cells: Vec<&str> = row.split('\t').collect();
            let [family, numbers @ .., kernel] = cells.as_slice() else {
                return Err(anyhow::anyhow!(wrong()));
            };
            let numbers: Vec<u64> = numbers
                .iter()
                .map(|n| n.parse().with_context(wrong))
                .collect::<Result<_>>()?;
            let [vgprs, lds, waves, spills, scratch] = numbers[..] else {
                return Err(anyhow::anyhow!(wrong()));
            };
            let line = Line {
                vgprs,
                lds,
                waves,
                spills,
                scratch,
            };
            lines.insert(((*family).to_owned(), (*kernel).to_owned()), line);
        }
        Ok(Table(lines))
    }

    pub fn text(&self, driver: &str) -> String {
        let mut text = format!(
            "# Written by `cargo xtask amd --update`: Mesa {driver}, waves of a SIMD at once.\n{HEAD}\n"
        );
        for ((family, kernel), l) in &self.0 {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{family}\t{}\t{}\t{}\t{}\t{}\t{kernel}",
                l.vgprs, l.lds, l.waves, l.spills, l.scratch
            );
        }
        text
    }

    /// What the reports have worse than this table, a sentence each.
    pub fn losses(&self, reports: &[Report]) -> Vec<String> {
        let mut losses = Vec::new();
        for report in reports {
            let family = &report.family;
            for kernel in &report.kernels {
                if let Some(error) = &kernel.error {
                    losses.push(format!("{family}: {error}"));
                }
            }
        }
        for (place @ (family, kernel), now) in &Table::of(reports).0 {
            let before = self.0.get(place).copied();
            let known = before.unwrap_or_default();
            if now.spills > known.spills || now.scratch > known.scratch {
                losses.push(format!(
                    "{family}: {} registers spilled, {} bytes of scratch (the table has {} and {}): {kernel}",
                    now.spills, now.scratch, known.spills, known.scratch
                ));
            }
            if let Some(before) = before.filter(|b| now.waves < b.waves) {
                losses.push(format!(
                    "{family}: {} waves, the table has {}: {kernel}",
                    now.waves, before.waves
                ));
            }
        }
        losses
    }

    /// Lines that are new, gone or different.
    pub fn changes(&self, other: &Table) -> usize {
        let differs =
            |(place, line): &(&(String, String), &Line)| self.0.get(*place) != Some(*line);
        let gone = self.0.keys().filter(|k| !other.0.contains_key(*k)).count();
        other.0.iter().filter(differs).count() + gone
    }
}

#[cfg(test)]
mod tests;
