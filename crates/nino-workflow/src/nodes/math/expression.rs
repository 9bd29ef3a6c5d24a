//! Formulas as ComfyUI's `ComfyMathExpression` takes them: Python's operators and a few functions
//! over numbers. Whole numbers stay whole, and what does not fit is an error.

use std::iter::Peekable;
use std::vec::IntoIter;

/// How deep a formula may be nested. Each level takes a few calls.
const DEEPEST: usize = 50;
/// The largest power that is raised to.
const MAX_EXPONENT: f64 = 4000.0;
/// The functions that there are.
const FUNCTIONS: [&str; 17] = [
    "sum", "min", "max", "abs", "round", "pow", "sqrt", "ceil", "floor", "log", "log2", "log10",
    "sin", "cos", "tan", "int", "float",
];

/// A number, as Python tells them apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
    Bool(bool),
}

use Number::{Bool, Float, Int};

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

    fn whole(self) -> Option<i128> {
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

/// The value of a formula, where names stand for these numbers. `values` is the list of them.
pub(super) fn value(formula: &str, names: &[(&str, Number)]) -> Result<Number, String> {
    let tokens = tokens(formula)?;
    let mut reader = Reader {
        tokens: tokens.into_iter().peekable(),
        names,
        depth: 0,
    };
    let value = reader.choice()?;
    match reader.tokens.next() {
        None => number(value),
        Some(token) => Err(format!("{} is not expected there", token.text())),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(Number),
    Word(String),
    Sign(&'static str),
}

impl Token {
    fn text(&self) -> String {
        match self {
            Token::Number(Int(n)) => n.to_string(),
            Token::Number(n) => n.float().to_string(),
            Token::Word(word) => word.clone(),
            Token::Sign(sign) => (*sign).to_owned(),
        }
    }
}

/// Signs, those of two characters before those they begin with.
const SIGNS: [&str; 22] = [
    "**", "//", "<<", ">>", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "(", ")", "[", "]",
    ",", "<", ">", "&", "|",
];

fn tokens(formula: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = formula.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_digit() || first == '.' {
            let length = number_length(rest);
            tokens.push(Token::Number(read_number(&rest[..length])?));
            length
        } else if first.is_ascii_alphabetic() || first == '_' {
            let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let length = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..length].to_owned()));
            length
        } else if first == '^' {
            tokens.push(Token::Sign("^"));
            1
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let sign = sign.ok_or_else(|| format!("{first:?} is no part of a formula"))?;
            tokens.push(Token::Sign(sign));
            sign.len()
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

/// Bytes of the number that a text begins with.
fn number_length(text: &str) -> usize {
    let mut last = ' ';
    let is_part = |c: char| {
        let signed = matches!(c, '+' | '-') && matches!(last, 'e' | 'E');
        last = c;
        signed || c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '_')
    };
    let mut is_part = is_part;
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

fn read_number(text: &str) -> Result<Number, String> {
    let plain = text.replace('_', "");
    let whole = plain.parse().map(Int);
    let number = whole.or_else(|_| plain.parse().map(Float));
    number.map_err(|_| format!("{text} is no number"))
}

/// A number, a list of them, or why there is none: a part that is not chosen may be wrong.
enum Value {
    One(Number),
    Many(Vec<Number>),
    Wrong(String),
}

fn number(value: Value) -> Result<Number, String> {
    match value {
        Value::One(number) => Ok(number),
        Value::Many(_) => Err("values is a list, where a number is wanted".to_owned()),
        Value::Wrong(why) => Err(why),
    }
}

impl From<Result<Number, String>> for Value {
    fn from(found: Result<Number, String>) -> Value {
        found.map_or_else(Value::Wrong, Value::One)
    }
}

/// What a rule makes of two numbers.
fn joined(
    left: Value,
    right: Value,
    rule: impl FnOnce(Number, Number) -> Result<Number, String>,
) -> Value {
    let both = number(left).and_then(|left| Ok((left, number(right)?)));
    Value::from(both.and_then(|(left, right)| rule(left, right)))
}

struct Reader<'a> {
    tokens: Peekable<IntoIter<Token>>,
    names: &'a [(&'a str, Number)],
    depth: usize,
}

