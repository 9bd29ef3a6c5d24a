//! The run as a graph of ComfyUI's own nodes.

use super::{Origin, file_name, start};
use crate::args::PredictionArg;
use nino_engine::{Blend, DiffusionModel, Family, GenerateRequest, Hires, Rng, SizeHint};
use serde_json::{Map, Value, json};
use std::path::Path;

/// A node: its class and inputs in ComfyUI's order.
pub(crate) struct Node {
    pub(crate) class: &'static str,
    pub(crate) inputs: Vec<(&'static str, Input)>,
}

pub(crate) enum Input {
    Value(Value),
    /// An output of another node.
    Link(Link),
}

#[derive(Clone, Copy)]
pub(crate) struct Link {
    /// Position in the graph; ids count from 1.
    pub(crate) node: usize,
    pub(crate) slot: usize,
}

pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
}

impl Graph {
    pub(crate) fn add(&mut self, class: &'static str, inputs: Vec<(&'static str, Input)>) -> usize {
        self.nodes.push(Node { class, inputs });
        self.nodes.len() - 1
    }

    /// ComfyUI's API format.
    pub(crate) fn to_json(&self) -> Value {
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

pub(crate) fn at(node: usize, slot: usize) -> Link {
    Link { node, slot }
}

fn link(node: usize, slot: usize) -> Input {
    Input::Link(at(node, slot))
}

pub(crate) fn value(value: impl Into<Value>) -> Input {
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
    let files = origin.flags.all("reference").map(Path::new).map(file_name);
    let mut files: Vec<String> = files.collect();
    let family = origin.model.family();
    let speaks = matches!(family, Family::QwenImage | Family::Krea2) && !files.is_empty();
    let mut prompts = if speaks {
        let with = [loaded.clip, loaded.vae];
        start::speaking_of(&mut g, request, origin, with, &files)
    } else {
        encoded(&mut g, request, loaded.clip)
    };
    if let Some(guidance) = request.guidance {
        prompts = prompts.map(|prompt| {
            let inputs = vec![
                ("conditioning", Input::Link(prompt)),
                ("guidance", value(short(guidance))),
            ];
            at(g.add("FluxGuidance", inputs), 0)
        });
    }
    if request.zero_negative {
        let inputs = vec![("conditioning", Input::Link(prompts[1]))];
        prompts[1] = at(g.add("ConditioningZeroOut", inputs), 0);
    }
    // Those that the prompts do not have already.
    let known = if speaks { start::NAMED.len() } else { 0 };
    let rest = files.drain(..).zip(&request.references).skip(known);
    for (file, picture) in rest {
        prompts = start::looking_at(&mut g, &file, picture, loaded.vae, prompts);
    }
    if family == Family::Krea2 && speaks {
        prompts = start::without_noise(&mut g, prompts);
    }
    let model = predicting(&mut g, origin, loaded.model);
    let model = rescaled(&mut g, origin, model);
    let model = shifted(&mut g, request, origin, model);
    let model = reusing(&mut g, &origin.model.diffusion, model);
    let started = start::start(&mut g, request, origin, loaded.vae, prompts);
    let sampling = Sampling {
        request,
        model,
        prompts: started.prompts,
    };
    let mut sampled = sampling.first(&mut g, started.latent);
    if let Some(hires) = &request.hires {
        sampled = sampling.second(&mut g, sampled, hires);
    }
    let decoded = g.add(
        "VAEDecode",
        vec![
            ("samples", Input::Link(sampled)),
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

/// The inputs of the node that encodes a prompt. Where SDXL is told something of the picture's
/// size, all of it is written down.
fn prompt(request: &GenerateRequest, text: &str, clip: Link) -> Vec<(&'static str, Input)> {
    let hint = request.size_hint;
    if hint == SizeHint::default() {
        return vec![("text", value(text)), ("clip", Input::Link(clip))];
    }
    let (width, height) = hint.original.unwrap_or((request.width, request.height));
    let (target_width, target_height) = hint.target.unwrap_or((width, height));
    vec![
        ("clip", Input::Link(clip)),
        ("width", value(width)),
        ("height", value(height)),
        ("crop_w", value(hint.crop.0)),
        ("crop_h", value(hint.crop.1)),
        ("target_width", value(target_width)),
        ("target_height", value(target_height)),
        ("text_g", value(text)),
        ("text_l", value(text)),
    ]
}

/// What every pass of sampling shares.
struct Sampling<'a> {
    request: &'a GenerateRequest,
    model: Link,
    /// The positive and the negative.
    prompts: [Link; 2],
}

impl Sampling<'_> {
    fn first(&self, g: &mut Graph, latent: Link) -> Link {
        let request = self.request;
        if request.window.is_none() && request.add_noise {
            return self.pass(g, latent, request.steps, request.denoise);
        }
        let (start, end, leftover) = request.window.map_or((0, 10_000, false), |w| {
            (w.start_at_step, w.end_at_step, w.return_with_leftover_noise)
        });
        let switch = |on: bool| value(if on { "enable" } else { "disable" });
        let mut inputs = vec![
            ("model", Input::Link(self.model)),
            ("add_noise", switch(request.add_noise)),
            ("noise_seed", value(request.seed.value)),
        ];
        inputs.extend(self.settings(request.steps, latent));
        inputs.extend([
            ("start_at_step", value(start)),
            ("end_at_step", value(end)),
            ("return_with_leftover_noise", switch(leftover)),
        ]);
        inputs.extend(self.rng());
        at(g.add("KSamplerAdvanced", inputs), 0)
    }

    fn second(&self, g: &mut Graph, latent: Link, hires: &Hires) -> Link {
        let inputs = vec![
            ("samples", Input::Link(latent)),
            ("upscale_method", value(hires.method.name())),
            ("width", value(hires.width)),
            ("height", value(hires.height)),
            ("crop", value("disabled")),
        ];
        let enlarged = at(g.add("LatentUpscale", inputs), 0);
        self.pass(g, enlarged, hires.steps, hires.denoise)
    }

    fn pass(&self, g: &mut Graph, latent: Link, steps: usize, denoise: f64) -> Link {
        let mut inputs = vec![
            ("model", Input::Link(self.model)),
            ("seed", value(self.request.seed.value)),
        ];
        inputs.extend(self.settings(steps, latent));
        inputs.push(("denoise", value(denoise)));
        inputs.extend(self.rng());
        at(g.add("KSampler", inputs), 0)
    }

    /// The stream of noise where it is not ComfyUI's, which does not look at this input.
    fn rng(&self) -> Option<(&'static str, Input)> {
        let rng = self.request.seed.rng;
        (rng != Rng::Torch).then(|| ("nino_rng", value(rng.name())))
    }

    fn settings(&self, steps: usize, latent: Link) -> [(&'static str, Input); 7] {
        [
            ("steps", value(steps)),
            ("cfg", value(short(self.request.cfg))),
            ("sampler_name", value(self.request.sampler.name)),
            ("scheduler", value(self.request.scheduler.name())),
            ("positive", Input::Link(self.prompts[0])),
            ("negative", Input::Link(self.prompts[1])),
            ("latent_image", Input::Link(latent)),
        ]
    }
}

/// What the model was said to predict; of a consistency model also where its file told it, which
/// ComfyUI does not ask.
fn predicting(g: &mut Graph, origin: &Origin<'_>, model: Link) -> Link {
    let said = origin.files.prediction.map(PredictionArg::comfy_name);
    let told = origin.model.diffusion.takes_guidance().then_some("lcm");
    let Some(sampling) = said.or(told) else {
        return model;
    };
    let inputs = vec![
        ("model", Input::Link(model)),
        ("sampling", value(sampling)),
        ("zsnr", value(origin.files.zsnr)),
    ];
    at(g.add("ModelSamplingDiscrete", inputs), 0)
}

fn rescaled(g: &mut Graph, origin: &Origin<'_>, model: Link) -> Link {
    let Blend::Rescaled(multiplier) = origin.model.diffusion.blend else {
        return model;
    };
    let inputs = vec![
        ("model", Input::Link(model)),
        ("multiplier", value(short(multiplier))),
    ];
    at(g.add("RescaleCFG", inputs), 0)
}

/// The model, some steps of which use an earlier one again.
pub(crate) fn reusing(g: &mut Graph, own: &DiffusionModel, model: Link) -> Link {
    let Some(reuse) = own.step_reuse() else {
        return model;
    };
    let inputs = vec![
        ("model", Input::Link(model)),
        ("reuse_threshold", value(short(reuse.threshold))),
        ("start_percent", value(reuse.percent.0)),
        ("end_percent", value(reuse.percent.1)),
        ("verbose", value(reuse.verbose)),
    ];
    at(g.add(reuse.name(), inputs), 0)
}

/// Flux.2's noise levels, which depend on the size and the steps.
fn shifted(g: &mut Graph, request: &GenerateRequest, origin: &Origin<'_>, model: Link) -> Link {
    let Some(mu) = request.flux2_mu(origin.model) else {
        return model;
    };
    let inputs = vec![
        ("model", Input::Link(model)),
        ("max_shift", value(mu)),
        ("base_shift", value(mu)),
        ("width", value(request.width)),
        ("height", value(request.height)),
    ];
    at(g.add("ModelSamplingFlux", inputs), 0)
}

/// The prompt and the negative prompt.
fn encoded(g: &mut Graph, request: &GenerateRequest, clip: Link) -> [Link; 2] {
    [&request.prompt, &request.negative].map(|text| {
        let inputs = prompt(request, text, clip);
        let class = if request.size_hint == SizeHint::default() {
            "CLIPTextEncode"
        } else {
            "CLIPTextEncodeSDXL"
        };
        at(g.add(class, inputs), 0)
    })
}

fn loaders(g: &mut Graph, origin: &Origin<'_>) -> Loaded {
    let name = origin.model.name();
    let is_gguf = name.to_lowercase().ends_with(".gguf");
    let clips = origin.clip();
    let mut loaded = if clips.is_empty() {
        let node = g.add("CheckpointLoaderSimple", vec![("ckpt_name", value(name))]);
        Loaded {
            model: at(node, 0),
            clip: at(node, 1),
            vae: at(node, 2),
        }
    } else {
        let unet = if is_gguf {
            g.add("UnetLoaderGGUF", vec![("unet_name", value(name))])
        } else {
            let dtype = ("weight_dtype", value("default"));
            g.add("UNETLoader", vec![("unet_name", value(name)), dtype])
        };
        let (single, dual) = match origin.model.family() {
            Family::Chroma => ("chroma", "flux"),
            Family::Flux => ("stable_diffusion", "flux"),
            Family::ZImage => ("lumina2", "flux"),
            Family::Klein | Family::Flux2 => ("flux2", "flux"),
            Family::QwenImage => ("qwen_image", "sdxl"),
            Family::Krea2 => ("krea2", "sdxl"),
            _ => ("stable_diffusion", "sdxl"),
        };
        let clip = match &clips[..] {
            [first, second, ..] => g.add(
                "DualCLIPLoader",
                vec![
                    ("clip_name1", value(first.as_str())),
                    ("clip_name2", value(second.as_str())),
                    ("type", value(dual)),
                ],
            ),
            _ => g.add(
                "CLIPLoader",
                vec![
                    ("clip_name", value(clips[0].as_str())),
                    ("type", value(single)),
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
    if let Some(skip) = origin.clip_skip {
        let inputs = vec![
            ("clip", Input::Link(loaded.clip)),
            ("stop_at_clip_layer", value(-(skip as i64))),
        ];
        loaded.clip = at(g.add("CLIPSetLastLayer", inputs), 0);
    }
    loaded
}

/// The number as it was written: 0.8, not the nearest f64 of an f32.
fn short(v: f32) -> f64 {
    v.to_string().parse().unwrap_or(f64::from(v))
}
