//! A timeline made by hand, in every form.

use super::{flame, memory, table, trace};
use nino_engine::Stage;
use nino_engine::timeline::{MemoryPoint, OpSpan, Span, Timeline};
use std::time::Duration;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn timeline() -> Timeline {
    let op = |kind, label: &str, time| OpSpan {
        kind,
        label: label.to_owned(),
        shape: "[1, 8, 8, 4] f32".to_owned(),
        time,
    };
    let run = |start| Span {
        stage: Stage::Sample,
        start,
        time: ms(40),
        ops: vec![op("conv2d", "in<put>", ms(30)), op("silu", "act", ms(6))],
    };
    let load = Span {
        stage: Stage::Load,
        start: ms(0),
        time: ms(20),
        ops: Vec::new(),
    };
    Timeline {
        spans: vec![load, run(ms(20)), run(ms(60))],
        memory: vec![MemoryPoint {
            at: ms(100),
            planned: 64 << 20,
            resident: Some(128 << 20),
        }],
    }
}

#[test]
fn the_table_accounts_for_all_time() {
    let text = table::render(&timeline());
    let row = |start: &str| {
        let line = text.lines().find(|l| l.trim().starts_with(start));
        line.unwrap_or_else(|| panic!("no {start} in\n{text}"))
            .to_owned()
    };
    assert!(row("conv2d").contains("60.0"), "{text}");
    assert!(row("conv2d").contains("60.0%"), "{text}");
    assert!(row("between ops").contains("8.0"), "{text}");
    assert!(row("load").contains("20.0"), "{text}");
    assert!(text.contains("64 MiB planned, 128 MiB in this process"));
}

#[test]
fn a_trace_is_json_with_ops_inside_their_run() {
    let value: serde_json::Value = serde_json::from_str(&trace::render(&timeline())).unwrap();
    let events = value["traceEvents"].as_array().unwrap();
    let named = |name: &str| {
        let found = events.iter().filter(|e| e["name"] == name);
        found.collect::<Vec<_>>()
    };
    assert_eq!(named("sample").len(), 2);
    assert_eq!(named("act")[1]["ts"], 90_000.0);
    assert_eq!(named("memory")[0]["args"]["planned"], 64 << 20);
}

#[test]
fn charts_are_svg_without_foreign_marks() {
    let flame = flame::render(&timeline());
    assert!(flame.contains("in_put_: 60.0 ms"), "{flame}");
    assert!(!flame.contains("in<put>"));
    let memory = memory::render(&timeline());
    assert!(memory.contains("peak 128 MiB"), "{memory}");
    // Nothing recorded is a chart, too.
    flame::render(&Timeline::default());
    memory::render(&Timeline::default());
}
