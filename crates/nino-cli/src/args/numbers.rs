//! Numbers on the command line, with a sentence where one is wrong.

use std::ops::RangeInclusive;

/// A whole number within a range.
pub(crate) fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.trim().parse().ok().filter(|n| range.contains(n));
        let number = number.and_then(|n: u64| T::try_from(n).ok());
        number.ok_or_else(|| {
            let (from, to) = (range.start(), range.end());
            format!("a whole number from {from} to {to} is wanted")
        })
    }
}

/// A number within a range.
pub(crate) fn number(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        let number = text.trim().parse().ok().filter(|n| range.contains(n));
        number.ok_or_else(|| {
            let (from, to) = (range.start(), range.end());
            format!("a number from {from} to {to} is wanted")
        })
    }
}

/// A seed; `None` is -1, which other programs take for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeedArg(pub(crate) Option<u64>);

pub(crate) fn seed(text: &str) -> Result<SeedArg, String> {
    if text.trim() == "-1" {
        return Ok(SeedArg(None));
    }
    let number = text.trim().parse();
    number.map(|n| SeedArg(Some(n))).map_err(|_| {
        format!(
            "a whole number from 0 to {} is wanted, or -1 for a random one",
            u64::MAX
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{SeedArg, number, seed, whole};

    #[test]
    fn numbers_are_read_or_refused_in_a_sentence() {
        let steps = whole::<u16>(1..=100);
        assert_eq!(steps("7"), Ok(7));
        for wrong in ["0", "101", "4.5", "-1", "x", ""] {
            let told = steps(wrong).unwrap_err();
            assert_eq!(told, "a whole number from 1 to 100 is wanted", "{wrong}");
        }
        assert_eq!(number(0.0..=1.0)("0.5"), Ok(0.5));
        for wrong in ["NaN", "2", "-0.1", "half"] {
            assert!(number(0.0..=1.0)(wrong).is_err(), "{wrong}");
        }
        assert_eq!(seed("-1"), Ok(SeedArg(None)));
        assert_eq!(seed("7"), Ok(SeedArg(Some(7))));
        assert!(seed("-2").is_err() && seed("1.5").is_err());
    }
}
