//! A host whose folders hold what a test puts there, and small checkpoints that are made once.

use crate::made;
use nino_cpu::{Cpu, CpuOptions};
use nino_engine::{Image, Latent, Picture, Store};
use nino_workflow::{
    Executor, Folder, Graph, Host, HostError, Limits, Made, Output, Progress, Settings, Watch,
    check,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[derive(Default)]
pub(crate) struct Folders {
    files: HashMap<(Folder, String), PathBuf>,
    /// What output nodes made, by their ids, in order.
    pub(crate) made: Vec<(String, Made)>,
}

impl Folders {
    pub(crate) fn with(mut self, folder: Folder, name: &str, path: &Path) -> Folders {
        self.files
            .insert((folder, name.to_owned()), path.to_owned());
        self
    }

    /// The pictures of an output node.
    pub(crate) fn pictures(&self, node: &str) -> Vec<Picture> {
        let images = |made: &Made| match made {
            Made::Images(images) | Made::Previews(images) | Made::Sent(images) => images.clone(),
            Made::Clip(clip) => clip.images.clone(),
            Made::Latent(_) | Made::Texts(_) => Arc::default(),
        };
        let found = self.made.iter().filter(|(id, _)| id == node);
        let images: Vec<Arc<Vec<Image>>> = found.map(|(_, made)| images(made)).collect();
        images
            .iter()
            .flat_map(|i| i.iter())
            .map(Image::to_picture)
            .collect()
    }

    pub(crate) fn latent(&self, node: &str) -> Latent {
        let latent = |made: &Made| match made {
            Made::Latent(latents) => Some(latents.latent.clone()),
            _ => None,
        };
        let found = self.made.iter().find(|(id, _)| id == node);
        found.and_then(|(_, made)| latent(made)).unwrap()
    }
}

impl Host for Folders {
    fn find(&self, folder: Folder, name: &str) -> Result<PathBuf, HostError> {
        let found = self.files.get(&(folder, name.to_owned()));
        found
            .cloned()
            .ok_or_else(|| HostError::new(format!("there is no {name} in {}", folder.name())))
    }

    fn list(&self, folder: Folder) -> Option<Vec<String>> {
        let here = self.files.keys().filter(|(f, _)| *f == folder);
        let mut names: Vec<String> = here.map(|(_, name)| name.clone()).collect();
        names.sort();
        Some(names)
    }

    fn embeddings(&self) -> Vec<PathBuf> {
        vec![made::goldens().join("embeddings")]
    }

    fn output(&mut self, output: &Output<'_>) -> Result<Value, HostError> {
        self.made
            .push((output.node.to_owned(), output.made.clone()));
        Ok(json!({ "number": self.made.len() }))
    }
}

/// A small checkpoint of a list in `goldens/generate`, changed by `change`. It is written once for
/// all tests.
pub(crate) fn checkpoint(model: &str, name: &str, change: impl Fn(String) -> String) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.safetensors"));
    if !path.exists() {
        // Tests run side by side: each writes its own, and the first one stays.
        let own = path.with_extension(std::process::id().to_string());
        made::write_list(&change(made::list(model)), &own);
        let _ = std::fs::hard_link(&own, &path);
        std::fs::remove_file(&own).unwrap();
    }
    path
}

pub(crate) fn sd1() -> PathBuf {
    checkpoint("tiny_sd1", "workflow_sd1", |list| list)
}

pub(crate) fn store() -> Store {
    Store::new(Arc::new(Cpu::new(CpuOptions::default()).unwrap()))
}

pub(crate) fn executor() -> Executor {
    Executor::new(store(), Settings::default())
}

/// Runs a graph; the events are nodes with what happened.
pub(crate) fn run(
    executor: &mut Executor,
    graph: &Graph,
    host: &mut Folders,
) -> Vec<(String, &'static str, Progress)> {
    let checked = check(graph, host, &Limits::default());
    let checked = checked.unwrap_or_else(|error| panic!("{error}"));
    assert!(checked.problems.is_empty(), "{:?}", checked.problems);
    let cancel = AtomicBool::new(false);
    let mut events = Vec::new();
    let mut watch = Watch {
        cancel: &cancel,
        on_event: &mut |event| events.push((event.node.to_owned(), event.class, event.what)),
    };
    let ran = executor.run(&checked, host, &mut watch).unwrap();
    assert_eq!(ran.outputs.len(), checked.outputs.len());
    events
}

pub(crate) fn graph(nodes: Value) -> Graph {
    Graph::from_value(nodes, &Limits::default()).unwrap()
}
