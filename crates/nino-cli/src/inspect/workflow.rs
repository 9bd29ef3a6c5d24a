//! A file with a workflow of ComfyUI's, in the API format or as its page saves it.

use super::facts;
use super::graph::GraphFacts;
use crate::env::Env;
use crate::plural::count;
use crate::printer::Printer;
use anyhow::{Context, Result};
use nino_workflow::summary::Summary;
use nino_workflow::{Graph, GraphError, Limits, page};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Serialize)]
struct Document {
    kind: &'static str,
    file: String,
    /// `api` or `page`; `nino generate --from` runs both.
    format: &'static str,
    nodes: usize,
    #[serde(flatten)]
    graph: GraphFacts,
}

pub(super) fn run(path: &Path, env: &Env, printer: Printer) -> Result<()> {
    let limits = Limits::default();
    let text = nino_files::read_text(path, "a workflow", limits.bytes as u64)?;
    let document = read(path, &text, &limits, env).with_context(|| path.display().to_string())?;
    printer.text(report(&document))?;
    printer.document(&document)
}

fn read(path: &Path, text: &str, limits: &Limits, env: &Env) -> Result<Document, GraphError> {
    let page = match serde_json::from_str::<Value>(text) {
        Ok(value) if page::is_page(&value) => Some(page::read(&value, limits)?),
        _ => None,
    };
    let (format, graph, addresses) = match page {
        Some(page) => ("page", page.graph, page.addresses),
        None => ("api", Graph::from_json(text, limits)?, BTreeMap::new()),
    };
    Ok(Document {
        kind: "workflow",
        file: path.display().to_string(),
        format,
        nodes: graph.len(),
        graph: GraphFacts::new(Summary::of(&graph), &addresses, env),
    })
}

fn report(d: &Document) -> String {
    let format = match d.format {
        "api" => "API format",
        _ => "saved by the front end",
    };
    let mut rows = vec![
        ("file".to_owned(), d.file.clone()),
        (
            "workflow".to_owned(),
            format!("ComfyUI's, {}, {format}", count(d.nodes, "node")),
        ),
    ];
    rows.extend(d.graph.rows());
    rows.push(("runs here".to_owned(), d.graph.verdict()));
    facts(&rows)
}
