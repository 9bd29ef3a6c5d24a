//! A graph out of the texts that a picture carries: ComfyUI's `prompt`, A1111's `parameters`, or
//! the `workflow` of ComfyUI's page.

pub mod a1111;
#[cfg(test)]
mod tests;

use crate::{Graph, GraphError, Limits, page};

/// A graph that a picture was made with.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub graph: Graph,
    /// What the picture says and the graph does not, in sentences for the user.
    pub notes: Vec<String>,
}

/// What is told where only the page's own workflow is there, which may have been changed since.
const FROM_PAGE: &str = "it has the workflow of ComfyUI's page alone, which is run as it was saved";

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
    let workflow = text("workflow");
    let workflow = workflow.map(|text| page::read_either(text, limits));
    Ok(workflow.transpose()?.map(|graph| Found {
        graph,
        notes: vec![FROM_PAGE.to_owned()],
    }))
}
