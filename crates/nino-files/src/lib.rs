//! What nino asks of the system: files that others may have made, files that must appear whole or
//! not at all, memory, other programs.
//!
//! - [`Opened`] and [`read_small`] open regular files only, never block on a pipe or a device, and
//!   notice a file that changed while it was read.
//! - [`read_own`] reads caches, and only those that nobody else can have written.
//! - [`AtomicFile`] and [`Pending`] write beside the target and rename when all is written. What a
//!   killed process left behind is removed by the next output in the same folder.
//! - [`Child`] runs another program without a pipe that can fill up, and ends it on request.
//! - [`with_room`] and [`zeroed`] allocate what a file or a request asks for, or say that there is
//!   no memory; [`end_at_once`] ends a process that cannot go on.
//! - [`raise_open_files`] makes room for connections beside files.
//! - [`scratch`] and [`free_bytes`] are for large temporary data.

mod atomic;
mod child;
mod error;
mod memory;
mod open;
mod open_files;
mod orphans;
mod own;
mod pending;
mod resolve;
mod scratch;
mod signal;
mod unfinished;

pub use atomic::AtomicFile;
pub use child::{Child, ChildError, Pipes, Stop};
pub use error::FileError;
#[cfg(unix)]
pub use memory::has_memory;
pub use memory::{let_go, refusable, refusal_is_handled, stack_limit, with_room, zeroed};
pub use open::{Identity, Opened, open_to_resume, read_small, read_text};
pub use open_files::raise_open_files;
pub use own::{is_open_to_all, is_ours, read_own};
pub use pending::Pending;
pub use scratch::{free_bytes, free_bytes_of, reserve, scratch};
pub use signal::ignore_file_size_signal;
#[cfg(unix)]
pub use signal::is_ignored;
pub use unfinished::{end_at_once, end_without_cleaning};

#[cfg(test)]
#[cfg(unix)]
mod tests;
