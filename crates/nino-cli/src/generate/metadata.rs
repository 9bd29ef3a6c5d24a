//! What a PNG says of how it was made, four times: A1111's `parameters`, ComfyUI's `prompt` and
//! `workflow`, and under `nino` the flags that repeat it, which `--from` reads.

mod a1111;
mod graph;
mod start;
#[cfg(test)]
mod tests;
mod workflow;

use super::from::Flags;
use super::model::parts;
use crate::args::{LoraArg, ModelArgs};
use crate::pull::PartFiles;
pub(crate) use graph::{Graph, Input, Link, at, reusing, value};
use nino_engine::{Checkpoint, GenerateRequest};
use serde_json::json;
use std::path::Path;
pub(crate) use workflow::workflow;

/// What the request itself does not say.
pub(super) struct Origin<'a> {
    pub(super) flags: &'a Flags,
    pub(super) files: &'a ModelArgs,
    /// Those of the flags and of the prompt.
    pub(super) loras: &'a [LoraArg],
    pub(super) model: &'a Checkpoint,
    /// A1111's short hash of the model's file, where that is one.
    pub(super) model_hash: Option<&'a str>,
    pub(super) device: &'a str,
    pub(super) clip_skip: Option<usize>,
}

impl Origin<'_> {
    /// Names as ComfyUI's lists have them.
    fn vae(&self) -> Option<String> {
        self.parts().vae.as_deref().map(file_name)
    }

    fn parts(&self) -> PartFiles {
        let model = self.files.model.as_deref();
        parts(self.files, model.unwrap_or(Path::new("")))
    }

    fn clip(&self) -> Vec<String> {
        let clip = self.parts().clip;
        clip.iter().map(|path| file_name(path)).collect()
    }

    fn loras(&self) -> impl Iterator<Item = (String, &LoraArg)> {
        self.loras.iter().map(|l| (file_name(&l.file), l))
    }
}

pub(super) fn text(request: &GenerateRequest, origin: &Origin<'_>) -> Vec<(&'static str, String)> {
    let graph = graph::graph(request, origin);
    let flags = origin.flags.resolved(request, origin.model.name());
    let nino = json!({ "version": env!("CARGO_PKG_VERSION"), "flags": flags });
    vec![
        ("parameters", a1111::parameters(request, origin)),
        ("prompt", graph.to_json().to_string()),
        ("workflow", workflow::workflow(&graph).to_string()),
        ("nino", nino.to_string()),
    ]
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}
