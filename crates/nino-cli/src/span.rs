//! Spans of time as people say them.

use crate::plural::count;
use std::fmt;
use std::time::Duration;

/// Milliseconds, rounded to what an estimate is worth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span(pub(crate) f64);

impl Span {
    /// An estimate that may not have been possible.
    pub(crate) fn or_unknown(ms: Option<f64>) -> String {
        ms.map_or("unknown".to_owned(), |ms| Span(ms).to_string())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0;
        let seconds = (ms / 1e3).round() as u64;
        let (hours, minutes) = (seconds / 3600, seconds % 3600 / 60);
        match seconds {
            _ if ms < 100.0 => write!(f, "{ms:.1} ms"),
            _ if ms < 1e3 => write!(f, "{ms:.0} ms"),
            _ if ms < 120e3 => write!(f, "{:.1} s", ms / 1e3),
            0..3600 => write!(f, "{minutes} min {} s", seconds % 60),
            _ => write!(f, "{hours} h {minutes} min"),
        }
    }
}

/// How long ago something was: `5 minutes ago`, `2 days ago`.
pub(crate) fn ago(since: Duration) -> String {
    let minutes = since.as_secs() as usize / 60;
    let (n, unit) = match minutes {
        0 => return "just now".to_owned(),
        1..60 => (minutes, "minute"),
        60..1440 => (minutes / 60, "hour"),
        _ => (minutes / 1440, "day"),
    };
    format!("{} ago", count(n, unit))
}

#[cfg(test)]
mod tests {
    use super::{Span, ago};
    use std::time::Duration;

    #[test]
    fn times_ago_are_told_in_one_unit() {
        let text = |seconds| ago(Duration::from_secs(seconds));
        assert_eq!(text(59), "just now");
        assert_eq!(text(60), "1 minute ago");
        assert_eq!(text(7_300), "2 hours ago");
        assert_eq!(text(3 * 86_400), "3 days ago");
    }

    #[test]
    fn spans_read_as_people_say_them() {
        let cases = [
            (7.96, "8.0 ms"),
            (420.4, "420 ms"),
            (1_000.0, "1.0 s"),
            (119_940.0, "119.9 s"),
            (1_830_900.0, "30 min 31 s"),
            (3_599_700.0, "1 h 0 min"),
            (9_000_000.0, "2 h 30 min"),
        ];
        for (ms, text) in cases {
            assert_eq!(Span(ms).to_string(), text);
        }
    }
}
