//! Another program as a child process. What it says on its standard error is always read, so that
//! it never waits for us; and it ends, with all that it started, when a stop is asked for or when
//! its owner is dropped.

#[cfg(unix)]
mod groups;
mod process;

use std::io::{self, Read, Write};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use process::Process;

/// How much of what it says is kept for a message; the rest is read and dropped.
const KEPT: usize = 8 << 10;
/// How often a stop is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// How long to wait for its last words after it ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Ends all children of this process, as it ends itself.
pub(crate) fn end_all() {
    #[cfg(unix)]
    groups::RUNNING.end();
}

/// Says whether someone asked for a stop.
#[derive(Clone, Default)]
pub struct Stop(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Stop {
    pub fn never() -> Stop {
        Stop(None)
    }

    /// A stop is asked for from the moment on that `asked` is true.
    pub fn when(asked: impl Fn() -> bool + Send + Sync + 'static) -> Stop {
        Stop(Some(Arc::new(asked)))
    }

    pub fn is_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|asked| asked())
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stop({})", self.is_asked())
    }
}

/// Which standard streams are pipes to us; the others are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pipes {
    /// The child reads what is written to the [`Child`].
    pub input: bool,
    /// What is read from the [`Child`] is what the child writes.
    pub output: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    #[error("{program} is not on the PATH")]
    NotFound { program: String },
    #[error("cannot {action} {program}: {reason}")]
    Io {
        program: String,
        action: &'static str,
        reason: io::Error,
    },
    #[error("{program} failed ({status}): {said}")]
    Failed {
        program: String,
        status: ExitStatus,
        /// The first line on its standard error.
        said: String,
    },
    #[error("{program} was stopped")]
    Stopped { program: String },
}

/// A running program; reads come from its output, writes go to its input.
pub struct Child {
    program: String,
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    process: Arc<Mutex<Process>>,
    said: Receiver<Vec<u8>>,
    stop: Stop,
    /// Dropped with the child, which ends the thread that looks for a stop.
    _alive: Sender<()>,
}

impl Child {
    /// Starts `command` in a process group of its own: Ctrl-C in a terminal is for us to act on.
    pub fn start(mut command: Command, pipes: Pipes, stop: Stop) -> Result<Child, ChildError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let stream = |piped: bool| {
            if piped { Stdio::piped() } else { Stdio::null() }
        };
        command
            .stdin(stream(pipes.input))
            .stdout(stream(pipes.output))
            .stderr(Stdio::piped());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|reason| match reason.kind() {
            io::ErrorKind::NotFound => ChildError::NotFound {
                program: program.clone(),
            },
            _ => failed(&program, "start")(reason),
        })?;
        let (input, output, errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let process = Arc::new(Mutex::new(Process::new(child)));
        // The process ends with this value if a thread cannot be started.
        let (alive, ended) = channel();
        let started = Child {
            said: listen(errors).map_err(failed(&program, "listen to"))?,
            program,
            input,
            output,
            process: Arc::clone(&process),
            stop: stop.clone(),
            _alive: alive,
        };
        watch(process, stop, ended).map_err(failed(&started.program, "watch"))?;
        Ok(started)
    }

    /// Closes its input and its output, waits for its end, and is an error unless that is a good
    /// one.
    pub fn finish(&mut self) -> Result<(), ChildError> {
        drop((self.input.take(), self.output.take()));
        let status = Process::wait(&self.process).map_err(failed(&self.program, "wait for"))?;
        let said = self.said.recv_timeout(LAST_WORDS).unwrap_or_default();
        if self.stop.is_asked() {
            return Err(ChildError::Stopped {
                program: self.program.clone(),
            });
        }
        if status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&said);
        let first = said.trim().lines().next().unwrap_or("it did not say why");
        Err(ChildError::Failed {
            program: self.program.clone(),
            status,
            said: first.to_owned(),
        })
    }
}

impl Read for Child {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.output.as_mut().map_or(Ok(0), |out| out.read(buf))
    }
}

impl Write for Child {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match &mut self.input {
            Some(input) => input.write(buf),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.input.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        process.kill_and_reap();
    }
}

/// Reads what it says on a thread of its own and gives the beginning of it at the end.
fn listen(errors: Option<ChildStderr>) -> io::Result<Receiver<Vec<u8>>> {
    let (give, said) = channel();
    let Some(mut errors) = errors else {
        return Ok(said);
    };
    let listen = move || {
        let mut kept = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = errors.read(&mut piece) {
            let room = KEPT - kept.len();
            kept.extend_from_slice(&piece[..n.min(room)]);
        }
        // Nobody may be waiting for it any more.
        let _ = give.send(kept);
    };
    thread("listens to a child", listen)?;
    Ok(said)
}

/// Ends the process when a stop is asked for. Reads and writes that wait for it then end, too.
fn watch(process: Arc<Mutex<Process>>, stop: Stop, ended: Receiver<()>) -> io::Result<()> {
    if stop.0.is_none() {
        return Ok(());
    }
    thread("watches a child", move || {
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if stop.is_asked() {
                let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
                process.kill();
                return;
            }
        }
    })
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map(drop)
}

fn failed(program: &str, action: &'static str) -> impl Fn(io::Error) -> ChildError + use<> {
    let program = program.to_owned();
    move |reason| ChildError::Io {
        program: program.clone(),
        action,
        reason,
    }
}
