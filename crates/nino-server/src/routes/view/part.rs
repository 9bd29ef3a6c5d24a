//! A part of a file, as a video's player asks for it: `Range: bytes=0-499`, `500-` or `-500`
//! (RFC 9110, section 14).

use axum::http::HeaderMap;
use axum::http::header::{IF_RANGE, RANGE};
use std::ops::Range;

/// What of a file is to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Bytes(Range<u64>),
    /// It begins behind the end of the file.
    Outside,
}

impl Part {
    /// Reads what is asked of a file of `length` bytes that has the tag `tag`. Several ranges, and
    /// whatever else is not understood, are the whole file.
    pub(crate) fn of(headers: &HeaderMap, length: u64, tag: &str) -> Part {
        // Part of a file that has changed is of no use beside the other parts.
        if headers.get(IF_RANGE).is_some_and(|known| known != tag) {
            return Part::Whole;
        }
        let asked = headers.get(RANGE).and_then(|asked| asked.to_str().ok());
        let bytes = asked.and_then(|asked| asked.strip_prefix("bytes="));
        let ends = bytes.and_then(|bytes| bytes.trim().split_once('-'));
        let number = |text: &str| text.parse::<u64>().ok();
        match ends {
            Some(("", last)) => match number(last) {
                Some(0) => Part::Outside,
                Some(last) if length > 0 => Part::Bytes(length.saturating_sub(last)..length),
                Some(_) => Part::Outside,
                None => Part::Whole,
            },
            Some((from, to)) => match (number(from), number(to)) {
                (Some(from), _) if from >= length => Part::Outside,
                (Some(from), None) if to.is_empty() => Part::Bytes(from..length),
                (Some(from), Some(to)) if to >= from => {
                    Part::Bytes(from..to.saturating_add(1).min(length))
                }
                _ => Part::Whole,
            },
            None => Part::Whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read() {
        let part = |text: &str, length| {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, text.parse().unwrap());
            Part::of(&headers, length, "\"t\"")
        };
        assert_eq!(Part::of(&HeaderMap::new(), 10, "\"t\""), Part::Whole);
        assert_eq!(part("bytes=0-", 10), Part::Bytes(0..10));
        assert_eq!(part("bytes=2-5", 10), Part::Bytes(2..6));
        assert_eq!(part("bytes=2-500", 10), Part::Bytes(2..10));
        assert_eq!(part("bytes=-3", 10), Part::Bytes(7..10));
        assert_eq!(part("bytes=-30", 10), Part::Bytes(0..10));
        assert_eq!(part("bytes=9-9", 10), Part::Bytes(9..10));
        for outside in ["bytes=10-", "bytes=10-12", "bytes=-0"] {
            assert_eq!(part(outside, 10), Part::Outside, "{outside}");
        }
        assert_eq!(part("bytes=0-", 0), Part::Outside);
        assert_eq!(part("bytes=-1", 0), Part::Outside);
        for strange in [
            "bytes=5-2",
            "bytes=a-b",
            "bytes=0-1,3-4",
            "lines=0-1",
            "bytes=-x",
        ] {
            assert_eq!(part(strange, 10), Part::Whole, "{strange}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, "bytes=2-5".parse().unwrap());
        headers.insert(IF_RANGE, "\"t\"".parse().unwrap());
        assert_eq!(Part::of(&headers, 10, "\"t\""), Part::Bytes(2..6));
        assert_eq!(Part::of(&headers, 10, "\"new\""), Part::Whole);
    }
}
