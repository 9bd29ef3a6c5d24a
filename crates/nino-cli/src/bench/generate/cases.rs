//! The rows of the bench: networks of built-in descriptions with made-up weights, or of a
//! checkpoint.

use super::network::{Kind, Network, Origin, T5, TOKENS};
use crate::args::BenchGenerateArgs;
use crate::env::Env;
use crate::failure::Usage;
use anyhow::Result;
use nino_dtype::DType;
use nino_engine::{ModelKind, SyntheticParams};
use nino_models::{
    Denoiser, DenoiserShape, Vae, clip, flux, flux2, is_table, t5, unet, wan_transformer, z_image,
};
use nino_weights::names;
use std::path::Path;
use std::sync::Arc;

/// Tokens of a prompt of Wan's.
const WAN_TOKENS: usize = 512;

/// One row.
pub(super) struct Case {
    /// What a filter matches.
    pub(super) name: String,
    pub(super) parts: Parts,
}

pub(super) enum Parts {
    One(Box<Network>),
    Picture {
        text: Vec<Network>,
        unet: Box<Network>,
        vae: Box<Network>,
    },
}

/// The cases that the arguments ask for.
pub(super) fn chosen(args: &BenchGenerateArgs, env: &Env) -> Result<Vec<Case>> {
    let all = match &args.model {
        Some(path) => of_file(&env.library().resolve(ModelKind::MODELS, path)?)?,
        None if args.video => made_up_clips(),
        None => made_up(),
    };
    let filter = args.filter.as_deref().unwrap_or_default();
    let names: Vec<String> = all.iter().map(|c| c.name.clone()).collect();
    let found: Vec<Case> = all
        .into_iter()
        .filter(|c| c.name.contains(filter))
        .collect();
    if found.is_empty() {
        let text = format!(
            "no row matches --filter {filter:?}; there are: {}",
            names.join("; ")
        );
        return Err(Usage(text).into());
    }
    Ok(found)
}

pub(super) fn made_up() -> Vec<Case> {
    let clip_l = || text("clip-l", clip::Config::clip_l());
    let sd15 = || unet_at("sd15", unet::Config::sd15(), 64);
    let sdxl = || unet_at("sdxl", unet::Config::sdxl(), 128);
    let flux = || flux_at("dev", flux::Config::dev(), 128);
    let t5 = |tokens, exact| t5_of("t5-xxl", t5::Config::xxl(), tokens, exact);
    // A few layers, for machines where the whole has no room.
    let t5_layers = |tokens| {
        let config = t5::Config {
            n_layers: 4,
            ..t5::Config::xxl()
        };
        t5_of("t5-xxl 4 layers", config, tokens, false)
    };
    let vae = vae(Vae::spec("sd-vae").expect("a built-in name"), 64);
    let one = |(name, kind): (String, Kind), dtype| {
        let network = synthetic(name, kind, dtype);
        Case {
            name: format!("{} {dtype}", network.name),
            parts: Parts::One(Box::new(network)),
        }
    };
    let picture = |dtype| Case {
        name: format!("picture sd15 512x512 {dtype}"),
        parts: Parts::Picture {
            text: vec![synthetic(clip_l().0, clip_l().1, dtype)],
            unet: Box::new(synthetic(sd15().0, sd15().1, dtype)),
            vae: Box::new(synthetic(vae.0.clone(), vae.1.clone(), DType::F16)),
        },
    };
    vec![
        one(clip_l(), DType::F16),
        one(text("clip-h", clip::Config::clip_h()), DType::F16),
        one(text("clip-g", clip::Config::clip_g()), DType::F16),
        one(sd15(), DType::F16),
        one(sd15(), DType::Q8_0),
        one(sd15(), DType::Q4_K),
        one(sdxl(), DType::F16),
        one(sdxl(), DType::Q8_0),
        one(flux(), DType::F16),
        one(flux(), DType::BF16),
        one(flux(), DType::Q8_0),
        one(flux(), DType::F8E4M3),
        one(flux(), DType::Q4_K),
        one(klein(), DType::F16),
        one(z_image(), DType::F16),
        one(t5(256, true), DType::F16),
        one(t5(256, true), DType::Q8_0),
        one(t5(512, true), DType::F16),
        one(t5(512, true), DType::Q8_0),
        one(t5(512, false), DType::F16),
        one(t5(512, false), DType::Q8_0),
        one(t5_layers(256), DType::F16),
        one(t5_layers(256), DType::Q8_0),
        picture(DType::F16),
        picture(DType::Q8_0),
    ]
}

