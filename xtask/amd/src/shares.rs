//! The part of its peak that a card is predicted to reach by kind of op, as nino-gpu keeps it
//! (`Arch::shares`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nino_gpu::Arch;

use crate::chip::{CARDS, Card, Chip};
use crate::family::Report;

/// The card that stands for an architecture.
const CARD_OF: [(Arch, &str); 4] = [
    (Arch::Gcn, "RX 580"),
    (Arch::Rdna, "RX 6600"),
    (Arch::RdnaMatrix, "Radeon 8060S"),
    (Arch::Rdna4, "RX 9070 XT"),
];

/// The table's text, from the reports of all workloads.
pub fn table(reports: &[Report]) -> String {
    let mut text = "arch\tconv3x3\tlinear\tattention\tlinear bf16\tattention bf16\n".to_owned();
    for (arch, name) in CARD_OF {
        let Some(card) = CARDS.iter().find(|c| c.name == name) else {
            continue;
        };
        let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        let times = reports.iter().flat_map(|r| &r.times);
        for (kind, (seconds, flops)) in times.filter(|t| t.card == name).flat_map(|t| &t.kinds) {
            let sum = sums.entry(kind).or_default();
            sum.0 += seconds;
            sum.1 += flops;
        }
        let share = |kind: &str| {
            let (seconds, flops) = sums.get(kind).copied().unwrap_or((1.0, 0.0));
            flops / seconds / peak(card)
        };
        let half = ["conv3x3", "linear", "attention"].map(share);
        let brain = ["linear bf16", "attention bf16"].map(share);
        let ([conv, linear, attention], [linear16, attention16]) = (half, brain);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}\t{conv:.2}\t{linear:.2}\t{attention:.2}\t{linear16:.2}\t{attention16:.2}",
            arch.name()
        );
    }
    text
}

/// Operations a second at most: of matrices, as far as they were seen to go, or of multiply-adds.
fn peak(card: &Card) -> f64 {
    let Some(chip) = Chip::named(card.family) else {
        return f64::MAX;
    };
    let simds = f64::from(card.compute_units * chip.simds / chip.units_shared);
    let each = if chip.matrix_cycles > 0.0 {
        8192.0 / chip.matrix_cycles * card.matrix_share
    } else {
        128.0 / chip.cycles64
    };
    simds * card.clock * each
}
