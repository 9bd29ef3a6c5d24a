//! The text form of a file of tensors: facts first, then encodings, what does not fit, metadata and
//! tensors.

use super::embedding::EmbeddingFacts;
use super::latent::LatentFacts;
use super::model::{Document, LoraFacts, Part, Tensor};
use crate::bytes::Bytes;
use crate::plural::count as plural;
use crate::table::{Align, Table};

/// Lines of a list before it is cut; `--json` has all of them.
const SHOWN: usize = 12;
/// Characters of a metadata value.
const WIDTH: usize = 80;

pub(super) fn report(d: &Document) -> String {
    let mut text: Vec<String> = Vec::new();
    let mut fact = |name: &str, value: String| text.push(format!("{name:<12}{value}"));
    fact("file", d.summary.files.join(", "));
    fact("format", d.summary.format.clone());
    for (i, line) in what(d).into_iter().enumerate() {
        fact(if i == 0 { "model" } else { "" }, line);
    }
    let s = &d.summary;
    let size = Bytes(s.file_bytes);
    fact(
        "parameters",
        format!(
            "{} in {}",
            count(s.params),
            plural(s.n_tensors as usize, "tensor")
        ),
    );
    fact("size", size.to_string());
    if let Some(note) = &s.note {
        fact("note", note.clone());
    }
    text.push(String::new());
    text.push(encodings(d));
    for part in &d.parts {
        differences(part, &mut text);
    }
    list("tensors of unknown networks", &d.unknown, &mut text);
    if !d.metadata.is_empty() {
        text.push(String::new());
        text.push("metadata".to_owned());
        for (key, value) in &d.metadata {
            text.push(format!("  {key} = {}", cut(value)));
        }
    }
    if let Some(tensors) = &d.tensors {
        text.push(String::new());
        text.push(tensor_table(tensors));
    }
    text.join("\n")
}

/// What the file is, in a line for each part of it.
fn what(d: &Document) -> Vec<String> {
    let found = [
        d.lora.as_ref().map(lora_line),
        d.latent.as_ref().map(LatentFacts::line),
        d.embedding.as_ref().map(EmbeddingFacts::line),
    ];
    if let Some(line) = found.into_iter().flatten().next() {
        return vec![line];
    }
    if d.parts.is_empty() {
        return vec!["unknown: no tensor name belongs to a known network".to_owned()];
    }
    d.parts.iter().map(part_line).collect()
}

fn part_line(part: &Part) -> String {
    let mut line = vec![format!(
        "{} ({}: {})",
        part.model, part.confidence, part.reason
    )];
    if let [half] = part.halves[..] {
        line.push(format!("{half} only"));
    }
    line.extend(part.prediction.map(|p| format!("predicts {p}")));
    if !part.prefix.is_empty() {
        line.push(format!("under {}", part.prefix));
    }
    line.join(", ")
}

fn lora_line(lora: &LoraFacts) -> String {
    if let Some(refused) = &lora.refused {
        return format!("{}: {refused}", lora.format);
    }
    let ranks: Vec<String> = lora.ranks.iter().map(usize::to_string).collect();
    format!(
        "{} for {}, {} of rank {} to its {}",
        lora.format,
        lora.family.unwrap_or("an unknown model"),
        plural(lora.updates, "update"),
        ranks.join("/"),
        lora.parts.join(", ")
    )
}

fn encodings(d: &Document) -> String {
    let mut table = Table::new(&[
        ("encoding", Align::Left),
        ("tensors", Align::Right),
        ("parameters", Align::Right),
        ("size", Align::Right),
        ("share", Align::Right),
    ]);
    let total: u64 = d.summary.encodings.iter().map(|e| e.bytes).sum();
    for e in &d.summary.encodings {
        let share = 100.0 * e.bytes as f64 / total.max(1) as f64;
        table.push(vec![
            e.encoding.clone(),
            e.tensors.to_string(),
            count(e.params),
            Bytes(e.bytes).to_string(),
            format!("{share:.1}%"),
        ]);
    }
    table.render()
}

fn differences(part: &Part, text: &mut Vec<String>) {
    list(&format!("missing from {}", part.model), &part.missing, text);
    list(&format!("unknown in {}", part.model), &part.unknown, text);
    let misshaped: Vec<String> = part
        .misshaped
        .iter()
        .map(|m| format!("{}: {:?}, expected {:?}", m.tensor, m.found, m.expected))
        .collect();
    list(&format!("wrong shape in {}", part.model), &misshaped, text);
}

fn list(title: &str, items: &[String], text: &mut Vec<String>) {
    if items.is_empty() {
        return;
    }
    text.push(String::new());
    text.push(format!("{title} ({})", items.len()));
    text.extend(items.iter().take(SHOWN).map(|i| format!("  {i}")));
    if items.len() > SHOWN {
        text.push(format!(
            "  and {} more; --json lists them",
            items.len() - SHOWN
        ));
    }
}

fn tensor_table(tensors: &[Tensor]) -> String {
    let mut table = Table::new(&[
        ("tensor", Align::Left),
        ("encoding", Align::Left),
        ("shape", Align::Left),
        ("size", Align::Right),
    ]);
    for t in tensors {
        let shape: Vec<String> = t.shape.iter().map(usize::to_string).collect();
        table.push(vec![
            t.name.clone(),
            t.encoding.clone(),
            shape.join(" x "),
            Bytes(t.bytes).to_string(),
        ]);
    }
    table.render()
}

/// 11.90 B, 859.5 M, 1234.
fn count(n: u64) -> String {
    match n {
        0..100_000 => n.to_string(),
        100_000..1_000_000_000 => format!("{:.1} M", n as f64 / 1e6),
        _ => format!("{:.2} B", n as f64 / 1e9),
    }
}

fn cut(value: &str) -> String {
    let line = value.replace(['\n', '\r'], " ");
    if line.chars().count() <= WIDTH {
        return line;
    }
    let head: String = line.chars().take(WIDTH).collect();
    format!("{head}... ({} bytes)", value.len())
}
