//! The reports as text for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::chip::CARDS;
use crate::family::{KernelReport, Report};
use nino_models::workload::WORKLOADS;

/// A family's kernels, those that take most of the predicted time first.
pub fn kernels(report: &Report) -> String {
    let mut text = format!(
        "\n{} ({}), tier {}: {} kernels\n",
        report.family,
        report.device,
        report.tier,
        report.kernels.len()
    );
    text += "share: of the predicted time, the mean of the workloads; matrix to wait: instructions of a\n\
        round of the main loop; busy: the part of its vector cycles that products take\n\
        share%  launches vgprs sgprs   lds waves groups spills scratch   code  busy% \
        matrix  fma valu  lds  mem scal wait  kernel\n";
    let mut totals: BTreeMap<&str, f64> = BTreeMap::new();
    for (workload, seconds) in report.kernels.iter().flat_map(|k| &k.seconds) {
        *totals.entry(workload).or_default() += seconds;
    }
    let share = |kernel: &KernelReport| {
        let shares = kernel.seconds.iter();
        let shares = shares.map(|(w, s)| s / totals.get(w.as_str()).copied().unwrap_or(1.0));
        100.0 * shares.sum::<f64>() / totals.len().max(1) as f64
    };
    let mut sorted: Vec<&KernelReport> = report.kernels.iter().collect();
    sorted.sort_by(|a, b| share(b).total_cmp(&share(a)));
    for kernel in sorted {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line(kernel, share(kernel)));
    }
    text
}

fn line(kernel: &KernelReport, share: f64) -> String {
    if let Some(error) = &kernel.error {
        return format!("ERROR {error}");
    }
    let s = &kernel.stats;
    let launches: usize = kernel.launches.values().sum();
    let work = kernel.work.as_ref();
    let busy = work.filter(|w| w.round.is_some());
    let busy = busy.map_or(String::new(), |w| format!("{:.0}", 100.0 * w.product_share));
    let round = work.and_then(|w| w.round).map_or(String::new(), |m| {
        format!(
            "{:6.0} {:4.0} {:4.0} {:4.0} {:4.0} {:4.0} {:4.0}",
            m.matrix,
            m.fma,
            m.valu + m.slow,
            m.lds,
            m.memory,
            m.scalar,
            m.wait
        )
    });
    format!(
        "{share:6.2} {launches:9} {:5} {:5} {:5} {:5} {:6} {:6} {:7} {:6} {busy:>6} {round:36}  {}",
        s.vgprs,
        s.sgprs,
        s.lds,
        kernel.waves,
        kernel.groups,
        s.spilled_vgprs,
        s.scratch,
        s.code_bytes,
        kernel.label
    )
}

/// Predicted seconds of every workload on every card, as a table of Markdown.
pub fn times(reports: &[Report]) -> String {
    let found: BTreeMap<(&str, &str), (f64, f64)> = reports
        .iter()
        .flat_map(|r| &r.times)
        .map(|t| ((t.card.as_str(), t.workload.as_str()), (t.seconds, t.flops)))
        .collect();
    let used = |name: &str| found.keys().any(|(_, w)| *w == name);
    let columns: Vec<_> = WORKLOADS.iter().filter(|w| used(w.name)).collect();
    let mut text =
        "\n*Predicted* seconds, and TFLOP/s, never run on these cards:\n\n| card |".to_owned();
    columns.iter().for_each(|w| {
        let _ = write!(text, " {} |", w.name);
    });
    text += "\n| --- |";
    text += &" --- |".repeat(columns.len());
    for card in CARDS {
        if !found.keys().any(|(c, _)| *c == card.name) {
            continue;
        }
        let _ = write!(text, "\n| {} |", card.name);
        for w in &columns {
            let cell = found.get(&(card.name, w.name));
            let _ = match cell {
                Some((s, f)) => write!(text, " {} ({:.1}) |", short(*s), f / s * 1e-12),
                None => write!(text, " |"),
            };
        }
    }
    text + "\n"
}

/// Three figures.
fn short(seconds: f64) -> String {
    match seconds {
        ..0.1 => format!("{seconds:.3}"),
        ..10.0 => format!("{seconds:.2}"),
        _ => format!("{seconds:.0}"),
    }
}
