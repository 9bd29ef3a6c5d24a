//! `nino bench compare`: two documents of a bench, row by row, and whether their rows differ by
//! more than chance.

use crate::args::BenchCompareArgs;
use crate::failure::Usage;
use crate::printer::Printer;
use crate::table::{Align, Table};
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Above so many ways to split two series, so many of them are drawn.
const SPLITS: usize = 20_000;
/// A row whose p is at most this is called faster or slower.
const LEVEL: f64 = 0.05;
/// A document of a bench has a few hundred rows.
const MOST_BYTES: u64 = 64 << 20;

#[derive(Serialize)]
struct Document {
    rows: Vec<Row>,
    /// Rows that only one of the documents has.
    only_before: Vec<String>,
    only_after: Vec<String>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    n: (usize, usize),
    before_ms: f64,
    after_ms: f64,
    /// After over before.
    ratio: f64,
    /// `None` where a document has no single times.
    p: Option<f64>,
    verdict: &'static str,
}

/// What one row of a document measured.
struct Measured {
    median: f64,
    times: Vec<f64>,
    n: usize,
}

pub(crate) fn run(args: &BenchCompareArgs, printer: Printer) -> Result<()> {
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let document = compared(&before, &after);
    if document.rows.is_empty() {
        let text = "the results have no row in common: they measure different things";
        return Err(Usage(text.to_owned()).into());
    }
    printer.text(text(&document))?;
    printer.document(&document)
}

fn read(path: &Path) -> Result<BTreeMap<String, Measured>> {
    let text = nino_files::read_text(path, "a bench result", MOST_BYTES)?;
    let value: Value =
        serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
    let rows = value["rows"].as_array().ok_or_else(|| {
        let path = path.display();
        Usage(format!(
            "{path} has no rows: it is not a result that a bench wrote with --json"
        ))
    })?;
    let measured = rows.iter().filter_map(|row| {
        let median = row["median_ms"].as_f64().filter(|ms| *ms > 0.0)?;
        let times = row["times_ms"].as_array().into_iter().flatten();
        let times: Vec<f64> = times.filter_map(Value::as_f64).collect();
        let n = row["runs"].as_u64().map_or(times.len(), |n| n as usize);
        Some((name(row), Measured { median, times, n }))
    });
    Ok(measured.collect())
}

/// What a row is of: every word that describes it. How a plan did it is its own affair.
fn name(row: &Value) -> String {
    let words = row.as_object().into_iter().flatten();
    let words = words.filter(|(key, _)| *key != "strategy");
    let words: Vec<&str> = words.filter_map(|(_, value)| value.as_str()).collect();
    words.join(", ")
}

fn compared(before: &BTreeMap<String, Measured>, after: &BTreeMap<String, Measured>) -> Document {
    let rows = before.iter().filter_map(|(name, a)| {
        let b = after.get(name)?;
        let p = significance(&a.times, &b.times);
        let ratio = b.median / a.median;
        let verdict = match p {
            None => "unknown",
            Some(p) if p > LEVEL => "same",
            Some(_) if ratio < 1.0 => "faster",
            Some(_) => "slower",
        };
        Some(Row {
            name: name.clone(),
            n: (a.n, b.n),
            before_ms: a.median,
            after_ms: b.median,
            ratio,
            p,
            verdict,
        })
    });
    let only = |of: &BTreeMap<String, Measured>, other: &BTreeMap<String, Measured>| {
        let names = of.keys().filter(|name| !other.contains_key(*name));
        names.cloned().collect()
    };
    Document {
        rows: rows.collect(),
        only_before: only(before, after),
        only_after: only(after, before),
    }
}

fn text(document: &Document) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("row", Left),
        ("n", Right),
        ("before ms", Right),
        ("after ms", Right),
        ("ratio", Right),
        ("p", Right),
        ("", Left),
    ]);
    for row in &document.rows {
        table.push(vec![
            row.name.clone(),
            format!("{}/{}", row.n.0, row.n.1),
            format!("{:.3}", row.before_ms),
            format!("{:.3}", row.after_ms),
            format!("{:.3}", row.ratio),
            row.p.map_or_else(|| "-".to_owned(), |p| format!("{p:.3}")),
            row.verdict.to_owned(),
        ]);
    }
    let mut paragraphs = vec![table.render()];
    let only = [
        ("before", &document.only_before),
        ("after", &document.only_after),
    ];
    for (which, names) in only {
        if !names.is_empty() {
            paragraphs.push(format!("only {which}: {}", names.join("; ")));
        }
    }
    paragraphs.join("\n\n")
}

