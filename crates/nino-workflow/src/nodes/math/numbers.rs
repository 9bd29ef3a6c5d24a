//! Numbers of formulas, with Python's rules for them.

use Number::{Bool, Float, Int};
use std::cmp::Ordering;

/// The largest power that is raised to.
const MAX_EXPONENT: f64 = 4000.0;

/// A number, as Python tells them apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
    Bool(bool),
}

impl Number {
    pub(super) fn float(self) -> f64 {
        match self {
            Int(n) => n as f64,
            Float(n) => n,
            Bool(b) => f64::from(u8::from(b)),
        }
    }

    pub(super) fn truth(self) -> bool {
        match self {
            Int(n) => n != 0,
            Float(n) => n != 0.0,
            Bool(b) => b,
        }
    }

    pub(super) fn whole(self) -> Option<i128> {
        match self {
            Int(n) => Some(n),
            Bool(b) => Some(i128::from(b)),
            Float(_) => None,
        }
    }

    /// What is left without the part behind the point.
    pub(super) fn int(self) -> Result<i128, String> {
        match self {
            Float(n) => whole(n.trunc()),
            n => Ok(n.whole().unwrap_or(0)),
        }
    }
}

pub(super) fn too_large() -> String {
    "a number is too large".to_owned()
}

fn whole(n: f64) -> Result<i128, String> {
    if n.is_finite() && n.abs() < 1e37 {
        return Ok(n as i128);
    }
    Err(too_large())
}

pub(super) fn compare(sign: &str, left: Number, right: Number) -> bool {
    let order = left.float().partial_cmp(&right.float());
    match sign {
        "==" => order == Some(Ordering::Equal),
        "!=" => order != Some(Ordering::Equal),
        "<" => order == Some(Ordering::Less),
        ">" => order == Some(Ordering::Greater),
        "<=" => order.is_some_and(Ordering::is_le),
        _ => order.is_some_and(Ordering::is_ge),
    }
}

pub(super) fn calculate(sign: &str, left: Number, right: Number) -> Result<Number, String> {
    let both = left.whole().zip(right.whole());
    let zero = || "something is divided by 0".to_owned();
    if matches!(sign, "/" | "//" | "%") && right.float() == 0.0 {
        return Err(zero());
    }
    let Some((a, b)) = both else {
        let (a, b) = (left.float(), right.float());
        let value = match sign {
            "+" => a + b,
            "-" => a - b,
            "*" => a * b,
            "/" => a / b,
            "//" => (a / b).floor(),
            "%" => a - b * (a / b).floor(),
            _ => return Err(format!("{sign} wants whole numbers")),
        };
        return Ok(Float(value));
    };
    let shift = || u32::try_from(b).ok().filter(|b| *b < 126);
    let value = match sign {
        "/" => return Ok(Float(a as f64 / b as f64)),
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "//" => Some(floor_div(a, b)),
        "%" => Some(a - b * floor_div(a, b)),
        "&" => Some(a & b),
        "|" => Some(a | b),
        "^" => Some(a ^ b),
        "<<" => shift().and_then(|b| a.checked_mul(1 << b)),
        _ => shift().map(|b| a >> b),
    };
    value.map(Int).ok_or_else(too_large)
}

/// Rounds down, as Python does.
fn floor_div(a: i128, b: i128) -> i128 {
    let (quotient, rest) = (a.wrapping_div(b), a.wrapping_rem(b));
    quotient - i128::from(rest != 0 && (rest < 0) != (b < 0))
}

pub(super) fn raise(base: Number, exponent: Number) -> Result<Number, String> {
    if exponent.float().abs() > MAX_EXPONENT {
        return Err(format!("{MAX_EXPONENT} is the largest power"));
    }
    if let (Some(base), Some(exponent)) = (base.whole(), exponent.whole())
        && let Ok(exponent) = u32::try_from(exponent)
    {
        return base.checked_pow(exponent).map(Int).ok_or_else(too_large);
    }
    let value = base.float().powf(exponent.float());
    if value.is_nan() {
        return Err("a power has no real value".to_owned());
    }
    Ok(Float(value))
}

pub(super) fn call(function: &str, given: &[Number]) -> Result<Number, String> {
    let wrong = || format!("{function} is not given so many numbers: {}", given.len());
    let first = *given.first().ok_or_else(wrong)?;
    if matches!(function, "sum" | "min" | "max") {
        let rest = given[1..].iter();
        return match function {
            "sum" => rest.copied().try_fold(first, |a, b| calculate("+", a, b)),
            "min" => Ok(rest.fold(first, |a, b| if compare("<", *b, a) { *b } else { a })),
            _ => Ok(rest.fold(first, |a, b| if compare(">", *b, a) { *b } else { a })),
        };
    }
    let n = first.float();
    let second = given.get(1).copied();
    match (function, second, given.len()) {
        ("pow", Some(exponent), 2) => raise(first, exponent),
        ("round", Some(digits), 2) => {
            let scale = 10f64.powi(digits.int()?.clamp(-300, 300) as i32);
            let rounded = (n * scale).round_ties_even() / scale;
            Ok(first
                .whole()
                .map_or(Float(rounded), |_| Int(rounded as i128)))
        }
        ("log", Some(base), 2) => {
            logarithm(n).and_then(|n| Ok(Float(n / logarithm(base.float())?)))
        }
        ("abs", None, _) => match first {
            Float(n) => Ok(Float(n.abs())),
            n => Ok(Int(n.whole().unwrap_or(0).saturating_abs())),
        },
        ("round", None, _) => whole(n.round_ties_even()).map(Int),
        ("ceil", None, _) => whole(n.ceil()).map(Int),
        ("floor", None, _) => whole(n.floor()).map(Int),
        ("int", None, _) => first.int().map(Int),
        ("float", None, _) => Ok(Float(n)),
        ("sqrt", None, _) if n >= 0.0 => Ok(Float(n.sqrt())),
        ("sqrt", None, _) => Err("a root of a negative number is no number".to_owned()),
        ("log", None, _) => logarithm(n).map(Float),
        ("log2", None, _) => logarithm(n).map(|_| Float(n.log2())),
        ("log10", None, _) => logarithm(n).map(|_| Float(n.log10())),
        ("sin", None, _) => Ok(Float(n.sin())),
        ("cos", None, _) => Ok(Float(n.cos())),
        ("tan", None, _) => Ok(Float(n.tan())),
        _ => Err(wrong()),
    }
}

fn logarithm(n: f64) -> Result<f64, String> {
    if n > 0.0 {
        return Ok(n.ln());
    }
    Err("a logarithm of what is not above 0 is no number".to_owned())
}