fn text(name: &str, config: clip::Config) -> (String, Kind) {
    // As the families that use them: CLIP-L's last layer, the last but one of the others.
    let narrow = config.width <= 768;
    let want = clip::Want {
        skip: if narrow { 1 } else { 2 },
        norm: true,
        pooled: clip::Pooled::No,
    };
    (format!("text {name}"), Kind::Text { config, want })
}

fn unet_at(name: &str, config: unet::Config, side: usize) -> (String, Kind) {
    let pixels = side * 8;
    // Both prompts in one run.
    let shape = step(2, side, TOKENS);
    let net = Denoiser::Unet(config);
    let name = format!("unet {name} {pixels}x{pixels} batch 2");
    (name, Kind::Denoiser { net, shape })
}

/// Tokens of a prompt of Flux.1 dev.
const FLUX_TOKENS: usize = 512;

fn flux_at(name: &str, config: flux::Config, side: usize) -> (String, Kind) {
    let pixels = side * 8;
    let shape = step(1, side, FLUX_TOKENS);
    let net = Denoiser::Flux(config);
    let name = format!("flux {name} {pixels}x{pixels} {FLUX_TOKENS} tokens");
    (name, Kind::Denoiser { net, shape })
}

/// Flux.2 klein 4B, whose latents are patches of 16 pixels.
fn klein() -> (String, Kind) {
    let net = Denoiser::Flux2(flux2::Config::klein_4b());
    let name = format!("flux2 klein-4b 1024x1024 {FLUX_TOKENS} tokens");
    let shape = step(1, 64, FLUX_TOKENS);
    (name, Kind::Denoiser { net, shape })
}

/// Tokens of a prompt of Z-Image with its template.
const Z_IMAGE_TOKENS: usize = 128;

fn z_image() -> (String, Kind) {
    let net = Denoiser::ZImage(z_image::Config::published());
    let name = format!("z-image 1024x1024 {Z_IMAGE_TOKENS} tokens");
    let shape = step(1, 128, Z_IMAGE_TOKENS);
    (name, Kind::Denoiser { net, shape })
}

/// Steps of Wan's transformers, and single blocks of their full width with the layers around them.
fn made_up_clips() -> Vec<Case> {
    use wan_transformer::Config;
    let mut cases = Vec::new();
    let mut add = |name: &str, config: Config, [frames, height, width]: [usize; 3], dtype| {
        let scale = if config.out_channels == 48 { 16 } else { 8 };
        let shape = DenoiserShape {
            frames: frames.div_ceil(4),
            height: height / scale,
            width: width / scale,
            ..step(1, 0, WAN_TOKENS)
        };
        let block = Config {
            n_layers: 1,
            ..config.clone()
        };
        for (part, config) in [("block", block), ("step", config)] {
            let kind = Kind::Denoiser {
                net: Denoiser::Wan(config),
                shape: shape.clone(),
            };
            let clip = format!("{frames} frames of {width}x{height}");
            let network = synthetic(format!("wan {part} {name} {clip}"), kind, dtype);
            cases.push(Case {
                name: format!("{} {dtype}", network.name),
                parts: Parts::One(Box::new(network)),
            });
        }
    };
    let i2v = || Config::t2v_14b().with_in_channels(36);
    add("1.3b", Config::t2v_1_3b(), [17, 320, 320], DType::F16);
    add("1.3b", Config::t2v_1_3b(), [81, 480, 832], DType::F16);
    add("5b", Config::ti2v_5b(), [121, 704, 1280], DType::F16);
    add("14b", i2v(), [17, 320, 320], DType::F16);
    add("14b", i2v(), [81, 480, 832], DType::F16);
    add("14b", i2v(), [81, 480, 832], DType::Q4_K);
    cases
}

