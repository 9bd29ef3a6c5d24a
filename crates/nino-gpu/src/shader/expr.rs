//! Integer expressions of the shader preprocessor: `+ - * / %`, comparisons, `! && ||`, brackets.

use super::Vars;

pub(super) fn eval(text: &str, vars: &Vars) -> Result<i64, String> {
    let mut parser = Parser {
        text: text.as_bytes(),
        at: 0,
        vars,
    };
    let value = parser.binary(0)?;
    parser.skip_space();
    if parser.at < parser.text.len() {
        return Err(format!("cannot read expression {text:?} at {}", parser.at));
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    vars: &'a Vars,
}

/// Lowest binding first; longer operators before their prefixes.
const LEVELS: [&[&str]; 5] = [
    &["||"],
    &["&&"],
    &["==", "!=", "<=", ">=", "<", ">"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Parser<'_> {
    fn skip_space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn operator(&mut self, level: usize) -> Option<&'static str> {
        self.skip_space();
        let rest = &self.text[self.at..];
        let op = LEVELS[level]
            .iter()
            .find(|op| rest.starts_with(op.as_bytes()))?;
        self.at += op.len();
        Some(op)
    }

    fn binary(&mut self, level: usize) -> Result<i64, String> {
        if level == LEVELS.len() {
            return self.atom();
        }
        let mut a = self.binary(level + 1)?;
        while let Some(op) = self.operator(level) {
            let b = self.binary(level + 1)?;
            a = match op {
                "||" => i64::from(a != 0 || b != 0),
                "&&" => i64::from(a != 0 && b != 0),
                "==" => i64::from(a == b),
                "!=" => i64::from(a != b),
                "<=" => i64::from(a <= b),
                ">=" => i64::from(a >= b),
                "<" => i64::from(a < b),
                ">" => i64::from(a > b),
                "+" => a + b,
                "-" => a - b,
                "*" => a * b,
                "/" => a.checked_div(b).ok_or("division by zero")?,
                _ => a.checked_rem(b).ok_or("remainder by zero")?,
            };
        }
        Ok(a)
    }

    fn atom(&mut self) -> Result<i64, String> {
        self.skip_space();
        let start = self.at;
        match self.text.get(self.at) {
            Some(b'!') => {
                self.at += 1;
                Ok(i64::from(self.atom()? == 0))
            }
            Some(b'(') => {
                self.at += 1;
                let value = self.binary(0)?;
                self.skip_space();
                if self.text.get(self.at) != Some(&b')') {
                    return Err("missing )".to_owned());
                }
                self.at += 1;
                Ok(value)
            }
            Some(c) if c.is_ascii_alphanumeric() || *c == b'_' => {
                while self
                    .text
                    .get(self.at)
                    .is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_')
                {
                    self.at += 1;
                }
                let word = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
                if word.as_bytes()[0].is_ascii_digit() {
                    return word.parse().map_err(|_| format!("bad number {word}"));
                }
                Ok(self.vars.get(&word).copied().unwrap_or(0))
            }
            _ => Err(format!("value expected at {start}")),
        }
    }
}
