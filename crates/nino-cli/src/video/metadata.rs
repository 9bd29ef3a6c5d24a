//! What a clip says of how it was made: under `nino` the flags that repeat it, and for ComfyUI the
//! same as a graph of its nodes.

use super::model::{SKIP_PART, SKIP_SCALE};
use super::request::Wanted;
use crate::args::{LoraArg, VideoArgs};
use crate::generate::{Flags, Graph, Input, Link, at, reusing, value, workflow};
use nino_engine::{AudioEncoder, DiffusionModel, Family, VideoModel};
use serde_json::json;
use std::path::Path;

/// The shift that ComfyUI's model has without a node for it.
const SHIFT: f64 = 8.0;

pub(super) fn text(
    args: &VideoArgs,
    flags: &Flags,
    model: &VideoModel,
    wanted: &Wanted,
) -> Vec<(String, String)> {
    let flags = resolved(flags, model, wanted);
    let nino = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "verb": "video",
        "flags": flags.to_json(),
    });
    let mut text = vec![("nino".to_owned(), nino.to_string())];
    // ComfyUI's way to load a clip differs from version to version.
    if wanted.request.follow.is_none() {
        let graph = graph(args, model, wanted);
        // Its own order in the EXIF of a WebP.
        text.push(("workflow".to_owned(), workflow(&graph).to_string()));
        text.push(("prompt".to_owned(), graph.to_json().to_string()));
    }
    text
}

/// With every choice that was left to the model or to chance filled in.
fn resolved(flags: &Flags, model: &VideoModel, wanted: &Wanted) -> Flags {
    let (mut all, request) = (flags.clone(), &wanted.request);
    if all.first("model").is_none() {
        all.set("model", &model.high.name);
    }
    all.set("prompt", &request.prompt);
    all.set("seed", request.seed.value);
    all.set("steps", request.steps);
    all.set("cfg", request.cfg);
    all.set("sampler", request.sampler.name);
    all.set("scheduler", request.scheduler.name());
    let size = request.size;
    all.set("size", format!("{}x{}", size.width, size.height));
    all.set("frames", size.frames);
    all.set("fps", wanted.fps);
    if model.low.is_some() {
        all.set("switch", request.switch);
    }
    all
}

/// The clip as a graph of ComfyUI's own nodes.
fn graph(args: &VideoArgs, model: &VideoModel, wanted: &Wanted) -> Graph {
    let mut g = Graph { nodes: Vec::new() };
    let request = &wanted.request;
    let high = expert(&mut g, &model.high, &args.model.lora, args);
    let low = model.low.as_ref();
    let low = low.map(|low| expert(&mut g, low, &args.model.lora_low, args));
    let clip = file_name(model.text.path());
    let class = if is_gguf(&clip) {
        "CLIPLoaderGGUF"
    } else {
        "CLIPLoader"
    };
    let clip = vec![("clip_name", value(clip)), ("type", value("wan"))];
    let clip = at(g.add(class, clip), 0);
    let vae = vec![("vae_name", value(model.vae.name.as_str()))];
    let vae = at(g.add("VAELoader", vae), 0);
    let mut prompts = [&request.prompt, &request.negative].map(|text| {
        let inputs = vec![("text", value(text.as_str())), ("clip", Input::Link(clip))];
        at(g.add("CLIPTextEncode", inputs), 0)
    });
    let sound = args.audio.as_deref().map(|path| {
        let inputs = vec![("audio", value(file_name(Some(path))))];
        at(g.add("LoadAudio", inputs), 0)
    });
    let latent = match sound {
        Some(sound) => sounded(&mut g, args, model, wanted, (vae, sound), &mut prompts),
        None => start(&mut g, args, model, wanted, vae, &mut prompts),
    };
    let sampling = Sampling {
        wanted,
        prompts,
        latent,
    };
    let sampled = match low {
        None => sampling.whole(&mut g, high),
        Some(low) => sampling.by_turns(&mut g, high, low),
    };
    let samples = ("samples", Input::Link(sampled));
    let decoded = g.add("VAEDecode", vec![samples, ("vae", Input::Link(vae))]);
    let images = ("images", Input::Link(at(decoded, 0)));
    let mut inputs = vec![images, ("fps", value(wanted.fps))];
    inputs.extend(sound.map(|sound| ("audio", Input::Link(sound))));
    let video = g.add("CreateVideo", inputs);
    let inputs = vec![
        ("video", Input::Link(at(video, 0))),
        ("filename_prefix", value("nino")),
        ("format", value("auto")),
        ("codec", value("auto")),
    ];
    g.add("SaveVideo", inputs);
    g
}

