//! What sampling starts from, as ComfyUI's nodes: an empty latent, a picture with or without a
//! mask, a latent file. Files are named as they were given; ComfyUI looks for them in its input
//! folder.

use super::graph::{Graph, Input, Link, at, value};
use super::{Origin, file_name};
use nino_engine::{Fill, GenerateRequest, Picture, Start};
use std::path::Path;

/// What the sampler is given.
pub(super) struct Started {
    pub(super) latent: Link,
    /// The positive and the negative, with what an editing model sees.
    pub(super) prompts: [Link; 2],
}

pub(super) fn start(
    g: &mut Graph,
    request: &GenerateRequest,
    origin: &Origin<'_>,
    vae: Link,
    prompts: [Link; 2],
) -> Started {
    let file = |flag: &str| file_name(Path::new(origin.flags.first(flag).unwrap_or_default()));
    if !(origin.model.diffusion.edits() && matches!(request.start, Start::Picture(_))) {
        let latent = latent(g, request, origin, vae);
        return Started { latent, prompts };
    }
    let (pixels, _) = pixels(g, request, origin, &file("image"));
    let inputs = vec![
        ("positive", Input::Link(prompts[0])),
        ("negative", Input::Link(prompts[1])),
        ("vae", Input::Link(vae)),
        ("pixels", Input::Link(pixels)),
    ];
    let told = g.add("InstructPixToPixConditioning", inputs);
    Started {
        latent: repeated(g, at(told, 2), request.batch),
        prompts: [at(told, 0), at(told, 1)],
    }
}

/// A picture of a file, of the size that it is looked at with.
fn scaled(g: &mut Graph, file: &str, picture: &Picture) -> Link {
    let loaded = g.add("LoadImage", vec![("image", value(file))]);
    let inputs = vec![
        ("image", Input::Link(at(loaded, 0))),
        ("upscale_method", value("lanczos")),
        ("width", value(picture.width)),
        ("height", value(picture.height)),
        ("crop", value("center")),
    ];
    at(g.add("ImageScale", inputs), 0)
}

/// Prompts for Qwen-Image-Edit and Krea 2, whose encoder sees the pictures that the model looks
/// at. The node takes three.
pub(super) fn speaking_of(
    g: &mut Graph,
    request: &GenerateRequest,
    origin: &Origin<'_>,
    [clip, vae]: [Link; 2],
    files: &[String],
) -> [Link; 2] {
    let pictures = files.iter().zip(&request.references).take(NAMED.len());
    let pictures: Vec<Link> = pictures
        .map(|(file, picture)| scaled(g, file, picture))
        .collect();
    let numbered = origin.model.diffusion.numbers_pictures() || pictures.len() > 1;
    let (class, names) = if numbered {
        ("TextEncodeQwenImageEditPlus", NAMED)
    } else {
        ("TextEncodeQwenImageEdit", ["image", "", ""])
    };
    [&request.prompt, &request.negative].map(|text| {
        let mut inputs = vec![
            ("clip", Input::Link(clip)),
            ("prompt", value(text.as_str())),
            ("vae", Input::Link(vae)),
        ];
        let named = names.into_iter().zip(&pictures);
        inputs.extend(named.map(|(name, &picture)| (name, Input::Link(picture))));
        at(g.add(class, inputs), 0)
    })
}

/// The pictures of the node that numbers them.
pub(super) const NAMED: [&str; 3] = ["image1", "image2", "image3"];

/// Prompts that also have a picture to look at.
pub(super) fn looking_at(
    g: &mut Graph,
    file: &str,
    picture: &Picture,
    vae: Link,
    prompts: [Link; 2],
) -> [Link; 2] {
    let pixels = scaled(g, file, picture);
    let inputs = vec![("pixels", Input::Link(pixels)), ("vae", Input::Link(vae))];
    let latent = at(g.add("VAEEncode", inputs), 0);
    prompts.map(|prompt| {
        let inputs = vec![
            ("conditioning", Input::Link(prompt)),
            ("latent", Input::Link(latent)),
        ];
        at(g.add("ReferenceLatent", inputs), 0)
    })
}

/// Prompts whose pictures to look at have no noise.
pub(super) fn without_noise(g: &mut Graph, prompts: [Link; 2]) -> [Link; 2] {
    prompts.map(|prompt| {
        let inputs = vec![
            ("conditioning", Input::Link(prompt)),
            ("reference_latents_method", value("index_timestep_zero")),
        ];
        at(g.add("FluxKontextMultiReferenceLatentMethod", inputs), 0)
    })
}

