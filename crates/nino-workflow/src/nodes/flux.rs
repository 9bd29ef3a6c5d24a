//! What Flux has beside other models: two prompts, guidance as an input, noise levels by size.

use super::image::centered;
use super::lanczos;
use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{MAX_SIDE, combo, float, int, link, optional, out, prompt};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{Conditioning, Image, ModelSampling, ReferenceMethod, encode_texts, flux_mu};
use std::sync::Arc;

const CONDITIONING: &str = "model/conditioning/flux";
const GUIDANCE: (f64, f64) = (0.0, 100.0);
const SHIFT: (f64, f64) = (0.0, 100.0);
const SIDE: (i128, i128) = (16, MAX_SIDE);

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "CLIPTextEncodeFlux",
        display_name: "CLIPTextEncodeFlux",
        category: CONDITIONING,
        inputs: &[
            link("clip", Socket::Clip),
            prompt("clip_l"),
            prompt("t5xxl"),
            float("guidance", 3.5, GUIDANCE, 0.1),
        ],
        outputs: &[out(Socket::Conditioning)],
        is_output: false,
        run: encode,
    },
    NodeDef {
        class: "FluxGuidance",
        display_name: "FluxGuidance",
        category: CONDITIONING,
        inputs: &[
            link("conditioning", Socket::Conditioning),
            float("guidance", 3.5, GUIDANCE, 0.1),
        ],
        outputs: &[out(Socket::Conditioning)],
        is_output: false,
        run: guidance,
    },
    NodeDef {
        class: "FluxDisableGuidance",
        display_name: "FluxDisableGuidance",
        category: CONDITIONING,
        inputs: &[link("conditioning", Socket::Conditioning)],
        outputs: &[out(Socket::Conditioning)],
        is_output: false,
        run: |call| {
            let prompts = call.prompts("conditioning")?;
            let told = prompts.iter().map(Conditioning::without_guidance);
            Ok(vec![Value::from(told.collect::<Vec<_>>())])
        },
    },
    NodeDef {
        class: "FluxKontextMultiReferenceLatentMethod",
        display_name: "Edit Model Reference Method",
        category: CONDITIONING,
        inputs: &[
            link("conditioning", Socket::Conditioning),
            combo("reference_latents_method", || {
                vec![OFFSET, INDEX, UXO, TIMESTEP_ZERO]
            }),
        ],
        outputs: &[out(Socket::Conditioning)],
        is_output: false,
        run: places,
    },
    NodeDef {
        class: "ReferenceLatent",
        display_name: "Set Reference Latent",
        category: "model/conditioning",
        inputs: &[
            link("conditioning", Socket::Conditioning),
            optional(link("latent", Socket::Latent)),
        ],
        outputs: &[out(Socket::Conditioning)],
        is_output: false,
        run: reference,
    },
    NodeDef {
        class: "FluxKontextImageScale",
        display_name: "FluxKontextImageScale",
        category: CONDITIONING,
        inputs: &[link("image", Socket::Image)],
        outputs: &[out(Socket::Image)],
        is_output: false,
        run: kontext_scale,
    },
    NodeDef {
        class: "ModelSamplingFlux",
        display_name: "ModelSamplingFlux",
        category: "model/patch/flux",
        inputs: &[
            link("model", Socket::Model),
            float("max_shift", 1.15, SHIFT, 0.01),
            float("base_shift", 0.5, SHIFT, 0.01),
            int("width", 1024, SIDE, 8),
            int("height", 1024, SIDE, 8),
        ],
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: levels,
    },
];

/// One prompt for CLIP, whose pooled vector counts, and one for T5, whose tokens do.
fn encode(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let clip = call.clip("clip")?;
    let (clip_l, t5xxl) = (call.text("clip_l")?, call.text("t5xxl")?);
    let guidance = call.float("guidance")? as f32;
    let embeddings = call.host.embeddings();
    let texts = [&*clip_l, &*t5xxl];
    let mut encoded = encode_texts(call.store, &clip, &texts, &embeddings, &mut call.control)?;
    let (tokens, vector) = (encoded.pop().unwrap_or_default(), encoded.pop());
    let both = Conditioning {
        pooled: vector.unwrap_or_default().pooled,
        ..tokens.with_guidance(Some(guidance))
    };
    Ok(vec![Value::from(vec![both])])
}

fn guidance(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let guidance = call.float("guidance")? as f32;
    let prompts = call.prompts("conditioning")?;
    let told = prompts.iter().map(|p| p.with_guidance(Some(guidance)));
    Ok(vec![Value::from(told.collect::<Vec<_>>())])
}

const OFFSET: &str = "offset";
const INDEX: &str = "index";
const UXO: &str = "uxo/uno";
const TIMESTEP_ZERO: &str = "index_timestep_zero";

/// Where a model has the latents that it looks at. One that cannot is told so when it samples.
fn places(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let places = match &*call.text("reference_latents_method")? {
        INDEX => ReferenceMethod::Index,
        UXO => ReferenceMethod::Uxo,
        TIMESTEP_ZERO => ReferenceMethod::IndexTimestepZero,
        _ => ReferenceMethod::Offset,
    };
    let prompts = call.prompts("conditioning")?;
    let placed = prompts.iter().map(|p| Conditioning {
        places: Some(places),
        ..p.clone()
    });
    Ok(vec![Value::from(placed.collect::<Vec<_>>())])
}

/// One more latent for Kontext to look at, beside those that the prompts have.
fn reference(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let prompts = call.prompts("conditioning")?;
    if call.get("latent").is_none() {
        return Ok(vec![Value::from(prompts.to_vec())]);
    }
    let latent = Arc::new(call.latents("latent")?.latent.clone());
    let told = prompts
        .iter()
        .map(|p| p.with_reference(Arc::clone(&latent)));
    Ok(vec![Value::from(told.collect::<Vec<_>>())])
}

/// Sizes that Kontext was trained on.
const KONTEXT: [(usize, usize); 17] = [
    (672, 1568),
    (688, 1504),
    (720, 1456),
    (752, 1392),
    (800, 1328),
    (832, 1248),
    (880, 1184),
    (944, 1104),
    (1024, 1024),
    (1104, 944),
    (1184, 880),
    (1248, 832),
    (1328, 800),
    (1392, 752),
    (1456, 720),
    (1504, 688),
    (1568, 672),
];

/// The size whose proportions are nearest.
fn kontext_size(width: usize, height: usize) -> (usize, usize) {
    let aspect = width as f64 / height.max(1) as f64;
    let away = |&(w, h): &(usize, usize)| (aspect - w as f64 / h as f64).abs();
    let nearest = KONTEXT
        .into_iter()
        .min_by(|a, b| away(a).total_cmp(&away(b)));
    nearest.unwrap_or((1024, 1024))
}

fn kontext_scale(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let images = call.images("image")?;
    let Some(first) = images.first().filter(|i| !i.values.is_empty()) else {
        return Ok(vec![Value::Image(images)]);
    };
    let (width, height) = kontext_size(first.width, first.height);
    call.room_for("a batch of pictures", &[images.len(), width, height, 3])?;
    let scaled = images.iter().map(|image| {
        let part = centered(image, width as f64 / height as f64);
        Image::from(&lanczos::resized(&part.to_picture(), width, height))
    });
    Ok(vec![Value::from(scaled.collect::<Vec<_>>())])
}

fn levels(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (max, base) = (call.float("max_shift")?, call.float("base_shift")?);
    let mu = flux_mu(call.size("width")?, call.size("height")?, max, base);
    let model = call.model("model")?.with_sampling(ModelSampling::flux(mu));
    Ok(vec![Value::from(model)])
}
