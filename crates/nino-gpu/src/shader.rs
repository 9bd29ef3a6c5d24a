//! Assembles WGSL from the files under `shaders/`.
//!
//! Directives, one per line, first thing on it:
//! - `#include NAME` inserts `shaders/NAME.wgsl`.
//! - `#if EXPR`, `#elif EXPR`, `#else`, `#endif` keep or drop lines.
//! - `#for I A B` .. `#endfor` repeats lines with `I` = A, A+1, .. B-1 (unrolled text: arrays of
//!   cooperative matrices do not exist, numbered variables do).
//! - `#define NAME EXPR` names a value from there on.
//! - `#bind NAME DTYPE` declares the next storage binding, an `array<vec4<u32>>`, and its typed
//!   accessors (`access.wgsl`) for storage type number `DTYPE`. Every binding is `read_write`:
//!   wgpu refuses a dispatch that binds one buffer both ways, and the arena is one buffer.
//! - `#bind2 NAME DTYPE` declares it as an array of single words, read two values at a time
//!   (`access_two.wgsl`): their addresses take the fewest instructions.
//! - `#bind8 NAME` declares it as an array of eight f16 (`mat2x4<f16>`), `#bind4 NAME` of four.
//! - `#params` declares `p`, the dispatch parameters of struct `P`.
//!
//! `${EXPR}` inside any other line is replaced by its value. Expressions are integers over the
//! kernel's constants; a name never defined is 0, so a flag need not be mentioned to be off.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::GpuError;

mod expr;

/// Name and text of every file under `shaders/`, listed by the build script.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/shaders.rs"));

/// A kernel: the file it starts from and the constants that specialize it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelKey {
    pub file: &'static str,
    pub consts: BTreeMap<&'static str, i64>,
}

impl KernelKey {
    pub fn new(file: &'static str) -> KernelKey {
        KernelKey {
            file,
            consts: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<i64>) -> KernelKey {
        self.consts.insert(name, value.into());
        self
    }

    /// Short text for logs and profiles: the file and its non-zero constants.
    pub fn label(&self) -> String {
        let mut s = self.file.to_owned();
        for (name, value) in self.consts.iter().filter(|(_, v)| **v != 0) {
            // Writing to a string cannot fail.
            let _ = write!(s, " {name}={value}");
        }
        s
    }
}

/// Assembled text and how many storage bindings it declares.
#[derive(Clone, Debug)]
pub(crate) struct Assembled {
    pub(crate) text: String,
    pub(crate) n_bindings: u32,
}

/// Expands a kernel's file under its constants.
pub(crate) fn assemble(key: &KernelKey, immediates: bool) -> Result<Assembled, GpuError> {
    let fail = |reason: String| GpuError::Kernel {
        kernel: key.label(),
        reason,
    };
    let vars: Vars = key
        .consts
        .iter()
        .map(|(k, v)| ((*k).to_owned(), *v))
        .collect();
    let mut out = Expansion {
        text: String::new(),
        n_bindings: 0,
        immediates,
    };
    let lines = lines_of(key.file).map_err(&fail)?;
    out.expand(&lines, &mut vars.clone()).map_err(&fail)?;
    Ok(Assembled {
        text: out.text,
        n_bindings: out.n_bindings,
    })
}

type Vars = BTreeMap<String, i64>;

struct Expansion {
    text: String,
    n_bindings: u32,
    immediates: bool,
}

fn lines_of(name: &str) -> Result<Vec<&'static str>, String> {
    let file = FILES.iter().find(|(n, _)| *n == name);
    file.map(|(_, text)| text.lines().collect())
        .ok_or_else(|| format!("no shader file {name}"))
}

