//! Sampling put together from noise, guider, sampler and noise levels.

use super::sampler::{CFG, RNG, Sampling, resumed, rng};
use crate::NodeError;
use crate::node::table::{boolean, link, named, out, seed};
use crate::node::{InputDef, NodeDef, OutputDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::{Guider, Noise, Value};
use nino_engine::{Rng, Seed, Third};
use std::sync::Arc;

const CUSTOM: &str = "model/sampling/custom";
const GUIDERS: &str = "model/sampling/guiders";
const NOISE: &str = "model/sampling/noise";
const SAMPLER: InputDef = link("sampler", Socket::Sampler);
const SIGMAS: InputDef = link("sigmas", Socket::Sigmas);
const LATENT: InputDef = link("latent_image", Socket::Latent);
pub(super) const SAMPLED: &[OutputDef] = &[
    named("output", Socket::Latent),
    named("denoised_output", Socket::Latent),
];

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "SamplerCustom",
        display_name: "SamplerCustom",
        category: CUSTOM,
        inputs: &[
            link("model", Socket::Model),
            boolean("add_noise", true),
            seed("noise_seed"),
            CFG,
            link("positive", Socket::Conditioning),
            link("negative", Socket::Conditioning),
            SAMPLER,
            SIGMAS,
            LATENT,
            RNG,
        ],
        outputs: SAMPLED,
        is_output: false,
        run: custom,
    },
    NodeDef {
        class: "SamplerCustomAdvanced",
        display_name: "SamplerCustomAdvanced",
        category: CUSTOM,
        inputs: &[
            link("noise", Socket::Noise),
            link("guider", Socket::Guider),
            SAMPLER,
            SIGMAS,
            LATENT,
        ],
        outputs: SAMPLED,
        is_output: false,
        run: advanced,
    },
    NodeDef {
        class: "RandomNoise",
        display_name: "RandomNoise",
        category: NOISE,
        inputs: &[seed("noise_seed"), RNG],
        outputs: &[out(Socket::Noise)],
        is_output: false,
        run: |call| {
            Ok(vec![Value::Noise(Noise {
                seed: Some(call.seed("noise_seed")?),
                rng: rng(call),
            })])
        },
    },
    NodeDef {
        class: "DisableNoise",
        display_name: "DisableNoise",
        category: NOISE,
        inputs: &[],
        outputs: &[out(Socket::Noise)],
        is_output: false,
        run: |_| {
            Ok(vec![Value::Noise(Noise {
                seed: None,
                rng: Rng::Torch,
            })])
        },
    },
    NodeDef {
        class: "BasicGuider",
        display_name: "Basic Guider",
        category: GUIDERS,
        inputs: &[
            link("model", Socket::Model),
            link("conditioning", Socket::Conditioning),
        ],
        outputs: &[out(Socket::Guider)],
        is_output: false,
        run: |call| {
            Ok(vec![Value::Guider(Arc::new(Guider {
                model: call.model("model")?,
                positive: call.prompts("conditioning")?,
                negative: Arc::default(),
                third: None,
                cfg: 1.0,
            }))])
        },
    },
    NodeDef {
        class: "CFGGuider",
        display_name: "CFG Guider",
        category: GUIDERS,
        inputs: &[
            link("model", Socket::Model),
            link("positive", Socket::Conditioning),
            link("negative", Socket::Conditioning),
            CFG,
        ],
        outputs: &[out(Socket::Guider)],
        is_output: false,
        run: |call| Ok(vec![Value::Guider(Arc::new(guider(call)?))]),
    },
];

/// The model and prompts of a node, with its guidance.
fn guider(call: &Call<'_, '_>) -> Result<Guider, NodeError> {
    Ok(Guider {
        model: call.model("model")?,
        positive: call.prompts("positive")?,
        negative: call.prompts("negative")?,
        third: None,
        cfg: call.float("cfg")? as f32,
    })
}

fn custom(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let guider = guider(call)?;
    let seed = Seed {
        value: call.seed("noise_seed")?,
        rng: rng(call),
    };
    let add_noise = call.boolean("add_noise")?;
    guided(call, &guider, seed, add_noise)
}

pub(super) fn advanced(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (guider, noise) = (call.guider("guider")?, call.noise("noise")?);
    let seed = Seed {
        value: noise.seed.unwrap_or(0),
        rng: noise.rng,
    };
    guided(call, &guider, seed, noise.seed.is_some())
}

fn guided(
    call: &mut Call<'_, '_>,
    guider: &Guider,
    seed: Seed,
    add_noise: bool,
) -> Result<Vec<Value>, NodeError> {
    let (sampler, sigmas) = (call.sampler("sampler")?, call.sigmas("sigmas")?);
    let latents = call.latents("latent_image")?;
    let third = guider.third.as_ref();
    let third = third.map(|(prompts, way)| Third { prompts, way: *way });
    let sampling = Sampling {
        model: &guider.model,
        positive: &guider.positive,
        negative: &guider.negative,
        third,
        cfg: guider.cfg,
        sampler: sampler.info,
        options: &sampler.options,
        sigmas: &sigmas,
        seed,
        add_noise,
    };
    let sampled = sampling.run(call, &latents)?;
    Ok(vec![
        resumed(&latents, sampled.latent),
        resumed(&latents, sampled.denoised),
    ])
}