/// Operators that bind alike, the loosest first.
const LEVELS: [&[&str]; 6] = [
    &["|"],
    &["^"],
    &["&"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "//", "%"],
];
const COMPARISONS: [&str; 6] = ["==", "!=", "<", ">", "<=", ">="];

impl Reader<'_> {
    fn sign(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        match self.tokens.peek() {
            Some(Token::Sign(sign)) if signs.contains(sign) => {
                let sign = *sign;
                self.tokens.next();
                Some(sign)
            }
            _ => None,
        }
    }

    fn word(&mut self, word: &str) -> bool {
        let found = matches!(self.tokens.peek(), Some(Token::Word(w)) if w == word);
        if found {
            self.tokens.next();
        }
        found
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), String> {
        match self.sign(&[sign]) {
            Some(_) => Ok(()),
            None => Err(format!("a {sign} is missing")),
        }
    }

    /// `a if b else c`, or anything that binds closer.
    fn choice(&mut self) -> Result<Value, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("it is nested more than {DEEPEST} deep"));
        }
        let value = self.either()?;
        let value = if self.word("if") {
            let condition = number(self.either()?);
            if !self.word("else") {
                return Err("an else is missing".to_owned());
            }
            let other = self.choice()?;
            match condition {
                Ok(condition) if condition.truth() => value,
                Ok(_) => other,
                Err(why) => Value::Wrong(why),
            }
        } else {
            value
        };
        self.depth -= 1;
        Ok(value)
    }

    fn either(&mut self) -> Result<Value, String> {
        let mut value = self.both()?;
        while self.word("or") {
            let right = self.both()?;
            value = match value {
                Value::One(left) if !left.truth() => right,
                left => left,
            };
        }
        Ok(value)
    }

    fn both(&mut self) -> Result<Value, String> {
        let mut value = self.not()?;
        while self.word("and") {
            let right = self.not()?;
            value = match value {
                Value::One(left) if left.truth() => right,
                left => left,
            };
        }
        Ok(value)
    }

    fn not(&mut self) -> Result<Value, String> {
        let mut turns = 0;
        while self.word("not") {
            turns += 1;
        }
        let value = self.compared()?;
        if turns == 0 {
            return Ok(value);
        }
        let turned = |n: Number| Bool(n.truth() == (turns % 2 == 0));
        Ok(Value::from(number(value).map(turned)))
    }

    /// `a < b <= c` holds where both parts do.
    fn compared(&mut self) -> Result<Value, String> {
        let mut value = self.level(0)?;
        let mut left = match &value {
            Value::One(left) => Some(*left),
            _ => None,
        };
        let mut holds = true;
        while let Some(sign) = self.sign(&COMPARISONS) {
            let right = number(self.level(0)?);
            value = match (left, right) {
                (Some(a), Ok(b)) => {
                    holds &= compare(sign, a, b);
                    left = Some(b);
                    Value::One(Bool(holds))
                }
                (_, Err(why)) => Value::Wrong(why),
                (None, _) => Value::from(number(value)),
            };
        }
        Ok(value)
    }

    fn level(&mut self, level: usize) -> Result<Value, String> {
        let Some(signs) = LEVELS.get(level) else {
            return self.signed();
        };
        let mut value = self.level(level + 1)?;
        while let Some(sign) = self.sign(signs) {
            let right = self.level(level + 1)?;
            value = joined(value, right, |left, right| calculate(sign, left, right));
        }
        Ok(value)
    }

    /// `-a ** b` is `-(a ** b)`.
    fn signed(&mut self) -> Result<Value, String> {
        let mut negative = false;
        let mut is_signed = false;
        while let Some(sign) = self.sign(&["-", "+"]) {
            negative ^= sign == "-";
            is_signed = true;
        }
        let value = self.power()?;
        if !is_signed {
            return Ok(value);
        }
        let signed = |n: Number| match (negative, n) {
            (true, Float(n)) => Ok(Float(-n)),
            (true, n) => {
                let turned = n.whole().and_then(i128::checked_neg);
                turned.map(Int).ok_or_else(too_large)
            }
            (false, Bool(b)) => Ok(Int(i128::from(b))),
            (false, n) => Ok(n),
        };
        Ok(Value::from(number(value).and_then(signed)))
    }

    fn power(&mut self) -> Result<Value, String> {
        let base = self.atom()?;
        if self.sign(&["**"]).is_none() {
            return Ok(base);
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("it is nested more than {DEEPEST} deep"));
        }
        let exponent = self.signed()?;
        self.depth -= 1;
        Ok(joined(base, exponent, raise))
    }

    fn atom(&mut self) -> Result<Value, String> {
        match self.tokens.next() {
            Some(Token::Number(number)) => Ok(Value::One(number)),
            Some(Token::Sign("(")) => {
                let value = self.choice()?;
                self.expect(")")?;
                Ok(value)
            }
            Some(Token::Word(word)) => self.named(&word),
            Some(token) => Err(format!("{} is not expected there", token.text())),
            None => Err("it ends too early".to_owned()),
        }
    }

    fn named(&mut self, word: &str) -> Result<Value, String> {
        if FUNCTIONS.contains(&word) && self.sign(&["("]).is_some() {
            let mut given = Vec::new();
            let mut wrong = None;
            while self.sign(&[")"]).is_none() {
                match self.choice()? {
                    Value::One(number) => given.push(number),
                    Value::Many(numbers) => given.extend(numbers),
                    Value::Wrong(why) => wrong = Some(why),
                }
                if self.sign(&[","]).is_none() {
                    self.expect(")")?;
                    break;
                }
            }
            let made = wrong.map_or_else(|| call(word, &given), Err);
            return Ok(Value::from(made));
        }
        if word == "values" {
            let all: Vec<Number> = self.names.iter().map(|(_, number)| *number).collect();
            if self.sign(&["["]).is_none() {
                return Ok(Value::Many(all));
            }
            let place = number(self.choice()?).and_then(Number::int);
            self.expect("]")?;
            let found = place.and_then(|place| {
                let from_end = if place < 0 { all.len() as i128 } else { 0 };
                let place = usize::try_from(place.saturating_add(from_end)).ok();
                let found = place.and_then(|place| all.get(place)).copied();
                found.ok_or_else(|| format!("there are {} values", all.len()))
            });
            return Ok(Value::from(found));
        }
        let known = self.names.iter().find(|(name, _)| *name == word);
        match (known, word) {
            (Some((_, number)), _) => Ok(Value::One(*number)),
            (None, "True") => Ok(Value::One(Bool(true))),
            (None, "False") => Ok(Value::One(Bool(false))),
            _ => Ok(Value::Wrong(format!("{word} is not known"))),
        }
    }
}

fn too_large() -> String {
    "a number is too large".to_owned()
}

fn whole(n: f64) -> Result<i128, String> {
    if n.is_finite() && n.abs() < 1e37 {
        return Ok(n as i128);
    }
    Err(too_large())
}

fn compare(sign: &str, left: Number, right: Number) -> bool {
    let (a, b) = (left.float(), right.float());
    match sign {
        "==" => a == b,
        "!=" => a != b,
        "<" => a < b,
        ">" => a > b,
        "<=" => a <= b,
        _ => a >= b,
    }
}

fn calculate(sign: &str, left: Number, right: Number) -> Result<Number, String> {
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

fn raise(base: Number, exponent: Number) -> Result<Number, String> {
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

fn call(function: &str, given: &[Number]) -> Result<Number, String> {
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
