//! Patterns of Python's `re` in the matcher's words, which has other rules for braces, ends of
//! texts, classes, names and white space.

use super::Flags;
use std::collections::HashMap;
use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

/// The groups of a pattern.
#[derive(Default)]
pub(super) struct Names {
    pub(super) groups: usize,
    named: HashMap<String, usize>,
}

impl Names {
    /// A group by its name or number.
    fn find(&self, name: &str) -> Result<usize, String> {
        let number = name.parse().ok().filter(|n| *n <= self.groups);
        let found = number.or_else(|| self.named.get(name).copied());
        found.ok_or_else(|| format!("it has no group {name}"))
    }
}

/// What holds within a group.
#[derive(Clone, Copy)]
struct Scope {
    flags: Flags,
    /// White space and remarks are left out.
    verbose: bool,
}

struct Translator<'p> {
    rest: Peekable<Chars<'p>>,
    made: String,
    names: Names,
    scope: Scope,
    /// The scopes around this one.
    around: Vec<Scope>,
}

type Wrong<T> = Result<T, String>;

/// The pattern, and its groups.
pub(super) fn translated(pattern: &str, flags: Flags) -> Wrong<(String, Names)> {
    let scope = Scope {
        flags,
        verbose: false,
    };
    let mut translator = Translator {
        rest: pattern.chars().peekable(),
        made: String::new(),
        names: Names::default(),
        scope,
        around: Vec::new(),
    };
    translator.all()?;
    let scope = translator.scope;
    let on = |flag: bool, letter: &'static str| if flag { letter } else { "" };
    let case = on(scope.flags.any_case, "i");
    let dot = on(scope.flags.dot_all, "s");
    let made = match format!("{case}{dot}") {
        letters if letters.is_empty() => translator.made,
        letters => format!("(?{letters}:{})", translator.made),
    };
    Ok((made, translator.names))
}

