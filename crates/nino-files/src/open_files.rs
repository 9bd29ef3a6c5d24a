//! How many files a process may have open, connections among them.

/// Raises that number to the most that the system allows this user without more rights, and gives
/// it. `None` where there is no limit, or where the system does not tell.
pub fn raise_open_files() -> Option<usize> {
    #[cfg(unix)]
    {
        /// The most that macOS takes where it says that there is no limit: its `OPEN_MAX`.
        const OPEN_MAX: libc::rlim_t = 10_240;
        let mut limit = read()?;
        for most in [limit.rlim_max, limit.rlim_max.min(OPEN_MAX)] {
            if limit.rlim_cur < most {
                let raised = libc::rlimit {
                    rlim_cur: most,
                    rlim_max: limit.rlim_max,
                };
                // SAFETY: only reads what it is given. Where it fails, the limit is as it was.
                unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
                limit = read()?;
            }
        }
        let is_limit = limit.rlim_cur != libc::RLIM_INFINITY;
        is_limit.then(|| usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
    }
    #[cfg(not(unix))]
    None
}

#[cfg(unix)]
fn read() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: fills what it is given.
    let told = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    told.then_some(limit)
}
