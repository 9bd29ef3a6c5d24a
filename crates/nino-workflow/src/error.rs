//! What can be wrong with a graph: its text, its inputs, and what happens while it runs.

use crate::HostError;
use crate::types::Socket;
use nino_engine::EngineError;

/// A text is no graph.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    #[error("the graph is not JSON: {0}")]
    Json(serde_json::Error),
    #[error("the graph is {found}, not an object of nodes")]
    NotNodes { found: &'static str },
    #[error(
        "this is a workflow saved by ComfyUI's front end, and the API format is needed: export it \
         with \"Export (API)\""
    )]
    PageFormat,
    #[error("the graph has {found} bytes; the limit is {most}")]
    Bytes { found: usize, most: usize },
    #[error("the graph has {found} nodes; the limit is {most}")]
    Nodes { found: usize, most: usize },
    #[error("the workflow nests subgraphs more than {most} levels deep")]
    Depth { most: usize },
    #[error("node {id} of the graph cannot be read: {what}")]
    Node { id: String, what: &'static str },
    #[error("the parameters of A1111 cannot be read: {0}")]
    Parameters(String),
}

/// A node could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("its {input} has type {found}, expected {expected}")]
    Type {
        input: &'static str,
        expected: Socket,
        found: Socket,
    },
    #[error("its {input} is not given")]
    NotGiven { input: &'static str },
    #[error("its {input} is missing: {why}")]
    Missing { input: &'static str, why: String },
    #[error("{0}")]
    Input(String),
    #[error("{what} of {values} values; the limit for a node is {most}")]
    TooLarge {
        what: &'static str,
        values: u128,
        most: usize,
    },
    #[error("it returned {found} results, and it has {expected} outputs")]
    Outputs { expected: usize, found: usize },
}

/// A graph stopped while it ran.
#[derive(Debug, thiserror::Error)]
#[error("node {node} ({class}): {source}")]
pub struct RunError {
    pub node: String,
    pub class: &'static str,
    pub source: Box<NodeError>,
}

impl RunError {
    /// Whether the caller asked to stop.
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.source, NodeError::Engine(EngineError::Cancelled))
    }
}
