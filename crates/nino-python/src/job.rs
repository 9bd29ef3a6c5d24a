//! Work of the engine for a Python caller: the GIL is free while it runs, and callbacks, `logging`
//! and signals are served on the calling thread.
//!
//! A callback that raises, or Ctrl-C, stops the work at its next event; the call then raises that
//! exception.

use crate::array::Array;
use crate::error::{bug, raise};
use nino_engine::{Control, EngineError, Event, Picture, Stage};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How often signals are looked at while nothing happens.
const TICK: Duration = Duration::from_millis(50);

/// Whom a job tells of its progress.
#[derive(Default)]
pub(crate) struct Listener<'py> {
    /// Called with the stage's name, what is done of it, and how much there is.
    pub(crate) progress: Option<Bound<'py, PyAny>>,
    /// Called with pictures of the unfinished latent, `[height, width, 3]` in 0..1.
    pub(crate) preview: Option<Bound<'py, PyAny>>,
}

/// Runs `work` on a thread of its own, with the calling thread serving its events.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    listener: &Listener<'_>,
    work: impl FnOnce(&mut Control<'_>) -> Result<T, EngineError> + Send,
) -> PyResult<T> {
    let cancel = AtomicBool::new(false);
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        let cancel = &cancel;
        let worker = scope.spawn(move || {
            let mut on_event = |event: Event| {
                // The caller may have gone on after an exception; the work is about to stop.
                sender.send(event).ok();
            };
            work(&mut Control {
                cancel,
                on_event: &mut on_event,
            })
        });
        let stopped = serve(py, listener, &Mutex::new(receiver), cancel);
        let done = py.detach(|| worker.join());
        stopped?;
        match done {
            Ok(done) => done.map_err(raise),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                Err(bug(text
                    .or(panic.downcast_ref().copied())
                    .unwrap_or("a panic")))
            }
        }
    })
}

/// Serves events until the worker has ended. The first exception is kept and stops the worker.
fn serve(
    py: Python<'_>,
    listener: &Listener<'_>,
    events: &Mutex<Receiver<Event>>,
    cancel: &AtomicBool,
) -> PyResult<()> {
    let mut told = Told {
        listener,
        stage: Stage::Load,
        done: 0,
        total: 0,
    };
    let mut outcome = Ok(());
    loop {
        // Nobody else locks it: `detach` asks for what could go to another thread.
        let event = py.detach(|| {
            let events = events.lock().unwrap_or_else(PoisonError::into_inner);
            events.recv_timeout(TICK)
        });
        if outcome.is_ok() {
            outcome = py.check_signals();
        }
        match event {
            Ok(event) if outcome.is_ok() => outcome = told.tell(py, event),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return outcome,
        }
        if outcome.is_err() {
            cancel.store(true, Ordering::Relaxed);
        }
    }
}

/// What was told last.
struct Told<'a, 'py> {
    listener: &'a Listener<'py>,
    stage: Stage,
    done: usize,
    total: usize,
}

impl Told<'_, '_> {
    fn tell(&mut self, py: Python<'_>, event: Event) -> PyResult<()> {
        match event {
            Event::Stage(stage) => {
                (self.stage, self.done, self.total) = (stage, 0, 0);
                self.progress(0.0)
            }
            Event::Progress { done, total } => {
                (self.done, self.total) = (done, total);
                self.progress(0.0)
            }
            Event::Within(share) => self.progress(share),
            Event::Pass { .. } => Ok(()),
            Event::Note(text) => {
                let logger = py
                    .import("logging")?
                    .call_method1("getLogger", ("ninodes",))?;
                // `%s`, since a note may hold a percent sign.
                logger.call_method1("info", ("%s", text)).map(|_| ())
            }
            Event::Preview(picture) => self.show(&picture),
            Event::PreviewClip(frames) => {
                let mut first = frames.iter().take(1);
                first.try_for_each(|frame| self.show(frame))
            }
        }
    }

    fn show(&self, picture: &Picture) -> PyResult<()> {
        let Some(preview) = &self.listener.preview else {
            return Ok(());
        };
        let values = picture.rgb.iter().map(|&v| f32::from(v) / 255.0).collect();
        let shape = [picture.height, picture.width, 3];
        preview.call1((Array::new(values, &shape),)).map(|_| ())
    }

    fn progress(&self, within: f64) -> PyResult<()> {
        let Some(progress) = &self.listener.progress else {
            return Ok(());
        };
        let done = self.done as f64 + within;
        let told = (self.stage.name(), done, self.total);
        progress.call1(told).map(|_| ())
    }
}
