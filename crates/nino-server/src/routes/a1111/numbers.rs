//! Numbers in requests as A1111 reads them: whole ones and others, and texts of them, since forms
//! have nothing else.

use super::unprocessable;
use crate::error::Refused;
use serde_json::Value;

/// A number; `None` where it is not given.
pub(super) fn float(body: &Value, key: &str) -> Result<Option<f64>, Refused> {
    let number = match &body[key] {
        Value::Null => return Ok(None),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(is) => Some(f64::from(u8::from(*is))),
        value => value.as_f64(),
    };
    let number = number.filter(|number: &f64| number.is_finite());
    number.map(Some).ok_or_else(|| {
        let found = &body[key];
        unprocessable(format!("{key} is a number, not {found}"))
    })
}

/// A number of something; `None` where it is 0 or not given.
pub(super) fn count(body: &Value, key: &str) -> Result<Option<usize>, Refused> {
    match float(body, key)? {
        Some(number) if number < 0.0 || number.fract() != 0.0 => Err(unprocessable(format!(
            "{key} is a whole number from 1 on, not {number}"
        ))),
        number => Ok(number.map(|number| number as usize).filter(|n| *n > 0)),
    }
}

/// How many times something is enlarged; `None` where it is not given.
pub(super) fn scale(body: &Value, key: &str) -> Result<Option<f64>, Refused> {
    match float(body, key)? {
        Some(by) if !(0.1..=16.0).contains(&by) => {
            Err(unprocessable(format!("{key} is from 0.1 to 16, not {by}")))
        }
        by => Ok(by),
    }
}

/// A seed, which may have more digits than a float; `None` where a new one is to be taken: where it
/// is negative or not given.
pub(super) fn seed(body: &Value, key: &str) -> Result<Option<u64>, Refused> {
    let whole = match &body[key] {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_u64(),
    };
    if whole.is_some() {
        return Ok(whole);
    }
    match float(body, key)? {
        Some(seed) if seed >= 0.0 && (seed.fract() != 0.0 || seed > u64::MAX as f64) => Err(
            unprocessable(format!("{key} is a whole number, not {seed}")),
        ),
        seed => Ok(seed.filter(|seed| *seed >= 0.0).map(|seed| seed as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_read_in_every_form() {
        let body = json!({ "a": 64, "b": 64.0, "c": " 64 ", "d": 0, "e": null, "f": 6.5,
                           "g": -1, "h": "wide", "i": [1], "j": "inf" });
        let read = |key: &str| count(&body, key).ok();
        for key in ["a", "b", "c"] {
            assert_eq!(read(key), Some(Some(64)), "{key}");
        }
        for key in ["d", "e", "none"] {
            assert_eq!(read(key), Some(None), "{key}");
        }
        for key in ["f", "g", "h", "i", "j"] {
            assert_eq!(read(key), None, "{key}");
        }
        assert_eq!(float(&body, "f").ok(), Some(Some(6.5)));
        assert_eq!(float(&body, "g").ok(), Some(Some(-1.0)));
    }

    #[test]
    fn seeds_are_read_in_every_form() {
        let body = json!({ "a": 5, "b": 5.0, "c": "5", "d": -1, "e": "-1", "f": null,
                           "g": u64::MAX, "h": "18446744073709551615", "i": 5.5, "j": "x",
                           "k": [], "l": 1e300 });
        let read = |key: &str| seed(&body, key).ok();
        for key in ["a", "b", "c"] {
            assert_eq!(read(key), Some(Some(5)), "{key}");
        }
        for key in ["d", "e", "f", "none"] {
            assert_eq!(read(key), Some(None), "{key}");
        }
        for key in ["g", "h"] {
            assert_eq!(read(key), Some(Some(u64::MAX)), "{key}");
        }
        for key in ["i", "j", "k", "l"] {
            assert_eq!(read(key), None, "{key}");
        }
        let body = json!({ "a": 1e30, "b": 0, "c": "2.5" });
        assert!(scale(&body, "a").is_err() && scale(&body, "b").is_err());
        assert_eq!(scale(&body, "c").ok(), Some(Some(2.5)));
    }
}
