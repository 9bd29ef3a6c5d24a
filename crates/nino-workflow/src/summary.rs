//! What a graph makes and what it needs, in a few lines for people. A graph need not be one that
//! can run here: classes that are not known are told, and their files are found by their names'
//! endings.

use crate::graph::{Graph, Node};
use crate::host::Folder;
use crate::node::InputKind;
use crate::{nodes, walk};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a graph is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Settings by name with the values that nodes have for them, each value once.
    pub settings: Vec<(&'static str, Vec<String>)>,
    /// The files that the graph loads, each once.
    pub files: Vec<WantedFile>,
    /// Classes that are not known here, with the ids of their nodes.
    pub unknown: BTreeMap<String, Vec<String>>,
}

/// A file that a graph loads.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedFile {
    pub name: String,
    /// Where the graph looks for it; `None` where the class of the node is not known here.
    pub folder: Option<Folder>,
    /// The class of the node that loads it.
    pub class: String,
    /// How strongly a LoRA is applied, where the node says it.
    pub strength: Option<f64>,
}

/// Endings of names of model files.
const MODELS: [&str; 7] = [
    ".safetensors",
    ".sft",
    ".gguf",
    ".ckpt",
    ".pt",
    ".pth",
    ".bin",
];

/// Settings that are shown, in this order.
const SHOWN: [&str; 7] = [
    "steps",
    "cfg",
    "sampler",
    "scheduler",
    "denoise",
    "prediction",
    "batch",
];

impl Summary {
    /// Sums up a graph.
    pub fn of(graph: &Graph) -> Summary {
        let mut summary = Summary::default();
        for (name, side) in [("prompt", "positive"), ("negative", "negative")] {
            summary.setting(name, texts(graph, &walk::prompts(graph, side)));
        }
        summary.setting("seed", texts(graph, &walk::seeds(graph)));
        for name in SHOWN {
            let known = walk::SETTINGS.iter().find(|(known, _)| *known == name);
            let places = known.map(|(_, wanted)| walk::places(graph, wanted));
            summary.setting(name, texts(graph, &places.unwrap_or_default()));
        }
        let reached = walk::reached(graph);
        // A graph with a class that is not known does not run, whoever needs that node.
        let is_unknown = |node: &Node| nodes::find(node.class.as_deref().unwrap_or("")).is_none();
        for (id, node) in graph.iter() {
            if !reached.contains(id) && !is_unknown(node) {
                continue;
            }
            summary.size(node);
            summary.node(id, node);
        }
        summary
    }

    /// The values of a setting; none where no node has it.
    pub fn values(&self, name: &str) -> &[String] {
        let found = self.settings.iter().find(|(known, _)| *known == name);
        found.map_or(&[], |(_, values)| values)
    }

    fn setting(&mut self, name: &'static str, values: Vec<String>) {
        let mut distinct: Vec<String> = Vec::new();
        for value in values.into_iter().filter(|v| !v.is_empty()) {
            if !distinct.contains(&value) {
                distinct.push(value);
            }
        }
        match self.settings.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => {
                let new = distinct.into_iter().filter(|v| !known.contains(v));
                let new: Vec<String> = new.collect();
                known.extend(new);
            }
            None if distinct.is_empty() => {}
            None => self.settings.push((name, distinct)),
        }
    }

    /// The size of what a node makes out of nothing.
    fn size(&mut self, node: &Node) {
        let is_empty = node
            .class
            .as_deref()
            .is_some_and(|c| c.starts_with("Empty"));
        let side = |name| node.value(name).and_then(Value::as_u64);
        if let (true, Some(width), Some(height)) = (is_empty, side("width"), side("height")) {
            self.setting("size", vec![format!("{width}x{height}")]);
        }
    }

    fn node(&mut self, id: &str, node: &Node) {
        let class = node.class.clone().unwrap_or_default();
        let strength = node.value("strength_model").and_then(Value::as_f64);
        let mut want = |name: &str, folder| {
            let file = WantedFile {
                name: name.to_owned(),
                folder,
                class: class.clone(),
                strength,
            };
            if !self.files.contains(&file) {
                self.files.push(file);
            }
        };
        let Some(def) = nodes::find(&class) else {
            let values = node.inputs.keys().filter_map(|name| node.value(name));
            for name in values.filter_map(Value::as_str).filter(|n| is_model(n)) {
                want(name, None);
            }
            self.unknown.entry(class).or_default().push(id.to_owned());
            return;
        };
        for input in def.inputs {
            if let (InputKind::File(folder), Some(name)) =
                (input.kind, node.value(input.name).and_then(Value::as_str))
            {
                want(name, Some(folder));
            }
        }
    }
}

