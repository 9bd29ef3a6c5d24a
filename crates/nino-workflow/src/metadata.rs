//! A graph out of the texts that a picture carries: ComfyUI's `prompt`, or A1111's `parameters`.

pub mod a1111;
#[cfg(test)]
mod tests;

use crate::{Graph, GraphError, Limits};

/// A graph that a picture was made with.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub graph: Graph,
    /// What the picture says and the graph does not, in sentences for the user.
    pub notes: Vec<String>,
}

/// Looks for a graph in a picture's texts, which are keywords with their text. `None` where there
/// is none.
pub fn find(texts: &[(String, String)], limits: &Limits) -> Result<Option<Found>, GraphError> {
    let text = |keyword: &str| texts.iter().find(|(k, _)| k == keyword).map(|(_, t)| t);
    if let Some(prompt) = text("prompt") {
        return Ok(Some(Found {
            graph: Graph::from_json(prompt, limits)?,
            notes: Vec::new(),
        }));
    }
    if let Some(parameters) = text("parameters") {
        return a1111::graph(parameters, limits).map(Some);
    }
    match text("workflow") {
        Some(_) => Err(GraphError::PageFormat),
        None => Ok(None),
    }
}
