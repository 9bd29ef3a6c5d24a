//! Flags out of ComfyUI's `prompt`: a graph in its API format, walked back from the saved picture.
//! A node with no counterpart is an error, since a picture without it would be another.

use super::flags::Flags;
use crate::args::PredictionArg;
use serde_json::{Map, Value};

/// Shows an editing model its picture.
const EDIT: &str = "InstructPixToPixConditioning";

struct Graph {
    nodes: Map<String, Value>,
}

/// A node of the graph.
#[derive(Clone, Copy)]
struct Node<'a> {
    id: &'a str,
    class: &'a str,
    inputs: &'a Map<String, Value>,
}

fn sampler_flags(sampler: Node<'_>, flags: &mut Flags) -> Result<(), String> {
    expect(sampler, &["KSampler", "KSamplerAdvanced"])?;
    let is_on = |input: &str| Ok::<bool, String>(sampler.text(input)? == "enable");
    if sampler.class == "KSamplerAdvanced" {
        flags.set("seed", sampler.text("noise_seed")?);
        flags.set("start-at-step", sampler.text("start_at_step")?);
        flags.set("end-at-step", sampler.text("end_at_step")?);
        if is_on("return_with_leftover_noise")? {
            flags.switch("return-with-leftover-noise");
        }
        if !is_on("add_noise")? {
            flags.switch("no-noise");
        }
    } else {
        flags.set("seed", sampler.text("seed")?);
        flags.set("denoise", sampler.text("denoise")?);
    }
    for (input, flag) in [
        ("steps", "steps"),
        ("cfg", "cfg"),
        ("sampler_name", "sampler"),
        ("scheduler", "scheduler"),
    ] {
        flags.set(flag, sampler.text(input)?);
    }
    Ok(())
}

pub(super) fn flags(text: &str) -> Result<Flags, String> {
    // Python writes NaN, which JSON does not have.
    let nodes: Map<String, Value> =
        serde_json::from_str(&text.replace(": NaN", ": null")).map_err(|e| e.to_string())?;
    let graph = Graph { nodes };
    let saved = graph.saved()?;
    let decode = graph.link(saved, "images")?;
    expect(decode, &["VAEDecode", "VAEDecodeTiled"])?;
    let mut sampler = graph.link(decode, "samples")?;
    let mut flags = Flags::default();
    if let Some(first) = graph.second_pass(sampler, &mut flags)? {
        sampler = first;
    }
    sampler_flags(sampler, &mut flags)?;
    flags.set("rng", "torch");
    flags.set("prompt", graph.prompt(sampler, "positive")?);
    flags.set("negative", graph.prompt(sampler, "negative")?);
    graph.latent(sampler, &mut flags)?;
    graph.model(graph.link(sampler, "model")?, &mut flags)?;
    graph.encoders(graph.encode(sampler, "positive")?, &mut flags)?;
    let vae = graph.link(decode, "vae")?;
    if vae.class != "CheckpointLoaderSimple" {
        expect(vae, &["VAELoader"])?;
        flags.set("vae", vae.text("vae_name")?);
    }
    Ok(flags)
}

fn expect(node: Node<'_>, classes: &[&str]) -> Result<(), String> {
    if classes.contains(&node.class) {
        return Ok(());
    }
    Err(format!(
        "node {} is a {}, where {} is understood",
        node.id,
        node.class,
        classes.join(" or ")
    ))
}

impl Node<'_> {
    /// A value as a flag takes it.
    fn text(self, input: &str) -> Result<String, String> {
        match self.inputs.get(input) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
            _ => Err(format!(
                "{input} of node {} ({}) is not a plain value",
                self.id, self.class
            )),
        }
    }
}