impl Expansion {
    fn expand(&mut self, lines: &[&str], vars: &mut Vars) -> Result<(), String> {
        let mut i = 0;
        while i < lines.len() {
            let line = lines[i].trim_start();
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let rest = rest.trim();
            match word {
                "#include" => {
                    let included = lines_of(rest)?;
                    self.expand(&included, vars)?;
                }
                "#if" => {
                    let (arms, end) = branches(lines, i)?;
                    for (cond, from, to) in arms {
                        if expr::eval(&cond, vars)? != 0 {
                            self.expand(&lines[from..to], vars)?;
                            break;
                        }
                    }
                    i = end;
                }
                "#for" => {
                    let end = matching(lines, i, "#for", "#endfor")?;
                    let mut words = rest.split_whitespace();
                    let (Some(var), Some(a), Some(b)) = (words.next(), words.next(), words.next())
                    else {
                        return Err(format!("#for wants a name and two bounds: {rest}"));
                    };
                    let (a, b) = (expr::eval(a, vars)?, expr::eval(b, vars)?);
                    for value in a..b {
                        vars.insert(var.to_owned(), value);
                        self.expand(&lines[i + 1..end], vars)?;
                    }
                    vars.remove(var);
                    i = end;
                }
                "#define" => {
                    let (name, value) = rest.split_once(' ').ok_or("#define NAME EXPR")?;
                    let value = expr::eval(value, vars)?;
                    vars.insert(name.to_owned(), value);
                }
                "#bind" | "#bind2" => {
                    let rest = substitute(rest, vars)?;
                    let (name, dtype) = rest.split_once(' ').ok_or("#bind NAME DTYPE")?;
                    let (element, file) = match word {
                        "#bind" => ("vec4<u32>", "access"),
                        _ => ("u32", "access_two"),
                    };
                    self.declare(name, element);
                    self.accessors(file, name, expr::eval(dtype, vars)?)?;
                }
                "#bind8" => self.declare(rest, "mat2x4<f16>"),
                "#bind4" => self.declare(rest, "vec4<f16>"),
                "#params" => self.text.push_str(if self.immediates {
                    "var<immediate> p: P;\n"
                } else {
                    "@group(1) @binding(0) var<uniform> p: P;\n"
                }),
                _ if word.starts_with('#') => return Err(format!("unknown directive {line}")),
                _ => {
                    self.text.push_str(&substitute(lines[i], vars)?);
                    self.text.push('\n');
                }
            }
            i += 1;
        }
        Ok(())
    }

    fn declare(&mut self, name: &str, element: &str) {
        let n = self.n_bindings;
        self.n_bindings += 1;
        let _ = writeln!(
            self.text,
            "@group(0) @binding({n}) var<storage, read_write> {name}: array<{element}>;"
        );
    }

    fn accessors(&mut self, file: &str, name: &str, dtype: i64) -> Result<(), String> {
        let text: Vec<String> = lines_of(file)?
            .iter()
            .map(|l| l.replace("NAME", name))
            .collect();
        let lines: Vec<&str> = text.iter().map(String::as_str).collect();
        self.expand(&lines, &mut Vars::from([("DT".to_owned(), dtype)]))
    }
}

/// Replaces every `${EXPR}` of a line.
fn substitute(line: &str, vars: &Vars) -> Result<String, String> {
    let (mut text, mut rest) = (String::new(), line);
    while let Some(at) = rest.find("${") {
        let len = rest[at..]
            .find('}')
            .ok_or_else(|| format!("unclosed ${{ in {line}"))?;
        text.push_str(&rest[..at]);
        text.push_str(&expr::eval(&rest[at + 2..at + len], vars)?.to_string());
        rest = &rest[at + len + 1..];
    }
    text.push_str(rest);
    Ok(text)
}

fn matching(lines: &[&str], start: usize, open: &str, close: &str) -> Result<usize, String> {
    let mut depth = 0;
    for (i, line) in lines.iter().enumerate().skip(start) {
        let word = line.split_whitespace().next().unwrap_or("");
        if word == open {
            depth += 1;
        } else if word == close {
            depth -= 1;
            if depth == 0 {
                return Ok(i);
            }
        }
    }
    Err(format!("{open} without {close}: {}", lines[start]))
}

type Arm = (String, usize, usize);

/// The arms of the `#if` at `start` as (condition, first line, end line), and the `#endif`.
fn branches(lines: &[&str], start: usize) -> Result<(Vec<Arm>, usize), String> {
    let end = matching(lines, start, "#if", "#endif")?;
    let mut arms = Vec::new();
    let mut cond = lines[start].trim_start()[3..].trim().to_owned();
    let (mut from, mut depth) = (start + 1, 0);
    for (i, line) in lines.iter().enumerate().take(end).skip(start + 1) {
        let line = line.trim_start();
        match line.split_whitespace().next().unwrap_or("") {
            "#if" => depth += 1,
            "#endif" => depth -= 1,
            "#elif" if depth == 0 => {
                let next = line[5..].trim().to_owned();
                arms.push((std::mem::replace(&mut cond, next), from, i));
                from = i + 1;
            }
            "#else" if depth == 0 => {
                arms.push((std::mem::replace(&mut cond, "1".to_owned()), from, i));
                from = i + 1;
            }
            _ => {}
        }
    }
    arms.push((cond, from, end));
    Ok((arms, end))
}

#[cfg(test)]
mod tests;