fn is_model(name: &str) -> bool {
    let name = name.to_lowercase();
    MODELS.iter().any(|end| name.ends_with(end))
}

fn texts(graph: &Graph, places: &[walk::Place]) -> Vec<String> {
    let values = places.iter().filter_map(|place| walk::value(graph, place));
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    values.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::Summary;
    use crate::{Folder, Graph, Limits};
    use serde_json::json;

    #[test]
    fn a_graph_is_summed_up_with_its_unknown_nodes() {
        let graph = json!({
            "1": { "class_type": "UNETLoader", "inputs": { "unet_name": "flux.safetensors" } },
            "2": { "class_type": "CLIPTextEncode", "inputs": { "text": "a fox" } },
            "3": { "class_type": "FluxGuidance",
                   "inputs": { "conditioning": ["2", 0], "guidance": 3.5 } },
            "4": { "class_type": "OddLoader", "inputs": { "file": "Odd.GGUF", "mode": "x" } },
            "5": { "class_type": "KSampler", "inputs": {
                "model": ["1", 0], "positive": ["3", 0], "negative": ["4", 0], "seed": 7,
                "steps": 4, "cfg": 1.0, "sampler_name": "euler", "scheduler": "simple",
                "latent_image": ["6", 0] } },
            "6": { "class_type": "EmptySD3LatentImage",
                   "inputs": { "width": 1024, "height": 768, "batch_size": 1 } },
            "7": { "class_type": "SaveOdd", "inputs": { "images": ["5", 0] } },
            "8": { "class_type": "LoraLoader", "inputs": { "lora_name": "ink", "strength_model": 0.8 } },
            "9": { "class_type": "SaveOdd", "inputs": { "images": ["8", 0] } },
        });
        let graph = Graph::from_value(graph, &Limits::default()).unwrap();
        let summary = Summary::of(&graph);
        assert_eq!(summary.values("prompt"), ["a fox"]);
        assert_eq!(summary.values("seed"), ["7"]);
        assert_eq!(summary.values("size"), ["1024x768"]);
        assert_eq!(summary.values("sampler"), ["euler"]);
        assert!(summary.values("negative").is_empty());
        let names: Vec<&str> = summary.files.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["flux.safetensors", "Odd.GGUF", "ink"]);
        assert_eq!(summary.files[0].folder, Some(Folder::DiffusionModels));
        assert_eq!(summary.files[1].folder, None);
        assert_eq!(summary.files[2].strength, Some(0.8));
        assert_eq!(summary.unknown["SaveOdd"], ["7", "9"]);
        assert_eq!(summary.unknown.len(), 2);
    }

    /// A graph does not run with a class that is not known, even where nothing needs it.
    #[test]
    fn unknown_nodes_beside_a_known_output_are_told() {
        let graph = json!({
            "1": { "class_type": "LoadImage", "inputs": { "image": "a.png" } },
            "2": { "class_type": "PreviewImage", "inputs": { "images": ["1", 0] } },
            "3": { "class_type": "SaveOdd", "inputs": { "images": ["1", 0] } },
        });
        let graph = Graph::from_value(graph, &Limits::default()).unwrap();
        let unknown = Summary::of(&graph).unknown;
        assert_eq!(unknown["SaveOdd"], ["3"]);
    }
}
