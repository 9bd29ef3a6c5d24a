//! The timeline as a table: stages, and in each the kinds of op that took longest.

use crate::table::{Align, Table};
use nino_engine::Stage;
use nino_engine::timeline::Timeline;
use std::collections::BTreeMap;
use std::time::Duration;

/// Kinds of op that are shown of a stage; the others are one row.
const SHOWN: usize = 8;

/// A stage and what it did.
#[derive(Default)]
struct Sums {
    runs: usize,
    time: Duration,
    /// By kind of op: how many, and how long.
    ops: BTreeMap<&'static str, (usize, Duration)>,
}

pub(super) fn render(timeline: &Timeline) -> String {
    let mut stages: BTreeMap<Stage, Sums> = BTreeMap::new();
    for span in &timeline.spans {
        let sums = stages.entry(span.stage).or_default();
        sums.runs += 1;
        sums.time += span.time;
        for op in &span.ops {
            let (count, time) = sums.ops.entry(op.kind).or_default();
            *count += 1;
            *time += op.time;
        }
    }
    let mut table = Table::new(&[
        ("stage", Align::Left),
        ("op", Align::Left),
        ("count", Align::Right),
        ("ms", Align::Right),
        ("share", Align::Right),
    ]);
    let total: Duration = stages.values().map(|sums| sums.time).sum();
    let share = |time: Duration| {
        let share = 100.0 * time.as_secs_f64() / total.as_secs_f64().max(f64::MIN_POSITIVE);
        format!("{share:.1}%")
    };
    let row = |stage: &str, op: &str, count: usize, time: Duration| {
        let ms = format!("{:.1}", time.as_secs_f64() * 1e3);
        vec![
            stage.to_owned(),
            op.to_owned(),
            count.to_string(),
            ms,
            share(time),
        ]
    };
    for (stage, sums) in &stages {
        table.push(row(stage.name(), "all", sums.runs, sums.time));
        let mut ops: Vec<_> = sums.ops.iter().collect();
        ops.sort_by_key(|(_, (_, time))| std::cmp::Reverse(*time));
        for (kind, (count, time)) in ops.iter().take(SHOWN) {
            table.push(row("", kind, *count, *time));
        }
        let rest = ops.iter().skip(SHOWN);
        let (count, time) = rest.fold((0, Duration::ZERO), |(n, t), (_, (count, time))| {
            (n + count, t + *time)
        });
        if count > 0 {
            table.push(row("", "others", count, time));
        }
        let in_ops: Duration = sums.ops.values().map(|(_, time)| *time).sum();
        if !sums.ops.is_empty() {
            let between = sums.time.saturating_sub(in_ops);
            table.push(row("", "between ops", 0, between));
        }
    }
    let text = table.render();
    let most = |of: &dyn Fn(&nino_engine::timeline::MemoryPoint) -> Option<usize>| {
        timeline.memory.iter().filter_map(of).max()
    };
    let Some(planned) = most(&|point| Some(point.planned)) else {
        return text;
    };
    let seen = most(&|point| point.resident).map_or_else(String::new, |bytes| {
        format!(", {} MiB in this process", bytes >> 20)
    });
    format!("{text}\n\nmemory: {} MiB planned{seen}", planned >> 20)
}
