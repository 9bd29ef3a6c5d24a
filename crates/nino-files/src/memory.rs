//! Who deals with an allocation that fails.
//!
//! A [`GlobalAlloc`](std::alloc::GlobalAlloc) cannot see whether its caller handles a null pointer
//! or aborts the process on it, as every `Vec` and `String` does. So those few callers that handle
//! it say so, and a program's allocator may end the process in good order for all others.

use std::cell::Cell;
use std::collections::TryReserveError;

thread_local! {
    // Without a destructor and without lazy parts: an allocator may ask at any moment.
    static HANDLED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `ask`, which allocates and handles a refusal itself. It should do nothing else.
pub fn refusable<T>(ask: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            HANDLED.set(self.0);
        }
    }
    let _restore = Restore(HANDLED.replace(true));
    ask()
}

/// Whether the caller of the allocator, on this thread and now, handles a refusal.
pub fn refusal_is_handled() -> bool {
    HANDLED.get()
}

/// Whether the system would give `bytes` of memory now. Neither allocates nor takes a lock, so that
/// a signal handler may ask.
#[cfg(unix)]
pub fn has_memory(bytes: usize) -> bool {
    let (access, kind) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANON);
    // SAFETY: makes a new mapping wherever there is room for it.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    if place == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the mapping was made above and nobody knows of it.
    unsafe { libc::munmap(place, bytes) };
    true
}

/// An empty vector with room for `n` values, or the error that there is no memory for them.
pub fn with_room<T>(n: usize) -> Result<Vec<T>, TryReserveError> {
    let mut values = Vec::new();
    refusable(|| values.try_reserve_exact(n))?;
    Ok(values)
}

/// `n` default values, or the error that there is no memory for them.
pub fn zeroed<T: Clone + Default>(n: usize) -> Result<Vec<T>, TryReserveError> {
    let mut values = with_room(n)?;
    values.resize(n, T::default());
    Ok(values)
}

/// Lets go of the memory that `bytes`, a part of the program's own file, came to take when it was
/// read. It comes back when it is read again. Does nothing where the system has no such call.
pub fn let_go(bytes: &'static [u8]) {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let Ok(page @ 1..) = usize::try_from(page) else {
            return;
        };
        let range = bytes.as_ptr_range();
        // Whole pages only: what else is on the first and the last is not ours.
        let start = (range.start as usize).next_multiple_of(page);
        let end = range.end as usize / page * page;
        if start < end {
            let len = end - start;
            // SAFETY: constants of the program lie in a private mapping of its file that nobody can
            // write to, so the pages that come back are the same.
            unsafe { libc::madvise(start as *mut libc::c_void, len, libc::MADV_DONTNEED) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = bytes;
}

/// Bytes that the system allows the first thread's stack; `None` without a limit, or where the
/// system does not tell.
pub fn stack_limit() -> Option<usize> {
    #[cfg(unix)]
    {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: fills what it is given.
        let told = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0;
        let is_limit = told && limit.rlim_cur != libc::RLIM_INFINITY;
        is_limit.then(|| usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
    }
    #[cfg(not(unix))]
    None
}
