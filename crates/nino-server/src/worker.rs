//! The thread of a device: it takes jobs, runs their graphs and tells what happens.

mod run;

use crate::app::App;
use crate::host::ServerHost;
use crate::job::{Ended, Job, Outcome};
use crate::queue::{Seat, Work};
use nino_engine::{EngineError, ErrorKind, Preview, Store};
use nino_workflow::{Executor, NodeError, RunError, Watch};
use run::Teller;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Takes jobs until the server stops.
pub(crate) fn work(app: &App, device: usize, store: &Store) {
    let mut executor = Executor::new(store.clone(), app.config.settings.clone());
    let mut seat = Seat::new(device);
    // A store that holds nothing needs no second clearing.
    let mut is_clear = true;
    loop {
        let idle = app.config.keep_alive.filter(|_| !is_clear);
        match app.queue.take(&mut seat, idle) {
            Work::Stop => break,
            Work::Free | Work::Idle => {
                executor.clear();
                store.clear();
                is_clear = true;
            }
            Work::Job(job, cancel) => {
                is_clear = false;
                run(app, &mut executor, &job, &cancel);
            }
        }
    }
}

fn run(app: &App, executor: &mut Executor, job: &Job, cancel: &Arc<AtomicBool>) {
    let started = Instant::now();
    let item = &job.item;
    let client = item.client.as_deref();
    let wants = app.hub.is_connected(client) || item.extra["preview_method"] == "kept";
    let shows = wants && item.extra["preview_method"] != "none";
    executor.set_preview(shows.then_some(Preview {
        every: 1,
        vae: None,
    }));
    app.tell_status();
    tracing::info!(job = %item.id, "started");
    let mut teller = Teller::new(app, Arc::clone(item));
    let mut host = ServerHost::to_run(app, item, cancel);
    teller.start(&executor.cached(&job.graph, &host));
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut watch = Watch {
            cancel,
            on_event: &mut |event| teller.hear(event),
        };
        executor.run(&job.graph, &mut host, &mut watch)
    }));
    let outcome = match ran {
        Ok(Ok(_)) => teller.succeeded(),
        Ok(Err(error)) if error.is_cancelled() && app.queue.is_stopping() => {
            keep_latent(app, &host, &item.id);
            app.queue.done(item, None);
            return;
        }
        Ok(Err(error)) if error.is_cancelled() => teller.interrupted(&error),
        Ok(Err(error)) => {
            recover(executor, &error);
            teller.failed(&error)
        }
        Err(_) => {
            // What a panic left behind is not trusted.
            executor.clear();
            executor.store().clear();
            teller.panicked()
        }
    };
    count(app, &item.id, &outcome, started);
    app.queue.done(item, Some(&outcome));
    app.tell_status();
    teller.end();
}

fn count(app: &App, id: &str, outcome: &Outcome, started: Instant) {
    let counts = &app.counts;
    let count = match outcome.ended {
        Ended::Completed => &counts.completed,
        Ended::Failed => &counts.failed,
        Ended::Cancelled => &counts.cancelled,
    };
    count.fetch_add(1, Ordering::Relaxed);
    let took = started.elapsed().as_millis() as u64;
    tracing::info!(
        job = id,
        ended = outcome.ended.name(),
        took_ms = took,
        "ended"
    );
    counts.busy_ms.fetch_add(took, Ordering::Relaxed);
}

/// A device that was lost is opened again for the next job.
fn recover(executor: &mut Executor, error: &RunError) {
    let lost = |e: &EngineError| e.kind() == ErrorKind::DeviceLost;
    if let NodeError::Engine(engine) = &*error.source
        && lost(engine)
    {
        executor.clear();
        if let Err(e) = executor.store().reopen() {
            tracing::error!("the device is lost and cannot be opened again: {e}");
        }
    }
}

/// Keeps what a job had come to that the server's end stopped.
fn keep_latent(app: &App, host: &ServerHost<'_>, id: &str) {
    let Some(latent) = &host.stopped else { return };
    let path = app.folders.output.join(format!("unfinished_{id}.latent"));
    match latent.save(&path, &std::collections::BTreeMap::new()) {
        Ok(()) => tracing::info!("what a stopped job had come to is in {}", path.display()),
        Err(e) => tracing::warn!("what a stopped job had come to could not be kept: {e}"),
    }
}