fn latent(g: &mut Graph, request: &GenerateRequest, origin: &Origin<'_>, vae: Link) -> Link {
    let file = |flag: &str| file_name(Path::new(origin.flags.first(flag).unwrap_or_default()));
    let latent = match &request.start {
        Start::Empty => {
            let inputs = vec![
                ("width", value(request.width)),
                ("height", value(request.height)),
                ("batch_size", value(request.batch)),
            ];
            let class = match origin.model.diffusion.net().wants().channels {
                16 => "EmptySD3LatentImage",
                128 => "EmptyFlux2LatentImage",
                _ => "EmptyLatentImage",
            };
            return at(g.add(class, inputs), 0);
        }
        Start::Latent(_) => at(
            g.add("LoadLatent", vec![("latent", value(file("latent")))]),
            0,
        ),
        Start::Picture(_) => return picture(g, request, origin, vae, &file("image")),
    };
    let mask = request
        .inpaint
        .as_ref()
        .map(|_| loaded_mask(g, &file("mask")));
    let latent = mask.map_or(latent, |mask| masked(g, latent, mask));
    repeated(g, latent, request.batch)
}

/// The picture and its mask, cut and padded.
fn pixels(
    g: &mut Graph,
    request: &GenerateRequest,
    origin: &Origin<'_>,
    name: &str,
) -> (Link, Link) {
    let loaded = g.add("LoadImage", vec![("image", value(name))]);
    let (mut pixels, mut mask) = (at(loaded, 0), at(loaded, 1));
    match origin.flags.first("mask") {
        None | Some("alpha") => {}
        Some(file) => mask = loaded_mask(g, &file_name(Path::new(file))),
    }
    if origin.flags.first("size").is_some() {
        let inputs = vec![
            ("image", Input::Link(pixels)),
            ("upscale_method", value("lanczos")),
            ("width", value(request.width)),
            ("height", value(request.height)),
            ("crop", value("center")),
        ];
        pixels = at(g.add("ImageScale", inputs), 0);
    }
    if let Some(sides) = origin.flags.first("outpaint").and_then(sides) {
        let feather = origin
            .flags
            .first("outpaint-feather")
            .and_then(|f| f.parse().ok());
        let inputs = vec![
            ("image", Input::Link(pixels)),
            ("left", value(sides[0])),
            ("top", value(sides[1])),
            ("right", value(sides[2])),
            ("bottom", value(sides[3])),
            ("feathering", value(feather.unwrap_or(40usize))),
        ];
        let padded = g.add("ImagePadForOutpaint", inputs);
        (pixels, mask) = (at(padded, 0), at(padded, 1));
    }
    (pixels, mask)
}

fn picture(
    g: &mut Graph,
    request: &GenerateRequest,
    origin: &Origin<'_>,
    vae: Link,
    name: &str,
) -> Link {
    let (pixels, mut mask) = pixels(g, request, origin, name);
    let mut inputs = vec![("pixels", Input::Link(pixels)), ("vae", Input::Link(vae))];
    let latent = match &request.inpaint {
        None => at(g.add("VAEEncode", inputs), 0),
        Some(inpaint) if inpaint.fill == Fill::Gray => {
            inputs.push(("mask", Input::Link(mask)));
            inputs.push(("grow_mask_by", value(inpaint.grow)));
            at(g.add("VAEEncodeForInpaint", inputs), 0)
        }
        Some(inpaint) => {
            let encoded = at(g.add("VAEEncode", inputs), 0);
            if inpaint.grow > 0 {
                let inputs = vec![
                    ("mask", Input::Link(mask)),
                    ("expand", value(inpaint.grow)),
                    ("tapered_corners", value(true)),
                ];
                mask = at(g.add("GrowMask", inputs), 0);
            }
            masked(g, encoded, mask)
        }
    };
    repeated(g, latent, request.batch)
}

fn loaded_mask(g: &mut Graph, name: &str) -> Link {
    let inputs = vec![("image", value(name)), ("channel", value("red"))];
    at(g.add("LoadImageMask", inputs), 0)
}

fn masked(g: &mut Graph, latent: Link, mask: Link) -> Link {
    let inputs = vec![
        ("samples", Input::Link(latent)),
        ("mask", Input::Link(mask)),
    ];
    at(g.add("SetLatentNoiseMask", inputs), 0)
}

fn repeated(g: &mut Graph, latent: Link, batch: usize) -> Link {
    if batch <= 1 {
        return latent;
    }
    let inputs = vec![("samples", Input::Link(latent)), ("amount", value(batch))];
    at(g.add("RepeatLatentBatch", inputs), 0)
}

/// `LEFT,TOP,RIGHT,BOTTOM`
fn sides(text: &str) -> Option<[usize; 4]> {
    let sides: Option<Vec<usize>> = text.split(',').map(|n| n.trim().parse().ok()).collect();
    sides?.try_into().ok()
}