impl Graph {
    fn node(&self, id: &str) -> Result<Node<'_>, String> {
        let found = self.nodes.get_key_value(id);
        let (id, node) = found.ok_or_else(|| format!("there is no node {id}"))?;
        match (node["class_type"].as_str(), node["inputs"].as_object()) {
            (Some(class), Some(inputs)) => Ok(Node { id, class, inputs }),
            _ => Err(format!("node {id} has no class and inputs")),
        }
    }

    fn link(&self, node: Node<'_>, input: &str) -> Result<Node<'_>, String> {
        let id = node
            .inputs
            .get(input)
            .and_then(|v| v.get(0))
            .and_then(Value::as_str);
        let none = || {
            format!(
                "{input} of node {} ({}) is not connected",
                node.id, node.class
            )
        };
        self.node(id.ok_or_else(none)?)
    }

    /// The node that wrote the picture.
    fn saved(&self) -> Result<Node<'_>, String> {
        for class in ["SaveImage", "PreviewImage", "SaveImageWebsocket"] {
            for id in self.nodes.keys() {
                let node = self.node(id)?;
                if node.class == class {
                    return Ok(node);
                }
            }
        }
        Err("no node saves a picture".to_owned())
    }

    fn prompt(&self, sampler: Node<'_>, input: &str) -> Result<String, String> {
        self.encode(sampler, input)?.text("text")
    }

    /// The node that encodes a prompt; an editing model's picture may be added to it.
    fn encode(&self, sampler: Node<'_>, input: &str) -> Result<Node<'_>, String> {
        let mut encode = self.link(sampler, input)?;
        if encode.class == EDIT {
            encode = self.link(encode, input)?;
        }
        expect(encode, &["CLIPTextEncode"])?;
        Ok(encode)
    }

    /// The first pass, where `sampler` is a second one over its enlarged latent.
    fn second_pass(
        &self,
        sampler: Node<'_>,
        flags: &mut Flags,
    ) -> Result<Option<Node<'_>>, String> {
        let enlarged = self.link(sampler, "latent_image")?;
        if enlarged.class != "LatentUpscale" {
            return Ok(None);
        }
        let first = self.link(enlarged, "samples")?;
        expect(sampler, &["KSampler"])?;
        expect(first, &["KSampler"])?;
        for input in [
            "seed",
            "cfg",
            "sampler_name",
            "scheduler",
            "model",
            "positive",
            "negative",
        ] {
            if first.inputs.get(input) != sampler.inputs.get(input) {
                let (a, b) = (first.id, sampler.id);
                return Err(format!(
                    "the passes of nodes {a} and {b} differ in their {input}"
                ));
            }
        }
        let (w, h) = (enlarged.text("width")?, enlarged.text("height")?);
        flags.set("hires", format!("{w}x{h}"));
        flags.set("hires-method", enlarged.text("upscale_method")?);
        flags.set("hires-steps", sampler.text("steps")?);
        flags.set("hires-denoise", sampler.text("denoise")?);
        Ok(Some(first))
    }

    /// What sampling starts from.
    fn latent(&self, sampler: Node<'_>, flags: &mut Flags) -> Result<(), String> {
        let mut latent = self.link(sampler, "latent_image")?;
        if latent.class == "RepeatLatentBatch" {
            flags.set("batch", latent.text("amount")?);
            latent = self.link(latent, "samples")?;
        }
        let mut mask = None;
        if latent.class == "SetLatentNoiseMask" {
            mask = Some(self.link(latent, "mask")?);
            latent = self.link(latent, "samples")?;
        }
        match latent.class {
            "EmptyLatentImage" if mask.is_none() => {
                let (w, h) = (latent.text("width")?, latent.text("height")?);
                flags.set("size", format!("{w}x{h}"));
                flags.set("batch", latent.text("batch_size")?);
            }
            "LoadLatent" => flags.set("latent", latent.text("latent")?),
            "VAEEncode" | EDIT => self.picture(latent, flags)?,
            _ => {
                expect(
                    latent,
                    &[
                        "VAEEncodeForInpaint",
                        "VAEEncode",
                        "EmptyLatentImage",
                        "LoadLatent",
                    ],
                )?;
                self.picture(latent, flags)?;
                flags.set("mask-fill", "gray");
                // Graphs older than the setting have its default.
                flags.set(
                    "mask-grow",
                    latent.text("grow_mask_by").unwrap_or("6".to_owned()),
                );
                mask = Some(self.link(latent, "mask")?);
            }
        }
        if let Some(mut mask) = mask {
            if mask.class == "GrowMask" {
                flags.set("mask-grow", mask.text("expand")?);
                mask = self.link(mask, "mask")?;
            }
            match mask.class {
                "LoadImage" => flags.set("mask", "alpha"),
                "ImagePadForOutpaint" => {}
                _ => {
                    expect(mask, &["LoadImageMask", "LoadImage", "ImagePadForOutpaint"])?;
                    flags.set("mask", mask.text("image")?);
                }
            }
        }
        Ok(())
    }

    /// The picture that is encoded; how it was cut or enlarged becomes flags.
    fn picture(&self, encode: Node<'_>, flags: &mut Flags) -> Result<(), String> {
        let mut image = self.link(encode, "pixels")?;
        if image.class == "ImagePadForOutpaint" {
            let sides = ["left", "top", "right", "bottom"].map(|s| image.text(s));
            let sides: Result<Vec<String>, String> = sides.into_iter().collect();
            flags.set("outpaint", sides?.join(","));
            flags.set("outpaint-feather", image.text("feathering")?);
            image = self.link(image, "image")?;
        }
        if image.class == "ImageScale" {
            let (w, h) = (image.text("width")?, image.text("height")?);
            flags.set("size", format!("{w}x{h}"));
            image = self.link(image, "image")?;
        }
        expect(image, &["LoadImage"])?;
        flags.set("image", image.text("image")?);
        Ok(())
    }

    /// LoRAs and the loader, from the sampler backwards; the LoRA nearest the loader is applied
    /// first.
    fn model<'a>(&'a self, mut node: Node<'a>, flags: &mut Flags) -> Result<(), String> {
        let mut loras = Vec::new();
        loop {
            match node.class {
                "LoraLoader" | "LoraLoaderModelOnly" => {
                    let unet = node.text("strength_model")?;
                    let clip = node
                        .text("strength_clip")
                        .unwrap_or_else(|_| "0".to_owned());
                    loras.push(format!("{}:{unet}:{clip}", node.text("lora_name")?));
                    node = self.link(node, "model")?;
                }
                "RescaleCFG" => {
                    flags.set("cfg-rescale", node.text("multiplier")?);
                    node = self.link(node, "model")?;
                }
                "ModelSamplingDiscrete" => {
                    let sampling = node.text("sampling")?;
                    let known = PredictionArg::of_comfy(&sampling);
                    let unknown = || {
                        let (id, class) = (node.id, node.class);
                        format!("sampling {sampling} of node {id} ({class}) has no counterpart")
                    };
                    flags.set("prediction", known.ok_or_else(unknown)?);
                    if node.text("zsnr")? == "true" {
                        flags.switch("zsnr");
                    }
                    node = self.link(node, "model")?;
                }
                "CheckpointLoaderSimple" => break flags.set("model", node.text("ckpt_name")?),
                _ => {
                    expect(
                        node,
                        &["UNETLoader", "UnetLoaderGGUF", "CheckpointLoaderSimple"],
                    )?;
                    break flags.set("model", node.text("unet_name")?);
                }
            }
        }
        loras.iter().rev().for_each(|l| flags.push("lora", l));
        Ok(())
    }

    /// Text encoders that are files of their own.
    fn encoders(&self, encode: Node<'_>, flags: &mut Flags) -> Result<(), String> {
        let mut node = self.link(encode, "clip")?;
        while matches!(node.class, "LoraLoader" | "CLIPSetLastLayer") {
            if node.class == "CLIPSetLastLayer" {
                flags.set("clip-skip", node.text("stop_at_clip_layer")?);
            }
            node = self.link(node, "clip")?;
        }
        match node.class {
            "CheckpointLoaderSimple" => {}
            "CLIPLoader" => flags.push("clip", node.text("clip_name")?),
            _ => {
                expect(
                    node,
                    &["DualCLIPLoader", "CLIPLoader", "CheckpointLoaderSimple"],
                )?;
                flags.push("clip", node.text("clip_name1")?);
                flags.push("clip", node.text("clip_name2")?);
            }
        }
        Ok(())
    }
}
