//! Figures for Prometheus, in its text format.

use crate::app::App;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A figure: its name, its kind, what it means, and values with their labels.
struct Figure {
    name: &'static str,
    kind: &'static str,
    about: &'static str,
    values: Vec<(String, f64)>,
}

pub(crate) async fn metrics(
    State(app): State<Arc<App>>,
) -> ([(HeaderName, &'static str); 1], String) {
    let mut text = String::new();
    for figure in figures(&app) {
        let Figure {
            name,
            kind,
            about,
            values,
        } = figure;
        // Writing to a text cannot fail.
        let _ = writeln!(text, "# HELP {name} {about}\n# TYPE {name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    }
    (
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        text,
    )
}

fn figures(app: &App) -> Vec<Figure> {
    let counts = &app.counts;
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
    let plain = |value: f64| vec![(String::new(), value)];
    let active = app.queue.active();
    let jobs = [
        ("completed", &counts.completed),
        ("failed", &counts.failed),
        ("cancelled", &counts.cancelled),
    ];
    let jobs = jobs.map(|(ended, count)| (format!("{{ended=\"{ended}\"}}"), read(count)));
    let devices = app.config.devices.iter().zip(&app.stores);
    let devices: Vec<_> = devices
        .map(|(opened, store)| (format!("{{device=\"{}\"}}", opened.name), store))
        .collect();
    let of_devices = |value: &dyn Fn(&nino_engine::Store) -> f64| {
        let each = devices.iter();
        each.map(|(labels, store)| (labels.clone(), value(store)))
            .collect()
    };
    let figure = |name, kind, about, values| Figure {
        name,
        kind,
        about,
        values,
    };
    let uptime = app.started.elapsed().as_secs_f64();
    vec![
        figure(
            "nino_uptime_seconds",
            "gauge",
            "Time since the start.",
            plain(uptime),
        ),
        figure(
            "nino_http_requests_total",
            "counter",
            "Requests that came in.",
            plain(read(&counts.requests)),
        ),
        figure(
            "nino_websocket_clients",
            "gauge",
            "Clients that are connected.",
            plain(app.hub.count() as f64),
        ),
        figure(
            "nino_queue_pending",
            "gauge",
            "Jobs that wait.",
            plain(active.pending.len() as f64),
        ),
        figure(
            "nino_queue_running",
            "gauge",
            "Jobs that run.",
            plain(active.running.len() as f64),
        ),
        figure(
            "nino_jobs_total",
            "counter",
            "Jobs that ended.",
            jobs.to_vec(),
        ),
        figure(
            "nino_job_seconds_total",
            "counter",
            "Time that jobs took.",
            plain(read(&counts.busy_ms) / 1e3),
        ),
        figure(
            "nino_pictures_total",
            "counter",
            "Pictures that were made.",
            plain(read(&counts.pictures)),
        ),
        figure(
            "nino_device_weight_bytes",
            "gauge",
            "Weights on a device.",
            of_devices(&|store| store.usage().weight_bytes as f64),
        ),
        figure(
            "nino_device_arena_bytes",
            "gauge",
            "Memory for values on a device.",
            of_devices(&|store| store.usage().arena_bytes as f64),
        ),
        figure(
            "nino_device_budget_bytes",
            "gauge",
            "Memory that plans may use on a device.",
            of_devices(&|store| store.device().budget().total.unwrap_or(0) as f64),
        ),
    ]
}