/// The probability that two series of the same thing lie at least as far apart as these: by the sum
/// of their ranks (Mann and Whitney), over all ways to split the values in two, or many of them.
fn significance(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let mut ranks = ranks(&[a, b].concat());
    let n = ranks.len();
    let expected = (a.len() * (n + 1)) as f64 / 2.0;
    let seen = (ranks[..a.len()].iter().sum::<f64>() - expected).abs();
    // Ranks are halves of whole numbers: their sums are exact.
    let is_large = |sum: f64| (sum - expected).abs() >= seen;
    if n <= 16 {
        let (mut large, mut all) = (0u32, 0u32);
        for chosen in (0u32..1 << n).filter(|bits| bits.count_ones() as usize == a.len()) {
            let picked = (0..n).filter(|i| chosen >> i & 1 == 1);
            all += 1;
            large += u32::from(is_large(picked.map(|i| ranks[i]).sum()));
        }
        return Some(f64::from(large) / f64::from(all));
    }
    // A fixed seed: the same documents give the same answer.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut large = 0;
    for _ in 0..SPLITS {
        for i in (1..n).rev() {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ranks.swap(i, (state >> 33) as usize % (i + 1));
        }
        large += usize::from(is_large(ranks[..a.len()].iter().sum()));
    }
    Some(large as f64 / SPLITS as f64)
}

/// The rank of each value, from 1; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|v| *v < value).count();
        let equal = values.iter().filter(|v| v.total_cmp(value).is_eq()).count();
        below as f64 + (equal + 1) as f64 / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::{compared, name, read, significance};
    use serde_json::json;

    #[test]
    fn series_apart_differ_and_mixed_ones_do_not() {
        let p = significance(&[1.0, 1.1, 1.05, 1.02], &[2.0, 2.1, 2.2, 2.05]).unwrap();
        // Both sides whole: 2 of 70 splits.
        assert!((p - 2.0 / 70.0).abs() < 1e-9, "{p}");
        let p = significance(&[1.0, 2.0, 1.5, 1.7], &[1.1, 1.9, 1.6, 1.4]).unwrap();
        assert!(p > 0.5, "{p}");
        assert_eq!(significance(&[], &[1.0]), None);
        // Drawn, not counted.
        let slow: Vec<f64> = (0..20).map(|i| 2.0 + f64::from(i) * 0.01).collect();
        let fast: Vec<f64> = slow.iter().map(|t| t - 1.0).collect();
        assert!(significance(&fast, &slow).unwrap() < 0.001);
    }

    #[test]
    fn rows_are_matched_by_what_was_measured() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, case: &str, scale: f64| {
            let times: Vec<f64> = [1.0, 1.01, 1.02, 1.03].map(|t| t * scale).to_vec();
            let row = json!({ "case": case, "strategy": "untiled", "runs": 4,
                              "median_ms": 1.015 * scale, "times_ms": times });
            let path = dir.path().join(file);
            std::fs::write(&path, json!({ "rows": [row] }).to_string()).unwrap();
            path
        };
        let before = read(&write("a.json", "image 512x512", 1.0)).unwrap();
        let after = read(&write("b.json", "image 512x512", 0.5)).unwrap();
        let other = read(&write("c.json", "image 256x256", 1.0)).unwrap();
        let found = compared(&before, &after);
        assert_eq!(found.rows[0].verdict, "faster");
        assert!((found.rows[0].ratio - 0.5).abs() < 1e-9);
        assert_eq!(compared(&before, &before).rows[0].verdict, "same");
        let found = compared(&before, &other);
        assert!(found.rows.is_empty());
        assert_eq!(found.only_after, ["image 256x256"]);
        assert_eq!(
            name(&json!({"op": "conv2d", "strategy": "x", "n": 3})),
            "conv2d"
        );
    }
}
