//! What Flux has beside other models: two prompts, guidance as an input, noise levels by size.

use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{MAX_SIDE, float, int, link, optional, out, prompt};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{Conditioning, ModelSampling, encode_texts, flux_mu};
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
        class: "ReferenceLatent",
        display_name: "ReferenceLatent",
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

fn levels(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (max, base) = (call.float("max_shift")?, call.float("base_shift")?);
    let mu = flux_mu(call.size("width")?, call.size("height")?, max, base);
    let model = call.model("model")?.with_sampling(ModelSampling::flux(mu));
    Ok(vec![Value::from(model)])
}
