//! What a graph made, as text and as JSON.

use crate::bytes::Bytes;
use crate::plural::count;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Serialize)]
pub(super) struct Report {
    pub(super) files: Vec<PathBuf>,
    pub(super) device: String,
    /// Nodes of the graph.
    pub(super) nodes: usize,
    pub(super) peak_bytes: usize,
    pub(super) total_ms: f64,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for file in &self.files {
            writeln!(f, "{}", file.display())?;
        }
        write!(
            f,
            "  {:.2} s for a graph of {} on {}, {} used",
            self.total_ms / 1e3,
            count(self.nodes, "node"),
            self.device,
            Bytes(self.peak_bytes as u64)
        )
    }
}
