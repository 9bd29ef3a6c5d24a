//! The timeline as a Chrome trace: stages on one row, ops on the next, memory as a counter.

use nino_engine::timeline::Timeline;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn render(timeline: &Timeline) -> String {
    let mut events: Vec<Value> = Vec::new();
    for span in &timeline.spans {
        events.push(complete(
            span.stage.name(),
            1,
            span.start,
            span.time,
            &json!({}),
        ));
        let mut start = span.start;
        for op in &span.ops {
            let about = json!({ "op": op.kind, "result": op.shape });
            events.push(complete(&op.label, 2, start, op.time, &about));
            start += op.time;
        }
    }
    for point in &timeline.memory {
        let mut bytes = json!({ "planned": point.planned });
        if let Some(resident) = point.resident {
            bytes["resident"] = json!(resident);
        }
        let counter = json!({
            "name": "memory", "ph": "C", "pid": 1, "ts": micros(point.at), "args": bytes
        });
        events.push(counter);
    }
    json!({ "traceEvents": events, "displayTimeUnit": "ms" }).to_string()
}

fn complete(name: &str, row: u32, start: Duration, time: Duration, about: &Value) -> Value {
    json!({
        "name": name, "ph": "X", "pid": 1, "tid": row,
        "ts": micros(start), "dur": micros(time), "args": about
    })
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
