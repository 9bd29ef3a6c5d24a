//! The run as a graph of ComfyUI's own nodes.

use super::Origin;
use nino_engine::GenerateRequest;
use serde_json::{Map, Value, json};

/// A node: its class and inputs in ComfyUI's order.
pub(super) struct Node {
    pub(super) class: &'static str,
    pub(super) inputs: Vec<(&'static str, Input)>,
}

pub(super) enum Input {
    Value(Value),
    /// An output of another node.
    Link(Link),
}

#[derive(Clone, Copy)]
pub(super) struct Link {
    /// Position in the graph; ids count from 1.
    pub(super) node: usize,
    pub(super) slot: usize,
}

pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
}

impl Graph {
    fn add(&mut self, class: &'static str, inputs: Vec<(&'static str, Input)>) -> usize {
        self.nodes.push(Node { class, inputs });
        self.nodes.len() - 1
    }

    /// ComfyUI's API format.
    pub(super) fn to_json(&self) -> Value {
        let mut all = Map::new();
        for (i, node) in self.nodes.iter().enumerate() {
            let mut inputs = Map::new();
            for (name, input) in &node.inputs {
                let value = match input {
                    Input::Value(value) => value.clone(),
                    Input::Link(l) => json!([(l.node + 1).to_string(), l.slot]),
                };
                inputs.insert((*name).to_owned(), value);
            }
            let node = json!({ "class_type": node.class, "inputs": inputs });
            all.insert((i + 1).to_string(), node);
        }
        Value::Object(all)
    }
}

fn link(node: usize, slot: usize) -> Input {
    Input::Link(Link { node, slot })
}

fn value(value: impl Into<Value>) -> Input {
    Input::Value(value.into())
}

/// What a model's loaders give.
struct Loaded {
    model: Link,
    clip: Link,
    vae: Link,
}

pub(super) fn graph(request: &GenerateRequest, origin: &Origin<'_>) -> Graph {
    let mut g = Graph { nodes: Vec::new() };
    let loaded = loaders(&mut g, origin);
    let [positive, negative] = [&request.prompt, &request.negative].map(|text| {
        let inputs = vec![
            ("text", value(text.as_str())),
            ("clip", Input::Link(loaded.clip)),
        ];
        g.add("CLIPTextEncode", inputs)
    });
    let latent = g.add(
        "EmptyLatentImage",
        vec![
            ("width", value(request.width)),
            ("height", value(request.height)),
            ("batch_size", value(request.batch)),
        ],
    );
    let sampled = g.add(
        "KSampler",
        vec![
            ("model", Input::Link(loaded.model)),
            ("seed", value(request.seed.value)),
            ("steps", value(request.steps)),
            ("cfg", value(short(request.cfg))),
            ("sampler_name", value(request.sampler.name)),
            ("scheduler", value(request.scheduler.name())),
            ("positive", link(positive, 0)),
            ("negative", link(negative, 0)),
            ("latent_image", link(latent, 0)),
            ("denoise", value(1.0)),
        ],
    );
    let decoded = g.add(
        "VAEDecode",
        vec![
            ("samples", link(sampled, 0)),
            ("vae", Input::Link(loaded.vae)),
        ],
    );
    g.add(
        "SaveImage",
        vec![
            ("images", link(decoded, 0)),
            ("filename_prefix", value("nino")),
        ],
    );
    g
}

fn loaders(g: &mut Graph, origin: &Origin<'_>) -> Loaded {
    let name = &origin.model.name;
    let is_gguf = name.to_lowercase().ends_with(".gguf");
    let clips = origin.clip();
    let at = |node, slot| Link { node, slot };
    let mut loaded = if clips.is_empty() {
        let node = g.add(
            "CheckpointLoaderSimple",
            vec![("ckpt_name", value(name.as_str()))],
        );
        Loaded {
            model: at(node, 0),
            clip: at(node, 1),
            vae: at(node, 2),
        }
    } else {
        let unet = if is_gguf {
            g.add("UnetLoaderGGUF", vec![("unet_name", value(name.as_str()))])
        } else {
            let dtype = ("weight_dtype", value("default"));
            g.add(
                "UNETLoader",
                vec![("unet_name", value(name.as_str())), dtype],
            )
        };
        let clip = match &clips[..] {
            [first, second, ..] => g.add(
                "DualCLIPLoader",
                vec![
                    ("clip_name1", value(first.as_str())),
                    ("clip_name2", value(second.as_str())),
                    ("type", value("sdxl")),
                ],
            ),
            _ => g.add(
                "CLIPLoader",
                vec![
                    ("clip_name", value(clips[0].as_str())),
                    ("type", value("stable_diffusion")),
                ],
            ),
        };
        Loaded {
            model: at(unet, 0),
            clip: at(clip, 0),
            vae: at(unet, 0),
        }
    };
    if let Some(vae) = origin.vae() {
        loaded.vae = at(g.add("VAELoader", vec![("vae_name", value(vae))]), 0);
    }
    for (name, lora) in origin.loras() {
        let node = g.add(
            "LoraLoader",
            vec![
                ("model", Input::Link(loaded.model)),
                ("clip", Input::Link(loaded.clip)),
                ("lora_name", value(name)),
                ("strength_model", value(short(lora.unet))),
                ("strength_clip", value(short(lora.clip))),
            ],
        );
        (loaded.model, loaded.clip) = (at(node, 0), at(node, 1));
    }
    loaded
}

/// The number as it was written: 0.8, not the nearest f64 of an f32.
fn short(v: f32) -> f64 {
    v.to_string().parse().unwrap_or(f64::from(v))
}