/// An expert with its LoRAs and its shift.
fn expert(g: &mut Graph, model: &DiffusionModel, loras: &[LoraArg], args: &VideoArgs) -> Link {
    let name = ("unet_name", value(model.name.as_str()));
    let loaded = if is_gguf(&model.name) {
        g.add("UnetLoaderGGUF", vec![name])
    } else {
        let dtype = ("weight_dtype", value("default"));
        g.add("UNETLoader", vec![name, dtype])
    };
    let mut at_last = at(loaded, 0);
    for lora in loras {
        let inputs = vec![
            ("model", Input::Link(at_last)),
            ("lora_name", value(file_name(Some(&lora.file)))),
            ("strength_model", value(lora.unet)),
        ];
        at_last = at(g.add("LoraLoaderModelOnly", inputs), 0);
    }
    let shift = args.sampling.shift.unwrap_or(SHIFT);
    let inputs = vec![("model", Input::Link(at_last)), ("shift", value(shift))];
    at_last = at(g.add("ModelSamplingSD3", inputs), 0);
    let sampling = &args.sampling;
    if sampling.cfg_zero_star {
        let inputs = vec![("model", Input::Link(at_last))];
        at_last = at(g.add("CFGZeroStar", inputs), 0);
    }
    if let Some(layers) = &sampling.skip_layers {
        let list: Vec<String> = layers.0.iter().map(usize::to_string).collect();
        let start = sampling.skip_start.unwrap_or(SKIP_PART.0);
        let end = sampling.skip_end.unwrap_or(SKIP_PART.1);
        let inputs = vec![
            ("model", Input::Link(at_last)),
            ("double_layers", value(list.join(", "))),
            ("single_layers", value("")),
            ("scale", value(sampling.skip_scale.unwrap_or(SKIP_SCALE))),
            ("start_percent", value(start)),
            ("end_percent", value(end)),
            ("rescaling_scale", value(0.0)),
        ];
        at_last = at(g.add("SkipLayerGuidanceDiT", inputs), 0);
    }
    reusing(g, model, at_last)
}

/// The latent to start from; prompts that see pictures become others.
fn start(
    g: &mut Graph,
    args: &VideoArgs,
    model: &VideoModel,
    wanted: &Wanted,
    vae: Link,
    prompts: &mut [Link; 2],
) -> Link {
    let size = wanted.request.size;
    let sides = || {
        vec![
            ("width", value(size.width)),
            ("height", value(size.height)),
            ("length", value(size.frames)),
            ("batch_size", value(1)),
        ]
    };
    let given = [
        ("start_image", &args.image),
        ("end_image", &args.last_image),
    ];
    let pictures: Vec<(&str, Link)> = given
        .into_iter()
        .filter_map(|(name, path)| {
            let file = file_name(path.as_deref());
            let node = path.as_ref().map(|_| vec![("image", value(file))]);
            node.map(|inputs| (name, at(g.add("LoadImage", inputs), 0)))
        })
        .collect();
    if pictures.is_empty() && wanted.request.camera.is_none() {
        let class = if model.high.family == Family::Wan5B {
            let mut inputs = vec![("vae", Input::Link(vae))];
            inputs.extend(sides());
            return at(g.add("Wan22ImageToVideoLatent", inputs), 0);
        } else {
            "EmptyHunyuanLatentVideo"
        };
        return at(g.add(class, sides()), 0);
    }
    let images = pictures.iter().map(|&(name, link)| match name {
        "end_image" => ("end_image", Input::Link(link)),
        _ => ("start_image", Input::Link(link)),
    });
    let images: Vec<(&'static str, Input)> = images.collect();
    if model.high.family == Family::Wan5B {
        let mut inputs = vec![("vae", Input::Link(vae))];
        inputs.extend(sides());
        inputs.extend(images);
        return at(g.add("Wan22ImageToVideoLatent", inputs), 0);
    }
    let both = pictures.iter().any(|(name, _)| *name == "end_image");
    let mut inputs = vec![
        ("positive", Input::Link(prompts[0])),
        ("negative", Input::Link(prompts[1])),
        ("vae", Input::Link(vae)),
    ];
    inputs.extend(sides());
    inputs.extend(images);
    let looks = model.high.net().wants().image.is_some();
    if let Some(vision) = model.vision.as_ref().filter(|_| looks) {
        let name = file_name(vision.path());
        let loader = g.add("CLIPVisionLoader", vec![("clip_name", value(name))]);
        for (name, link) in &pictures {
            let seen = vec![
                ("clip_vision", Input::Link(at(loader, 0))),
                ("image", Input::Link(*link)),
                ("crop", value("center")),
            ];
            let seen = Input::Link(at(g.add("CLIPVisionEncode", seen), 0));
            inputs.push(match (both, *name) {
                (false, _) => ("clip_vision_output", seen),
                (true, "end_image") => ("clip_vision_end_image", seen),
                (true, _) => ("clip_vision_start_image", seen),
            });
        }
    }
    let follows_camera = model.high.net().wants().camera.is_some();
    if let Some((motion, speed)) = wanted.request.camera {
        let mut told = vec![("camera_pose", value(motion.name))];
        told.extend(sides().into_iter().take(3));
        told.push(("speed", value(speed)));
        let path = at(g.add("WanCameraEmbedding", told), 0);
        inputs.push(("camera_conditions", Input::Link(path)));
    }
    let class = match (both, follows_camera) {
        (true, _) => "WanFirstLastFrameToVideo",
        (false, true) => "WanCameraImageToVideo",
        (false, false) => "WanImageToVideo",
    };
    let node = g.add(class, inputs);
    *prompts = [at(node, 0), at(node, 1)];
    at(node, 2)
}

/// The latent to start from with a model that takes audio; prompts become others.
fn sounded(
    g: &mut Graph,
    args: &VideoArgs,
    model: &VideoModel,
    wanted: &Wanted,
    (vae, sound): (Link, Link),
    prompts: &mut [Link; 2],
) -> Link {
    let encoder = file_name(model.hearing.as_ref().and_then(AudioEncoder::path));
    let encoder = vec![("audio_encoder_name", value(encoder))];
    let encoder = at(g.add("AudioEncoderLoader", encoder), 0);
    let heard = vec![
        ("audio_encoder", Input::Link(encoder)),
        ("audio", Input::Link(sound)),
    ];
    let heard = at(g.add("AudioEncoderEncode", heard), 0);
    let size = wanted.request.size;
    let mut inputs = vec![
        ("positive", Input::Link(prompts[0])),
        ("negative", Input::Link(prompts[1])),
        ("vae", Input::Link(vae)),
        ("width", value(size.width)),
        ("height", value(size.height)),
        ("length", value(size.frames)),
        ("batch_size", value(1)),
        ("audio_encoder_output", Input::Link(heard)),
    ];
    if args.image.is_some() {
        let picture = vec![("image", value(file_name(args.image.as_deref())))];
        let picture = at(g.add("LoadImage", picture), 0);
        inputs.push(("ref_image", Input::Link(picture)));
    }
    let node = g.add("WanSoundImageToVideo", inputs);
    *prompts = [at(node, 0), at(node, 1)];
    at(node, 2)
}

/// What all samplers of the graph share.
struct Sampling<'a> {
    wanted: &'a Wanted,
    prompts: [Link; 2],
    latent: Link,
}