impl Translator<'_> {
    fn all(&mut self) -> Wrong<()> {
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                ')' => {
                    self.scope = self.around.pop().ok_or("a ) closes nothing")?;
                    self.made.push(')');
                }
                '{' => self.braces()?,
                '^' if self.scope.flags.lines => self.made.push_str("(?m:^)"),
                '^' => self.made.push_str("\\A"),
                '$' if self.scope.flags.lines => self.made.push_str("(?m:$)"),
                // Before the end of the last line, too.
                '$' => self.made.push_str("(?=\\n?\\z)"),
                '.' | '*' | '+' | '?' | '|' => self.made.push(c),
                '#' if self.scope.verbose => while self.rest.next().is_some_and(|c| c != '\n') {},
                c if self.scope.verbose && c.is_ascii_whitespace() => {}
                c => self.literal(c),
            }
        }
        if self.around.is_empty() {
            Ok(())
        } else {
            Err("a ( is not closed".to_owned())
        }
    }

    /// A character that means itself.
    fn literal(&mut self, c: char) {
        if c.is_ascii_alphanumeric() || !c.is_ascii() {
            self.made.push(c);
        } else {
            self.code(c);
        }
    }

    /// A character by its number.
    fn code(&mut self, c: char) {
        let _ = write!(self.made, "\\x{{{:x}}}", c as u32); // to memory, which does not fail
    }

    /// What a group found, again.
    fn refer(&mut self, group: usize) {
        let _ = write!(self.made, "(?:\\{group})");
    }

    fn next(&mut self) -> Wrong<char> {
        self.rest
            .next()
            .ok_or_else(|| "it ends too early".to_owned())
    }

    /// What comes before `end`.
    fn until(&mut self, end: char) -> Wrong<String> {
        let mut text = String::new();
        loop {
            match self.next()? {
                c if c == end => return Ok(text),
                c => text.push(c),
            }
        }
    }

    /// A number of repeats, or braces that mean themselves.
    fn braces(&mut self) -> Wrong<()> {
        let ahead: String = self.rest.clone().take_while(|c| *c != '}').collect();
        let closes = self.rest.clone().nth(ahead.chars().count()) == Some('}');
        let (least, most) = ahead.split_once(',').unwrap_or((&ahead, &ahead));
        let is_number = |n: &str| n.chars().all(|c| c.is_ascii_digit());
        if !closes || ahead.is_empty() || !is_number(least) || !is_number(most) {
            self.literal('{');
            return Ok(());
        }
        self.until('}')?;
        let least = if least.is_empty() { "0" } else { least };
        let repeats = if ahead.contains(',') {
            format!("{{{least},{most}}}")
        } else {
            format!("{{{least}}}")
        };
        self.made.push_str(&repeats);
        Ok(())
    }

    fn escape(&mut self) -> Wrong<()> {
        match self.next()? {
            'A' => self.made.push_str("\\A"),
            'Z' => self.made.push_str("\\z"),
            c @ ('b' | 'B' | 'd' | 'D' | 'w' | 'W') => self.made.extend(['\\', c]),
            c @ ('s' | 'S') => self.made.push_str(spaces(c)),
            c @ '1'..='9' => {
                let octal = c.to_digit(8).and_then(|first| self.octal(first));
                if let Some(c) = octal {
                    self.literal(c);
                    return Ok(());
                }
                let mut number = String::from(c);
                number.extend(self.rest.next_if(char::is_ascii_digit));
                let group = self.names.find(&number)?;
                self.refer(group);
            }
            c => {
                let c = self.escaped(c)?;
                self.literal(c);
            }
        }
        Ok(())
    }

    /// The character that an escape means, in a class and outside.
    fn escaped(&mut self, c: char) -> Wrong<char> {
        Ok(match c {
            'a' => '\x07',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'x' => self.coded(2)?,
            'u' => self.coded(4)?,
            'U' => self.coded(8)?,
            '0' => {
                let mut code = 0;
                for _ in 0..2 {
                    let digit = self.rest.next_if(|c| c.is_digit(8));
                    code = digit
                        .and_then(|c| c.to_digit(8))
                        .map_or(code, |d| code * 8 + d);
                }
                char::from_u32(code).unwrap_or('\0')
            }
            c if c.is_ascii_alphanumeric() => return Err(format!("\\{c} means nothing")),
            c => c,
        })
    }

    /// A character by three octal digits, of which one is read; a group's number has two at most.
    fn octal(&mut self, first: u32) -> Option<char> {
        let mut ahead = self.rest.clone();
        let mut digit = || ahead.next()?.to_digit(8);
        let code = first * 64 + digit()? * 8 + digit()?;
        self.rest.nth(1);
        char::from_u32(code)
    }

    /// A character by its number in so many digits.
    fn coded(&mut self, digits: usize) -> Wrong<char> {
        let mut code = 0u32;
        for _ in 0..digits {
            let digit = self.next()?.to_digit(16).ok_or("a number is too short")?;
            code = code.saturating_mul(16).saturating_add(digit);
        }
        char::from_u32(code).ok_or_else(|| format!("there is no character {code:x}"))
    }

    fn class(&mut self) -> Wrong<()> {
        self.made.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.made.push('^');
        }
        let mut first = true;
        loop {
            match self.next()? {
                ']' if !first => break,
                c => self.class_part(c)?,
            }
            first = false;
        }
        self.made.push(']');
        Ok(())
    }

    /// A character of a class, a range of them, or a class in it.
    fn class_part(&mut self, c: char) -> Wrong<()> {
        let Some(low) = self.class_char(c)? else {
            return Ok(());
        };
        let mut ahead = self.rest.clone();
        let is_range = ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']');
        self.code(low);
        if !is_range {
            return Ok(());
        }
        self.next()?;
        let c = self.next()?;
        let high = self.class_char(c)?.filter(|high| *high >= low);
        let high = high.ok_or("a range of a class has no order")?;
        self.made.push('-');
        self.code(high);
        Ok(())
    }

    /// The character that is meant; `None` where a class was written.
    fn class_char(&mut self, c: char) -> Wrong<Option<char>> {
        if c != '\\' {
            return Ok(Some(c));
        }
        match self.next()? {
            c @ ('d' | 'D' | 'w' | 'W') => self.made.extend(['\\', c]),
            c @ ('s' | 'S') => self.made.push_str(spaces(c)),
            'b' => return Ok(Some('\x08')),
            c => return self.escaped(c).map(Some),
        }
        Ok(None)
    }

    fn group(&mut self) -> Wrong<()> {
        if self.rest.next_if_eq(&'?').is_none() {
            self.names.groups += 1;
            self.open("(", self.scope);
            return Ok(());
        }
        let mut begin = String::from("(?");
        match self.next()? {
            '#' => return self.until(')').map(drop),
            'P' => match self.next()? {
                '<' => {
                    let name = self.until('>')?;
                    self.names.groups += 1;
                    let known = self.names.named.insert(name.clone(), self.names.groups);
                    if known.is_some() {
                        return Err(format!("the group {name} is there twice"));
                    }
                    begin = String::from("(");
                }
                '=' => {
                    let name = self.until(')')?;
                    let group = self.names.find(&name)?;
                    self.refer(group);
                    return Ok(());
                }
                c => return Err(format!("(?P{c} begins no group")),
            },
            '(' => {
                let name = self.until(')')?;
                begin = format!("(?({})", self.names.find(&name)?);
            }
            '<' => match self.next()? {
                c @ ('=' | '!') => begin.extend(['<', c]),
                c => return Err(format!("(?<{c} begins no group")),
            },
            c @ (':' | '=' | '!' | '>') => begin.push(c),
            c => return self.flags(c),
        }
        self.open(&begin, self.scope);
        Ok(())
    }

    fn open(&mut self, begin: &str, scope: Scope) {
        self.made.push_str(begin);
        self.around.push(self.scope);
        self.scope = scope;
    }

    /// `(?im)` at the beginning, or `(?im-s:` of a group.
    fn flags(&mut self, first: char) -> Wrong<()> {
        let at_start = self.made.is_empty() && self.around.is_empty();
        let mut scope = self.scope;
        let (mut on, mut c) = (true, first);
        loop {
            match c {
                'i' => scope.flags.any_case = on,
                'm' => scope.flags.lines = on,
                's' => scope.flags.dot_all = on,
                'x' => scope.verbose = on,
                'u' if on => {}
                '-' if on => on = false,
                ')' if at_start && on => {
                    self.scope = scope;
                    return Ok(());
                }
                ')' => return Err("flags of the whole are not at its beginning".to_owned()),
                ':' => {
                    let begin = match (scope.flags.any_case, scope.flags.dot_all) {
                        (true, true) => "(?is:",
                        (true, false) => "(?i-s:",
                        (false, true) => "(?s-i:",
                        (false, false) => "(?-is:",
                    };
                    self.open(begin, scope);
                    return Ok(());
                }
                c => return Err(format!("{c} is no flag")),
            }
            c = self.next()?;
        }
    }
}

