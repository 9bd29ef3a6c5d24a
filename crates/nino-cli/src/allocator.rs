//! The program's allocator: the system's, and an orderly end where the system refuses.
//!
//! Rust aborts the process when a `Vec` or a `String` gets no memory. Large buffers are asked for
//! in ways that can be refused ([`nino_files::refusable`]) and end as an ordinary error with
//! numbers. For the thousands of small ones, most of them in other people's crates, no caller can
//! do more than give up; so the program says what happened in one sentence, removes its temporary
//! files and ends with exit code 1.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Set once the command line is known: the error is a JSON document, too.
pub(crate) static AS_JSON: AtomicBool = AtomicBool::new(false);

/// Some thread is ending the process.
static ENDING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// It is this thread.
    static BY_ME: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: every call is the system allocator's; what it gives is passed on unchanged.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        checked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        checked(unsafe { System.realloc(ptr, layout, new_size) }, new_size)
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Called once at start. Memory can also run out where no allocator is asked: a thread that gets no
/// stack for its signals, and libraries of other languages, abort the process. While memory is out
/// that ends like any other refusal; else an abort stays what it is.
pub(crate) fn install() {
    #[cfg(unix)]
    {
        let aborted = || {
            if !nino_files::has_memory(LITTLE) {
                end(None);
            }
        };
        // SAFETY: what runs in the handler neither allocates nor takes a lock.
        let installed =
            unsafe { signal_hook::low_level::register(signal_hook::consts::SIGABRT, aborted) };
        if let Err(e) = installed {
            tracing::debug!("no handler for SIGABRT: {e}");
        }
    }
}

/// What a thread needs to start, and more.
#[cfg(unix)]
const LITTLE: usize = 4 << 20;

#[inline]
fn checked(given: *mut u8, bytes: usize) -> *mut u8 {
    if given.is_null() && !nino_files::refusal_is_handled() {
        end(Some(bytes));
    }
    given
}

/// Says that memory ran out and ends the process. Nothing here allocates or takes a lock, because
/// this thread may hold any of them.
#[cold]
fn end(refused: Option<usize>) -> ! {
    if ENDING.swap(true, Ordering::SeqCst) && !BY_ME.get() {
        // Another thread is on its way out and takes this one with it.
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    // The second time, removing files failed for want of memory, too.
    if !BY_ME.replace(true) {
        let mut what = Line::default();
        // Both fit the line.
        let _ = match refused {
            Some(bytes) => write!(what, "out of memory: the system refused {bytes} bytes"),
            None => write!(
                what,
                "out of memory: the system refused a thread or a library"
            ),
        };
        Line::say(
            2,
            format_args!(
                "error: {what}\nhint: close programs, raise the memory limit (`ulimit -v`), or \
                 request less\n"
            ),
        );
        if AS_JSON.load(Ordering::Relaxed) {
            Line::say(
                1,
                format_args!(
                    "{{ \"error\": \"{what}\", \"kind\": \"out-of-memory\", \
                     \"notes\": [], \"hints\": [] }}\n"
                ),
            );
        }
        nino_files::end_at_once(1);
    }
    nino_files::end_without_cleaning(1)
}

/// Text on the stack.
struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            bytes: [0; 256],
            len: 0,
        }
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::str::from_utf8(&self.bytes[..self.len]);
        f.write_str(text.unwrap_or_default())
    }
}

impl Line {
    /// Writes to a standard stream, past its lock and its buffer.
    fn say(stream: i32, text: fmt::Arguments<'_>) {
        let mut line = Line::default();
        let Some(mut file) = standard(stream) else {
            return;
        };
        if line.write_fmt(text).is_ok() {
            // Nobody is left to tell when it is closed.
            let _ = file.write_all(&line.bytes[..line.len]);
        }
    }
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps)] // other systems may have none
fn standard(stream: i32) -> Option<ManuallyDrop<File>> {
    use std::os::fd::FromRawFd;
    // SAFETY: the descriptor is not closed by what is returned.
    Some(ManuallyDrop::new(unsafe { File::from_raw_fd(stream) }))
}

#[cfg(windows)]
fn standard(stream: i32) -> Option<ManuallyDrop<File>> {
    use std::os::windows::io::{AsRawHandle, FromRawHandle};
    let handle = match stream {
        1 => std::io::stdout().as_raw_handle(),
        _ => std::io::stderr().as_raw_handle(),
    };
    if handle.is_null() {
        return None;
    }
    // SAFETY: the handle is not closed by what is returned.
    Some(ManuallyDrop::new(unsafe { File::from_raw_handle(handle) }))
}
