//! How long a process could have run but had no core, because others had them all. On a busy
//! machine that is not the reader's time.

use std::time::Duration;

/// The time since its start that a process's main thread, or `thread-self`, waited for a core. Zero
/// where the system does not tell: then all waiting counts as running.
pub(crate) fn for_a_core(process: &str) -> Duration {
    let path = format!("/proc/{process}/schedstat");
    std::fs::read_to_string(path)
        .ok()
        .and_then(|text| waited(&text))
        .unwrap_or_default()
}

/// The second number of the scheduler's statistics, in nanoseconds.
fn waited(schedstat: &str) -> Option<Duration> {
    let nanoseconds = schedstat.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_the_wait() {
        let expected = Some(Duration::from_nanos(1_086_418_707));
        assert_eq!(waited("983439591 1086418707 249\n"), expected);
        assert_eq!(waited("983439591"), None);
    }

    #[test]
    fn a_process_that_is_not_there_waits_for_nothing() {
        assert_eq!(for_a_core("0"), Duration::ZERO);
    }
}
