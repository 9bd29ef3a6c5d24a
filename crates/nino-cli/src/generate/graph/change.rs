//! Flags beside a graph: each is put in where it has exactly one meaning there. A value that
//! several nodes have in common is changed in all of them; where they differ, only the user knows
//! which is meant.

use crate::args::{LoraArg, PredictionArg};
use crate::failure::Usage;
use crate::generate::from::Flags;
use crate::size::Size;
use clap::ValueEnum;
use nino_workflow::walk::{Place, SEEDS, SETTINGS, places, prompts, reached, seeds, value};
use nino_workflow::{Graph, Input, InputKind, Link, Node, Socket, nodes};
use serde_json::{Value, json};

/// Puts the flags into the graph. An error says why one has no single meaning there.
pub(super) fn apply(graph: &mut Graph, given: &Flags) -> Result<(), Usage> {
    for (flag, values) in given.iter() {
        let first = values.first().map_or("", String::as_str);
        match flag {
            // The executor's settings.
            "precision" | "quantize" => {}
            "seed" => set_all(graph, flag, &seeds(graph), &number(first))?,
            "prompt" | "negative" => prompt(graph, flag, first)?,
            "size" => size(graph, first)?,
            "vae" => vae(graph, first),
            "lora" => loras(graph, values)?,
            "clip-skip" => clip_skip(graph, first)?,
            "rng" => {
                let nodes = places(graph, SEEDS);
                for (node, _) in nodes {
                    set(graph, &(node, "nino_rng"), &json!(first));
                }
            }
            flag => {
                let known = SETTINGS.iter().find(|(known, _)| *known == flag);
                let Some((_, wanted)) = known else {
                    return Err(Usage(format!(
                        "--{flag} cannot be combined with a ComfyUI graph, which sets this itself: \
                         leave it out"
                    )));
                };
                let value = match flag {
                    "prediction" => json!(comfy_prediction(first)),
                    _ => number(first),
                };
                set_all(graph, flag, &places(graph, wanted), &value)?;
            }
        }
    }
    Ok(())
}

/// The seed that all noise of the graph is drawn from; `None` where there are several, or none.
pub(super) fn seed(graph: &Graph) -> Option<u64> {
    let seeds = seeds(graph);
    let values = seeds.iter().map(|place| value(graph, place));
    let values: Option<Vec<u64>> = values.map(|v| v?.as_u64()).collect();
    let values = values?;
    let first = *values.first()?;
    values.iter().all(|v| *v == first).then_some(first)
}

/// Draws all noise of the graph from another seed.
pub(super) fn set_seed(graph: &mut Graph, seed: u64) -> Result<(), Usage> {
    set_all(graph, "seed", &seeds(graph), &json!(seed))
}

