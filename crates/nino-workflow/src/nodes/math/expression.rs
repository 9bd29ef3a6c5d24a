//! Formulas as ComfyUI's `ComfyMathExpression` takes them: Python's operators and a few functions
//! over numbers. Whole numbers stay whole, and what does not fit is an error.

use super::numbers::Number::{self, Bool, Float, Int};
use super::numbers::{calculate, call, compare, raise, too_large};
use std::iter::Peekable;
use std::vec::IntoIter;

/// How deep a formula may be nested. Each level takes a few calls.
const DEEPEST: usize = 50;
/// The functions that there are.
const FUNCTIONS: [&str; 17] = [
    "sum", "min", "max", "abs", "round", "pow", "sqrt", "ceil", "floor", "log", "log2", "log10",
    "sin", "cos", "tan", "int", "float",
];

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
