//! What a graph of ComfyUI's makes and wants, and whether its files are here.

use crate::env::Env;
use crate::generate::find_for_graph;
use crate::plural::count;
use nino_engine::ModelKind;
use nino_workflow::Folder;
use nino_workflow::summary::{Summary, WantedFile};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is told of a graph.
#[derive(Serialize)]
pub(super) struct GraphFacts {
    /// Settings with the values that nodes have for them.
    #[serde(serialize_with = "as_map")]
    settings: Vec<(&'static str, Vec<String>)>,
    files: Vec<FileFacts>,
    /// Classes of nodes that are not known here, with their nodes.
    unknown_nodes: BTreeMap<String, Vec<String>>,
    /// Whether all nodes are known and all files are here.
    runs_here: bool,
}

/// A file that a graph loads.
#[derive(Serialize)]
struct FileFacts {
    name: String,
    /// ComfyUI's folder of such files, where the node is known.
    folder: Option<&'static str>,
    /// The class of the node that loads it.
    node: String,
    strength: Option<f64>,
    /// Where it is on this machine.
    found: Option<PathBuf>,
    /// Where the workflow says that it can be had.
    address: Option<String>,
}

impl GraphFacts {
    pub(super) fn new(
        summary: Summary,
        addresses: &BTreeMap<String, String>,
        env: &Env,
    ) -> GraphFacts {
        let files = summary.files.into_iter().map(|file| FileFacts {
            found: find(&file, env),
            folder: file.folder.map(Folder::name),
            address: addresses.get(&file.name).cloned(),
            name: file.name,
            node: file.class,
            strength: file.strength,
        });
        let files: Vec<FileFacts> = files.collect();
        GraphFacts {
            runs_here: summary.unknown.is_empty() && files.iter().all(|f| f.found.is_some()),
            settings: summary.settings,
            files,
            unknown_nodes: summary.unknown,
        }
    }

    /// Names and values, for people.
    pub(super) fn rows(&self) -> Vec<(String, String)> {
        let mut rows: Vec<(String, String)> = Vec::new();
        for (name, values) in &self.settings {
            let between = if values.iter().any(|v| v.contains(' ')) {
                "\n"
            } else {
                ", "
            };
            rows.push(((*name).to_owned(), values.join(between)));
        }
        for (i, file) in self.files.iter().enumerate() {
            let name = if i == 0 { "needs" } else { "" };
            rows.push((name.to_owned(), file.line()));
        }
        for (i, (class, nodes)) in self.unknown_nodes.iter().enumerate() {
            let name = if i == 0 { "missing" } else { "" };
            let nodes = match &nodes[..] {
                [node] => format!("node {node}"),
                nodes => format!("nodes {}", nodes.join(", ")),
            };
            let line = format!("{class} ({nodes}): not supported");
            rows.push((name.to_owned(), line));
        }
        rows
    }

    /// Whether it runs here, and what is missing.
    pub(super) fn verdict(&self) -> String {
        if self.runs_here {
            return "yes: every node is supported and every file is found".to_owned();
        }
        let missing = self.files.iter().filter(|f| f.found.is_none()).count();
        let mut why = Vec::new();
        if !self.unknown_nodes.is_empty() {
            why.push(count(self.unknown_nodes.len(), "unsupported node type"));
        }
        if missing > 0 {
            why.push(count(missing, "file") + " not found");
        }
        format!("no: {}", why.join(", "))
    }
}

impl FileFacts {
    /// `loras/ink.safetensors (0.8): here, /models/loras/ink.safetensors`
    fn line(&self) -> String {
        let mut line = match self.folder {
            Some(folder) => format!("{folder}/{}", self.name),
            None => format!("{} (for {})", self.name, self.node),
        };
        if let Some(strength) = self.strength {
            line = format!("{line} ({strength})");
        }
        match (&self.found, &self.address) {
            (Some(path), _) => format!("{line}: found at {}", path.display()),
            (None, Some(address)) => format!("{line}: not found; download it from {address}"),
            (None, None) => format!("{line}: not found"),
        }
    }
}

fn find(file: &WantedFile, env: &Env) -> Option<PathBuf> {
    if let Some(folder) = file.folder {
        return find_for_graph(env, folder, &file.name).ok();
    }
    let name = Path::new(&file.name);
    env.library().resolve(ModelKind::ALL, name).ok()
}

fn as_map<S: Serializer>(
    settings: &[(&'static str, Vec<String>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(settings.iter().map(|(name, values)| (name, values)))
}
