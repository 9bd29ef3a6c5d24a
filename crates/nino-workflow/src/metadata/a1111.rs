//! A1111's `parameters` as a graph: the prompt, `Negative prompt: …`, and a line of `Key: value`.

use super::Found;
use crate::{Graph, GraphError, Limits, Link, Node};
use nino_engine::{SamplerInfo, Scheduler};

/// Fields that become a part of the graph, or say nothing of the picture.
const PLAIN: [&str; 15] = [
    "Steps",
    "Clip skip",
    "Sampler",
    "Schedule type",
    "CFG scale",
    "Seed",
    "Size",
    "Model",
    "Model hash",
    "VAE",
    "VAE hash",
    "RNG",
    "Version",
    "Device",
    "Lora hashes",
];

/// The graph that makes what the parameters say.
pub(super) fn graph(text: &str, limits: &Limits) -> Result<Found, GraphError> {
    if text.len() > limits.bytes {
        return Err(GraphError::Bytes {
            found: text.len(),
            most: limits.bytes,
        });
    }
    let parameters = Parameters::read(text).map_err(GraphError::Parameters)?;
    let graph = parameters.graph().map_err(GraphError::Parameters)?;
    let others = parameters.fields.iter();
    let others = others.filter(|(key, _)| !PLAIN.contains(&key.as_str()));
    Ok(Found {
        graph,
        notes: others
            .map(|(key, value)| format!("\"{key}: {value}\" is not repeated"))
            .collect(),
    })
}

struct Parameters {
    prompt: String,
    negative: String,
    /// `name:0.8`, as the prompt has them.
    loras: Vec<String>,
    fields: Vec<(String, String)>,
}

impl Parameters {
    fn read(text: &str) -> Result<Parameters, String> {
        let (prompts, line) = match text.trim_end().rsplit_once('\n') {
            Some((prompts, line)) if line.trim_start().starts_with("Steps:") => (prompts, line),
            None if text.starts_with("Steps:") => ("", text),
            _ => return Err("no line begins with \"Steps:\"".to_owned()),
        };
        let (prompt, negative) = match prompts.split_once("Negative prompt:") {
            Some((prompt, negative)) => (prompt.trim(), negative.trim()),
            None => (prompts.trim(), ""),
        };
        let (prompt, loras) = without_loras(prompt);
        Ok(Parameters {
            prompt,
            negative: negative.to_owned(),
            loras,
            fields: fields(line),
        })
    }