impl Sampling<'_> {
    fn settings(&self, latent: Link) -> [(&'static str, Input); 7] {
        let request = &self.wanted.request;
        [
            ("steps", value(request.steps)),
            ("cfg", value(f64::from(request.cfg))),
            ("sampler_name", value(request.sampler.name)),
            ("scheduler", value(request.scheduler.name())),
            ("positive", Input::Link(self.prompts[0])),
            ("negative", Input::Link(self.prompts[1])),
            ("latent_image", Input::Link(latent)),
        ]
    }

    fn whole(&self, g: &mut Graph, model: Link) -> Link {
        let mut inputs = vec![
            ("model", Input::Link(model)),
            ("seed", value(self.wanted.request.seed.value)),
        ];
        inputs.extend(self.settings(self.latent));
        inputs.push(("denoise", value(1.0)));
        at(g.add("KSampler", inputs), 0)
    }

    /// The expert for high noise hands over to the one for low noise.
    fn by_turns(&self, g: &mut Graph, high: Link, low: Link) -> Link {
        let request = &self.wanted.request;
        let switch = |on: bool| value(if on { "enable" } else { "disable" });
        let mut part = |model: Link, latent: Link, is_first: bool| {
            let mut inputs = vec![
                ("model", Input::Link(model)),
                ("add_noise", switch(is_first)),
                ("noise_seed", value(request.seed.value)),
            ];
            inputs.extend(self.settings(latent));
            let (from, to) = if is_first {
                (0, request.switch)
            } else {
                (request.switch, 10_000)
            };
            inputs.extend([
                ("start_at_step", value(from)),
                ("end_at_step", value(to)),
                ("return_with_leftover_noise", switch(is_first)),
            ]);
            at(g.add("KSamplerAdvanced", inputs), 0)
        };
        let handed_over = part(high, self.latent, true);
        part(low, handed_over, false)
    }
}

fn is_gguf(name: &str) -> bool {
    name.to_lowercase().ends_with(".gguf")
}

fn file_name(path: Option<&Path>) -> String {
    let name = path.and_then(Path::file_name);
    name.map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}