/// The first prompt of the graph, which its pictures are named after.
pub(super) fn first_prompt(graph: &Graph) -> String {
    let prompts = prompts(graph, "positive");
    let text = prompts.first().and_then(|place| value(graph, place));
    text.and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Also keeps the latent that is decoded.
pub(super) fn save_latent(graph: &mut Graph) -> Result<(), Usage> {
    let decodes = graph
        .iter()
        .filter(|(_, node)| matches!(node.class.as_deref(), Some("VAEDecode" | "VAEDecodeTiled")));
    let latents: Vec<Link> = decodes
        .filter_map(|(_, n)| n.link("samples").cloned())
        .collect();
    let [latent] = &latents[..] else {
        let n = latents.len();
        let text = format!("--save-latent is ambiguous: the graph decodes {n} latents");
        return Err(Usage(text));
    };
    let save = Node::new("SaveLatent")
        .linked("samples", &latent.node, latent.slot)
        .with("filename_prefix", "nino");
    graph.add(save);
    Ok(())
}

fn set(graph: &mut Graph, (node, input): &Place, value: &Value) {
    if let Some(node) = graph.get_mut(node) {
        let value = Input::Value(value.clone());
        node.inputs.insert((*input).to_owned(), value);
    }
}

/// Sets a value in all its places, which have to have one value in common.
fn set_all(graph: &mut Graph, flag: &str, places: &[Place], new: &Value) -> Result<(), Usage> {
    let Some(first) = places.first() else {
        return Err(Usage(format!(
            "--{flag} cannot be applied: no node of this graph has such an input"
        )));
    };
    let differs = places
        .iter()
        .any(|p| value(graph, p) != value(graph, first));
    if differs {
        let shown = places.iter().map(|place| {
            let class = graph.get(&place.0).and_then(|n| n.class.clone());
            let class = class.unwrap_or_default();
            let value = value(graph, place)
                .map(Value::to_string)
                .unwrap_or_default();
            let value: String = value.chars().take(40).collect();
            format!("node {} ({class}, {value})", place.0)
        });
        let shown: Vec<String> = shown.collect();
        return Err(Usage(format!(
            "--{flag} is ambiguous, it could mean {}: edit the graph instead",
            shown.join(" or ")
        )));
    }
    for place in places {
        set(graph, place, new);
    }
    Ok(())
}

/// A number where it is one, else a text.
fn number(text: &str) -> Value {
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    parsed
        .filter(Value::is_number)
        .unwrap_or_else(|| json!(text))
}

fn comfy_prediction(name: &str) -> &str {
    let found = PredictionArg::from_str(name, true).ok();
    found.map_or(name, |known| known.comfy_name())
}

fn prompt(graph: &mut Graph, flag: &str, text: &str) -> Result<(), Usage> {
    let (side, other) = match flag {
        "negative" => ("negative", "positive"),
        _ => ("positive", "negative"),
    };
    let (own, others) = (prompts(graph, side), prompts(graph, other));
    if let Some((node, _)) = own.iter().find(|place| others.contains(place)) {
        return Err(Usage(format!(
            "node {node} is both the prompt and the negative prompt: edit the graph instead"
        )));
    }
    set_all(graph, flag, &own, &json!(text))
}

fn size(graph: &mut Graph, text: &str) -> Result<(), Usage> {
    let size: Size = text
        .parse()
        .map_err(|_| Usage(format!("{text} is not a size")))?;
    let scales = places(
        graph,
        &[("LatentUpscale", "width"), ("ImageScale", "width")],
    );
    if let Some((node, _)) = scales.first() {
        return Err(Usage(format!(
            "--size is ambiguous, it could mean the first size or that of node {node}, which \
             scales: edit the graph instead"
        )));
    }
    let sides = [("width", size.width), ("height", size.height)];
    for (input, side) in sides {
        let empty = [("EmptyLatentImage", input), ("EmptySD3LatentImage", input)];
        let places = places(graph, &empty);
        set_all(graph, "size", &places, &json!(side))?;
    }
    Ok(())
}

/// One VAE for everything.
fn vae(graph: &mut Graph, name: &str) {
    let loader = graph.add(Node::new("VAELoader").with("vae_name", name));
    let ids: Vec<String> = graph.iter().map(|(id, _)| id.to_owned()).collect();
    for id in ids {
        let Some(node) = graph.get_mut(&id) else {
            continue;
        };
        let Some(def) = node.class.as_deref().and_then(nodes::find) else {
            continue;
        };
        for input in def.inputs {
            let takes_vae = matches!(input.kind, InputKind::Socket(Socket::Vae));
            if takes_vae && node.inputs.contains_key(input.name) {
                let link = Link {
                    node: loader.clone(),
                    slot: 0,
                };
                node.inputs.insert(input.name.to_owned(), Input::Link(link));
            }
        }
    }
}

/// The output that gives the graph's only model, or its only text encoders.
fn source(graph: &Graph, flag: &str, socket: Socket) -> Result<Link, Usage> {
    let reached = reached(graph);
    let mut found = Vec::new();
    for (id, node) in graph.iter().filter(|(id, _)| reached.contains(*id)) {
        let Some(def) = node.class.as_deref().and_then(nodes::find) else {
            continue;
        };
        let loads = def
            .inputs
            .iter()
            .any(|i| matches!(i.kind, InputKind::File(_)));
        let takes =
            |i: &nino_workflow::InputDef| matches!(i.kind, InputKind::Socket(s) if s == socket);
        if !loads || def.inputs.iter().any(takes) {
            continue;
        }
        let slot = def.outputs.iter().position(|o| o.socket == socket);
        found.extend(slot.map(|slot| Link {
            node: id.to_owned(),
            slot,
        }));
    }
    match &found[..] {
        [only] => Ok(only.clone()),
        _ => Err(Usage(format!(
            "--{flag} is for one {socket}, and the graph loads {}",
            found.len()
        ))),
    }
}

fn loras(graph: &mut Graph, values: &[String]) -> Result<(), Usage> {
    let known = places(
        graph,
        &[
            ("LoraLoader", "lora_name"),
            ("LoraLoaderModelOnly", "lora_name"),
        ],
    );
    if let Some((node, _)) = known.first() {
        return Err(Usage(format!(
            "--lora is ambiguous, it could replace the graph's own LoRA (node {node}) or be added \
             to it: edit the graph instead"
        )));
    }
    let mut model = source(graph, "lora", Socket::Model)?;
    let mut clip = source(graph, "lora", Socket::Clip)?;
    for value in values {
        let lora: LoraArg = value.parse().map_err(Usage)?;
        let node = Node::new("LoraLoader")
            .linked("model", &model.node, model.slot)
            .linked("clip", &clip.node, clip.slot)
            .with("lora_name", lora.file.to_string_lossy().into_owned())
            .with("strength_model", short(lora.unet))
            .with("strength_clip", short(lora.clip));
        let node = graph.add(node);
        for (from, slot) in [(&mut model, 0), (&mut clip, 1)] {
            let to = Link {
                node: node.clone(),
                slot,
            };
            graph.relink(from, &to, &node);
            *from = to;
        }
    }
    Ok(())
}

fn clip_skip(graph: &mut Graph, text: &str) -> Result<(), Usage> {
    let layer: i64 = text
        .parse()
        .map_err(|_| Usage(format!("{text} is not a layer")))?;
    let layer = json!(-layer.abs());
    let known = places(graph, &[("CLIPSetLastLayer", "stop_at_clip_layer")]);
    if !known.is_empty() {
        return set_all(graph, "clip-skip", &known, &layer);
    }
    let clip = source(graph, "clip-skip", Socket::Clip)?;
    let node = Node::new("CLIPSetLastLayer")
        .linked("clip", &clip.node, clip.slot)
        .with("stop_at_clip_layer", layer);
    let node = graph.add(node);
    let to = Link {
        node: node.clone(),
        slot: 0,
    };
    graph.relink(&clip, &to, &node);
    Ok(())
}

/// The number as it was written: 0.8, not the nearest f64 of an f32.
fn short(v: f32) -> f64 {
    v.to_string().parse().unwrap_or(f64::from(v))
}