    fn field(&self, key: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(k, _)| k == key);
        found.map(|(_, value)| value.as_str())
    }

    fn number<T: std::str::FromStr>(&self, key: &str, default: T) -> Result<T, String> {
        let Some(text) = self.field(key) else {
            return Ok(default);
        };
        text.parse().map_err(|_| format!("its {key} is {text:?}"))
    }

    fn graph(&self) -> Result<Graph, String> {
        let mut graph = Graph::default();
        let model = self.field("Model").ok_or("it names no model")?;
        let loader = Node::new("CheckpointLoaderSimple").with("ckpt_name", model);
        let loader = graph.add(loader);
        let (mut model, mut clip) = (at(&loader, 0), at(&loader, 1));
        for lora in &self.loras {
            let (name, strengths) = strengths(lora)?;
            let node = Node::new("LoraLoader")
                .linked("model", &model.node, model.slot)
                .linked("clip", &clip.node, clip.slot)
                .with("lora_name", name)
                .with("strength_model", strengths.0)
                .with("strength_clip", strengths.1);
            let node = graph.add(node);
            (model, clip) = (at(&node, 0), at(&node, 1));
        }
        if self.field("Clip skip").is_some() {
            let skip: i64 = self.number("Clip skip", 1)?;
            let node = Node::new("CLIPSetLastLayer")
                .linked("clip", &clip.node, clip.slot)
                .with("stop_at_clip_layer", -skip.abs());
            clip = at(&graph.add(node), 0);
        }
        let vae = match self.field("VAE") {
            Some(name) => at(&graph.add(Node::new("VAELoader").with("vae_name", name)), 0),
            None => at(&loader, 2),
        };
        let mut encode = |text: &str| {
            let node = Node::new("CLIPTextEncode")
                .with("text", text)
                .linked("clip", &clip.node, clip.slot);
            graph.add(node)
        };
        let (positive, negative) = (encode(&self.prompt), encode(&self.negative));
        let (width, height) = self.size()?;
        let empty = Node::new("EmptyLatentImage")
            .with("width", width)
            .with("height", height)
            .with("batch_size", 1);
        let empty = graph.add(empty);
        let sampled = self
            .sampler()?
            .linked("model", &model.node, model.slot)
            .linked("positive", &positive, 0)
            .linked("negative", &negative, 0)
            .linked("latent_image", &empty, 0);
        let sampled = graph.add(sampled);
        let decode = Node::new("VAEDecode")
            .linked("samples", &sampled, 0)
            .linked("vae", &vae.node, vae.slot);
        let decode = graph.add(decode);
        let save = Node::new("SaveImage")
            .linked("images", &decode, 0)
            .with("filename_prefix", "nino");
        graph.add(save);
        Ok(graph)
    }

    fn size(&self) -> Result<(u64, u64), String> {
        let text = self.field("Size").ok_or("it has no Size")?;
        let sides = text.split_once('x');
        let sides = sides.and_then(|(w, h)| Some((w.trim().parse().ok()?, h.trim().parse().ok()?)));
        sides.ok_or_else(|| format!("its Size is {text:?}"))
    }

    fn sampler(&self) -> Result<Node, String> {
        let label = self.field("Sampler").unwrap_or("Euler");
        // A name that is not known stays as it is: the check of the graph says what there is.
        let (sampler, said) = match SamplerInfo::parse(label) {
            Ok(found) => {
                let automatic = Scheduler::automatic(found.sampler);
                (found.sampler.name, found.scheduler.unwrap_or(automatic))
            }
            Err(_) => (label, Scheduler::Normal),
        };
        let scheduler = match self.field("Schedule type") {
            None | Some("Automatic") => said.name(),
            Some(label) => match Scheduler::parse(label) {
                Ok(found) => found.name(),
                Err(_) => label,
            },
        };
        // A1111 draws noise on the GPU unless it is told to.
        let rng = match self.field("RNG") {
            Some("CPU") => "torch",
            _ => "philox",
        };
        Ok(Node::new("KSampler")
            .with("seed", self.number("Seed", 0u64)?)
            .with("steps", self.number("Steps", 20u64)?)
            .with("cfg", self.number("CFG scale", 7.0)?)
            .with("sampler_name", sampler)
            .with("scheduler", scheduler)
            .with("denoise", 1.0)
            .with("nino_rng", rng))
    }
}

fn at(node: &str, slot: usize) -> Link {
    Link {
        node: node.to_owned(),
        slot,
    }
}

/// `Key: value, Key: "quoted, value"`.
fn fields(line: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut rest = line.trim();
    while let Some((key, after)) = rest.split_once(':') {
        let after = after.trim_start();
        let mut quoted = serde_json::Deserializer::from_str(after).into_iter::<String>();
        let (value, used) = match quoted.next() {
            Some(Ok(value)) if after.starts_with('"') => (value, quoted.byte_offset()),
            _ => {
                let end = after.find(',').unwrap_or(after.len());
                (after[..end].trim().to_owned(), end)
            }
        };
        fields.push((key.trim().to_owned(), value));
        let next = after[used..].trim_start();
        rest = next.trim_start_matches(',').trim_start();
    }
    fields
}

/// A prompt without its `<lora:name:0.8>`, and what those say: `name:0.8`.
pub fn without_loras(prompt: &str) -> (String, Vec<String>) {
    let (mut text, mut loras) = (String::new(), Vec::new());
    let mut rest = prompt;
    while let Some((before, after)) = rest.split_once("<lora:") {
        let Some((inside, after)) = after.split_once('>') else {
            break;
        };
        text.push_str(before);
        loras.push(inside.to_owned());
        rest = after;
    }
    text.push_str(rest);
    (text.trim().to_owned(), loras)
}

/// The name of a LoRA, and its strengths for the diffusion model and the text encoders.
fn strengths(lora: &str) -> Result<(String, (f64, f64)), String> {
    let mut parts = lora.split(':');
    let name = parts.next().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| format!("<lora:{lora}> names no LoRA"))?;
    let numbers = parts.map(|n| n.trim().parse::<f64>().ok());
    let numbers: Option<Vec<f64>> = numbers.collect();
    let numbers = numbers.ok_or_else(|| format!("<lora:{lora}> has no number for a strength"))?;
    let model = numbers.first().copied().unwrap_or(1.0);
    let clip = numbers.get(1).copied().unwrap_or(model);
    Ok((name.to_owned(), (model, clip)))
}