/// White space is more to Python than to the matcher.
fn spaces(c: char) -> &'static str {
    match c {
        's' => "[\\s\\x{1c}-\\x{1f}]",
        _ => "[^\\s\\x{1c}-\\x{1f}]",
    }
}

/// What stands in the place of a match: literals, each with the group that follows it.
pub(super) fn template(with: &str, names: &Names) -> Wrong<Vec<(String, Option<usize>)>> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = with.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\\' {
            literal.push(c);
            continue;
        }
        let group = match rest.next().ok_or("what replaces it ends with \\")? {
            'g' => {
                let name: String = rest.by_ref().take_while(|c| *c != '>').collect();
                let name = name.strip_prefix('<').ok_or("\\g has no name in < and >")?;
                names.find(name)?
            }
            c @ '1'..='9' => {
                let mut number = String::from(c);
                number.extend(rest.next_if(char::is_ascii_digit));
                names.find(&number)?
            }
            c => {
                match c {
                    '0' => literal.push('\0'),
                    'a' => literal.push('\x07'),
                    'b' => literal.push('\x08'),
                    'f' => literal.push('\x0c'),
                    'n' => literal.push('\n'),
                    'r' => literal.push('\r'),
                    't' => literal.push('\t'),
                    'v' => literal.push('\x0b'),
                    '\\' => literal.push('\\'),
                    c if c.is_ascii_alphabetic() => return Err(format!("\\{c} means nothing")),
                    // What is no escape stays as it is.
                    c => literal.extend(['\\', c]),
                }
                continue;
            }
        };
        parts.push((std::mem::take(&mut literal), Some(group)));
    }
    parts.push((literal, None));
    Ok(parts)
}
