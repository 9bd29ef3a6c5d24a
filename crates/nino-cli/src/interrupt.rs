//! Being told to stop: Ctrl-C, `kill`, `timeout`, a service manager, a terminal that closes.
//!
//! The first time the work is asked to stop at its next safe point, where it keeps what it has come
//! to. Work that is not there within a second is ended, as it is by being told a second time:
//! half-written files are removed, and nothing else is lost that was promised.

use crate::failure::Interrupted;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

static ASKED: AtomicBool = AtomicBool::new(false);

/// How many files are being written that a stopped run keeps.
static KEEPING: AtomicUsize = AtomicUsize::new(0);

/// What a process that is ended should still say.
static LAST_WORDS: Mutex<Option<String>> = Mutex::new(None);

/// How long the work has to come to a safe point. A second, less what it takes to notice.
const GRACE: Duration = Duration::from_millis(700);
/// How long a file may take that a stopped run keeps.
const KEEPING_GRACE: Duration = Duration::from_secs(10);

/// How long it may take to say so.
const LAST_WORDS_GRACE: Duration = Duration::from_millis(250);

/// 128 + SIGINT, as shells have it.
const EXIT_CODE: i32 = 130;

/// Called once at start. Without a handler a signal still ends the process, so failure is only
/// noted.
pub(crate) fn install() {
    nino_files::ignore_file_size_signal();
    let thread = std::thread::Builder::new().name("signals".to_owned());
    // The handlers are installed by the thread that answers them: without one, a signal keeps its
    // usual meaning.
    if let Err(e) = thread.spawn(listen) {
        tracing::debug!("cannot start a thread that waits for signals: {e}");
    }
}

/// Waits for signals. Those that the parent had ignored stay so: `nohup` ignores SIGHUP, and shells
/// SIGINT for what runs in the background.
#[cfg(unix)]
fn listen() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter();
    let wanted: Vec<i32> = wanted.filter(|&s| !nino_files::is_ignored(s)).collect();
    match signal_hook::iterator::Signals::new(wanted) {
        Ok(mut signals) => {
            for _ in signals.forever() {
                asked();
            }
        }
        Err(e) => tracing::debug!("no handler for signals: {e}"),
    }
}

#[cfg(not(unix))]
fn listen() {
    if let Err(e) = ctrlc::set_handler(asked) {
        tracing::debug!("no Ctrl-C handler: {e}");
    }
}

fn asked() {
    if ASKED.swap(true, Ordering::SeqCst) {
        nino_files::end_at_once(EXIT_CODE);
    }
    // Before anything is printed: a standard error that nobody reads keeps whoever writes to it.
    let thread = std::thread::Builder::new().name("stops".to_owned());
    if thread.spawn(end_when_late).is_err() {
        nino_files::end_at_once(EXIT_CODE);
    }
    crate::printer::note("stopping at the next safe point; Ctrl-C again stops at once");
}

/// Ends the process unless it ends by itself in time.
fn end_when_late() {
    let started = Instant::now();
    let late = || {
        let keeping = KEEPING.load(Ordering::SeqCst) > 0;
        started.elapsed() > if keeping { KEEPING_GRACE } else { GRACE }
    };
    while !late() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let thread = std::thread::Builder::new().name("last words".to_owned());
    if let Ok(words) = thread.spawn(say_last_words) {
        let begun = Instant::now();
        while !words.is_finished() && begun.elapsed() < LAST_WORDS_GRACE {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    nino_files::end_at_once(EXIT_CODE);
}

fn say_last_words() {
    let words = LAST_WORDS.try_lock();
    match words.as_deref() {
        Ok(Some(words)) => crate::printer::note(&format!("error: interrupted: {words}")),
        _ => crate::printer::note("error: interrupted"),
    }
}

/// What to say if the process has to be ended: where to find what was made so far.
pub(crate) fn set_last_words(words: Option<&str>) {
    let mut last = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    *last = words.map(str::to_owned);
}

/// While this is held, the file that a stopped run keeps is written to its end.
pub(crate) struct Keeping(());

impl Keeping {
    pub(crate) fn new() -> Keeping {
        KEEPING.fetch_add(1, Ordering::SeqCst);
        Keeping(())
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        KEEPING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// For [`nino_graph::RunOptions::cancel`].
pub(crate) fn flag() -> &'static AtomicBool {
    &ASKED
}

/// For what waits for another program.
pub(crate) fn stop() -> nino_files::Stop {
    nino_files::Stop::when(|| ASKED.load(Ordering::SeqCst))
}

/// Ends a loop between two units of work.
pub(crate) fn check() -> Result<(), Interrupted> {
    if ASKED.load(Ordering::SeqCst) {
        return Err(Interrupted);
    }
    Ok(())
}
