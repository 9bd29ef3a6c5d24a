//! A picture: its size, and how it was made, as nino, ComfyUI and A1111 leave it in the file.

use super::facts;
use super::graph::GraphFacts;
use crate::env::Env;
use crate::printer::Printer;
use anyhow::Result;
use nino_engine::media::{self, PictureInfo, read_text};
use nino_workflow::summary::Summary;
use nino_workflow::{Limits, metadata, page};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The texts that tell how a picture was made.
const KEYWORDS: [&str; 4] = ["nino", "prompt", "parameters", "workflow"];

#[derive(Serialize)]
struct Document {
    kind: &'static str,
    file: String,
    format: &'static str,
    width: u64,
    height: u64,
    /// The program that wrote the settings; `None` where there are none.
    made_by: Option<String>,
    /// The flags of `nino generate` that repeat it, where nino made it.
    flags: Option<Value>,
    #[serde(flatten)]
    graph: Option<GraphFacts>,
    /// What of the settings could not be read or has no place above.
    notes: Vec<String>,
    /// Keywords of other texts.
    other_texts: Vec<String>,
}

pub(super) fn run(path: &Path, info: PictureInfo, env: &Env, printer: Printer) -> Result<()> {
    let text = read_text(path, &KEYWORDS, &media::Limits::default())?;
    let find = |keyword: &str| {
        let found = text.found.iter().find(|(k, _)| k == keyword);
        found.map(|(_, text)| text.as_str())
    };
    let nino: Option<Value> = find("nino").and_then(|text| serde_json::from_str(text).ok());
    let mut notes = Vec::new();
    let graph = graph(&text.found, &mut notes, env);
    let document = Document {
        kind: "picture",
        file: path.display().to_string(),
        format: info.format,
        width: info.width,
        height: info.height,
        made_by: made_by(nino.as_ref(), &text.found),
        flags: nino.map(|nino| nino["flags"].clone()),
        graph,
        notes,
        other_texts: text.others,
    };
    printer.text(report(&document))?;
    printer.document(&document)
}

/// What the graph in a picture's texts says: ComfyUI's, A1111's, or the page's alone.
fn graph(texts: &[(String, String)], notes: &mut Vec<String>, env: &Env) -> Option<GraphFacts> {
    let limits = Limits::default();
    let has = |keyword: &str| texts.iter().find(|(k, _)| k == keyword);
    let page_alone = !["prompt", "parameters"].iter().any(|k| has(k).is_some());
    if let Some((_, workflow)) = has("workflow").filter(|_| page_alone) {
        let value: Value = serde_json::from_str(workflow).ok()?;
        let page = page::read(&value, &limits).ok()?;
        let summary = Summary::of(&page.graph);
        return Some(GraphFacts::new(summary, &page.addresses, env));
    }
    match metadata::find(texts, &limits) {
        Ok(found) => {
            let found = found?;
            notes.extend(found.notes);
            let summary = Summary::of(&found.graph);
            Some(GraphFacts::new(summary, &BTreeMap::new(), env))
        }
        Err(error) => {
            notes.push(format!("its settings cannot be read: {error}"));
            notes.extend(has("parameters").map(|(_, text)| text.clone()));
            None
        }
    }
}

fn made_by(nino: Option<&Value>, texts: &[(String, String)]) -> Option<String> {
    let has = |keyword: &str| texts.iter().find(|(k, _)| k == keyword);
    if let Some(nino) = nino {
        let version = nino["version"].as_str().unwrap_or_default();
        return Some(format!("nino {version}").trim_end().to_owned());
    }
    if has("prompt").is_some() || has("workflow").is_some() {
        return Some("a ComfyUI workflow".to_owned());
    }
    let (_, parameters) = has("parameters")?;
    let version = parameters.split_once("Version: ").map(|(_, rest)| {
        let version = rest.split([',', '\n']).next();
        version.unwrap_or_default().trim()
    });
    Some(match version {
        Some(version) if version.starts_with("nino") => version.to_owned(),
        Some(version) => format!("A1111 {version}"),
        None => "A1111".to_owned(),
    })
}

fn report(d: &Document) -> String {
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut fact = |name: &str, value: String| rows.push((name.to_owned(), value));
    fact("file", d.file.clone());
    fact(
        "image",
        format!("{} of {}x{} pixels", d.format, d.width, d.height),
    );
    match &d.made_by {
        Some(by) => fact("made by", by.clone()),
        None => fact("made by", "unknown: it contains no settings".to_owned()),
    }
    if let Some(graph) = &d.graph {
        rows.extend(graph.rows());
    }
    for note in &d.notes {
        rows.push(("note".to_owned(), note.clone()));
    }
    if !d.other_texts.is_empty() {
        rows.push(("metadata".to_owned(), d.other_texts.join(", ")));
    }
    if d.graph.is_some() {
        let again = format!("nino generate --from {}", d.file);
        rows.push(("again".to_owned(), again));
    }
    facts(&rows)
}