/// A step of `rows` square latents.
fn step(rows: usize, side: usize, tokens: usize) -> DenoiserShape {
    DenoiserShape {
        rows,
        frames: 1,
        height: side,
        width: side,
        tokens,
        t5_tokens: 0,
        references: Vec::new(),
        image_tokens: 0,
        controls: 0,
        control_nets: Vec::new(),
        biased_spans: Vec::new(),
        disable_guidance: false,
        style_tokens: 0,
        kv_cache: nino_models::KvCache::Off,
        reference_method: None,
        camera: false,
        sound: nino_models::SoundShape::default(),
        skipped: Vec::new(),
        shrinks: Vec::new(),
        watched: false,
    }
}

fn t5_of(name: &str, config: t5::Config, tokens: usize, exact: bool) -> (String, Kind) {
    let activations = if exact { "f32" } else { "device's" };
    let name = format!("text {name} {tokens} tokens, {activations} activations,");
    let kind = Kind::T5(T5 {
        config,
        tokens,
        exact,
    });
    (name, kind)
}

fn vae(vae: Vae, side: usize) -> (String, Kind) {
    let pixels = side * vae.scale();
    (format!("decode {pixels}x{pixels}"), Kind::Vae { vae, side })
}

fn synthetic(name: String, kind: Kind, dtype: DType) -> Network {
    Network {
        name,
        kind,
        origin: Origin {
            source: Arc::new(SyntheticParams { seed: 1 }),
            // Tables that rows are picked from stay plain, as `--quantize` leaves them.
            dtype: Arc::new(move |name| match dtype {
                d if d.is_block() && is_table(name) => DType::F16,
                d => d,
            }),
        },
    }
}

/// The networks of a checkpoint, weights as the file has them.
fn of_file(path: &Path) -> Result<Vec<Case>> {
    let reader = Arc::new(nino_weights::open(path)?);
    let (components, _) = names::canonical(reader.index())?;
    let mut texts = Vec::new();
    let mut rest = Vec::new();
    for component in components {
        let Some(opened) = nino_models::open(&reader, component)? else {
            continue;
        };
        let (name, kind) = match opened.network {
            nino_models::Network::ClipText(c) => text(&format!("{} wide", c.width), c),
            nino_models::Network::Denoiser(Denoiser::Unet(c)) => {
                let side = if c.adm_in.is_some() { 128 } else { 64 };
                unet_at("of the file", c, side)
            }
            nino_models::Network::Denoiser(Denoiser::Flux(c)) => flux_at("of the file", c, 128),
            nino_models::Network::T5(c) => {
                t5_of(&format!("t5 {} wide", c.width), c, FLUX_TOKENS, true)
            }
            // Their rows need more than a UNet's inputs.
            nino_models::Network::Denoiser(
                Denoiser::Anima(_)
                | Denoiser::Flux2(_)
                | Denoiser::Krea2(_)
                | Denoiser::QwenImage(_)
                | Denoiser::Wan(_)
                | Denoiser::ZImage(_),
            )
            | nino_models::Network::QwenVision(_)
            | nino_models::Network::Qwen3Vision(_)
            | nino_models::Network::Llm(_)
            | nino_models::Network::ClipVision(_)
            | nino_models::Network::ControlNet(_)
            | nino_models::Network::Redux(_)
            | nino_models::Network::Uso(_)
            | nino_models::Network::Upscaler(_)
            | nino_models::Network::Wav2Vec2(_)
            | nino_models::Network::Vae(_) => continue,
        };
        let params = Arc::new(opened.params);
        let held = params.clone();
        let network = Network {
            name,
            kind,
            origin: Origin {
                source: params,
                dtype: Arc::new(move |name| held.dtype(name)),
            },
        };
        match network.kind {
            Kind::Text { .. } | Kind::T5(_) => texts.push(network),
            _ => rest.push(network),
        }
    }
    if texts.is_empty() && rest.is_empty() {
        let path = path.display();
        return Err(Usage(format!("{path} has no text encoder and no diffusion model")).into());
    }
    let one = |network: Network| Case {
        name: network.name.clone(),
        parts: Parts::One(Box::new(network)),
    };
    Ok(texts.into_iter().chain(rest).map(one).collect())
}
