//! `KSampler` and `KSamplerAdvanced`, and what every node that samples has in common.

use super::latent::SCALE;
use super::mask;
use crate::NodeError;
use crate::node::table::{combo, float, hidden, int, link, out, seed};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::{Latents, Value};
use nino_engine::{
    Conditioning, DiffusionModel, Latent, LatentSize, Mask, Noise, Rng, SAMPLERS, SampleRequest,
    Sampled, SamplerInfo, SamplerOptions, Scheduler, Seed, Third, Unfinished, Window, sample,
    sigmas,
};

pub(super) const STEPS: (i128, i128) = (0, 10_000);
pub(super) const MODEL: InputDef = link("model", Socket::Model);
pub(super) const POSITIVE: InputDef = link("positive", Socket::Conditioning);
pub(super) const NEGATIVE: InputDef = link("negative", Socket::Conditioning);
pub(super) const LATENT: InputDef = link("latent_image", Socket::Latent);
pub(super) const COUNT: InputDef = int("steps", 20, (1, 10_000), 1);
pub(super) const CFG: InputDef = float("cfg", 8.0, (0.0, 100.0), 0.1);
pub(super) const SAMPLER: InputDef = combo("sampler_name", sampler_names);
pub(super) const SCHEDULER: InputDef = combo("scheduler", scheduler_names);
/// The stream of noise, which A1111 has another one of.
pub(super) const RNG: InputDef = hidden(combo("nino_rng", || vec!["torch", "philox"]));

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "KSampler",
        display_name: "KSampler",
        category: "model/sampling",
        inputs: &[
            MODEL,
            seed("seed"),
            COUNT,
            CFG,
            SAMPLER,
            SCHEDULER,
            POSITIVE,
            NEGATIVE,
            LATENT,
            float("denoise", 1.0, (0.0, 1.0), 0.01),
            RNG,
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: ksampler,
    },
    NodeDef {
        class: "KSamplerAdvanced",
        display_name: "KSampler (Advanced)",
        category: "model/sampling",
        inputs: &[
            MODEL,
            combo("add_noise", || vec!["enable", "disable"]),
            seed("noise_seed"),
            COUNT,
            CFG,
            SAMPLER,
            SCHEDULER,
            POSITIVE,
            NEGATIVE,
            LATENT,
            int("start_at_step", 0, STEPS, 1),
            int("end_at_step", 10_000, STEPS, 1),
            combo("return_with_leftover_noise", || vec!["disable", "enable"]),
            RNG,
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: advanced,
    },
];

pub(super) fn sampler_names() -> Vec<&'static str> {
    SAMPLERS.iter().map(|s| s.name).collect()
}

pub(super) fn scheduler_names() -> Vec<&'static str> {
    Scheduler::ALL.map(Scheduler::name).to_vec()
}

/// The stream of noise that a node was told, or torch's.
pub(super) fn rng(call: &Call<'_, '_>) -> Rng {
    let told = call.text("nino_rng").ok();
    told.and_then(|name| Rng::parse(&name))
        .unwrap_or(Rng::Torch)
}

pub(super) fn sampler(call: &Call<'_, '_>) -> Result<&'static SamplerInfo, NodeError> {
    let name = call.text("sampler_name")?;
    SamplerInfo::find(&name).map_err(|e| NodeError::Input(e.to_string()))
}

pub(super) fn scheduler(call: &Call<'_, '_>) -> Result<Scheduler, NodeError> {
    let name = call.text("scheduler")?;
    Scheduler::find(&name).map_err(|e| NodeError::Input(e.to_string()))
}

pub(super) fn ksampler(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (model, sampler) = (call.model("model")?, sampler(call)?);
    let (steps, denoise) = (call.steps()?, call.float("denoise")?);
    let levels = sigmas(&model, sampler, scheduler(call)?, steps, denoise)?;
    let seed = call.seed("seed")?;
    plain(call, &model, sampler, &levels, seed, true)
}

pub(super) fn advanced(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (model, sampler) = (call.model("model")?, sampler(call)?);
    let is_on = |input| Ok::<bool, NodeError>(&*call.text(input)? == "enable");
    let add_noise = is_on("add_noise")?;
    let window = Window {
        start_at_step: call.size("start_at_step")?,
        end_at_step: call.size("end_at_step")?,
        return_with_leftover_noise: is_on("return_with_leftover_noise")?,
    };
    let all = sigmas(&model, sampler, scheduler(call)?, call.steps()?, 1.0)?;
    let levels = window.cut(&all);
    let seed = call.seed("noise_seed")?;
    plain(call, &model, sampler, &levels, seed, add_noise)
}

/// Samples with the sampler's own options.
fn plain(
    call: &mut Call<'_, '_>,
    model: &DiffusionModel,
    sampler: &'static SamplerInfo,
    sigmas: &[f32],
    seed: u64,
    add_noise: bool,
) -> Result<Vec<Value>, NodeError> {
    let latents = call.latents("latent_image")?;
    let sampling = Sampling {
        model,
        positive: &call.prompts("positive")?,
        negative: &call.prompts("negative")?,
        third: None,
        cfg: call.float("cfg")? as f32,
        sampler,
        options: &SamplerOptions::default(),
        sigmas,
        seed: Seed {
            value: seed,
            rng: rng(call),
        },
        add_noise,
    };
    let sampled = sampling.run(call, &latents)?;
    Ok(vec![resumed(&latents, sampled.latent)])
}

/// Everything a run of a sampler is told but the latent.
pub(super) struct Sampling<'a> {
    pub(super) model: &'a DiffusionModel,
    pub(super) positive: &'a [Conditioning],
    pub(super) negative: &'a [Conditioning],
    pub(super) third: Option<Third<'a>>,
    pub(super) cfg: f32,
    pub(super) sampler: &'static SamplerInfo,
    pub(super) options: &'a SamplerOptions,
    pub(super) sigmas: &'a [f32],
    pub(super) seed: Seed,
    pub(super) add_noise: bool,
}

impl Sampling<'_> {
    pub(super) fn run(
        &self,
        call: &mut Call<'_, '_>,
        latents: &Latents,
    ) -> Result<Sampled, NodeError> {
        let latent = fitted(self.model, latents);
        let masks = latents.noise_mask.as_deref();
        let mask: Option<&Mask> = masks.map(|m| mask::one(m, "noise mask")).transpose()?;
        let noise = match (&latents.batch_index, self.add_noise) {
            (_, false) => Noise::None,
            (Some(places), true) => Noise::SeededAt(places),
            (None, true) => Noise::Seeded,
        };
        let request = SampleRequest {
            positive: self.positive,
            negative: self.negative,
            third: self.third,
            latent: &latent,
            noise,
            mask,
            frame_mask: &latents.frame_mask,
            sigmas: self.sigmas,
            sampler: self.sampler,
            options: self.options,
            seed: self.seed,
            cfg: self.cfg,
            precision: call.settings.precision,
            preview: call.settings.preview.as_ref(),
            beside: call.held_bytes,
            memory: None,
        };
        match sample(call.store, self.model, &request, &mut call.control) {
            Ok(sampled) => {
                call.tell_sampled(&sampled.latent, None);
                Ok(sampled)
            }
            Err(Unfinished { error, reached }) => {
                if let Some(reached) = &reached {
                    call.tell_sampled(&reached.denoised, Some(reached));
                }
                Err(error.into())
            }
        }
    }
}

/// An empty latent gets as many channels as the model has, and the size in its scale, as ComfyUI
/// does it.
pub(super) fn fitted(model: &DiffusionModel, latents: &Latents) -> Latent {
    let (latent, channels) = (&latents.latent, model.net().wants().channels);
    let own = model
        .latent_format()
        .map_or(SCALE, |format| format.scale_down);
    let given = latents.empty_scale.unwrap_or(own);
    let is_fit = latent.channels == channels && given == own;
    if is_fit || latent.values.iter().any(|&v| v != 0.0) {
        return latent.clone();
    }
    let scaled = |side: usize| ((side * given) as f64 / own as f64).round_ties_even() as usize;
    let size = LatentSize {
        width: scaled(latent.width).max(1),
        height: scaled(latent.height).max(1),
        ..latent.size()
    };
    Latent {
        is_video: latent.is_video,
        ..Latent::empty(latent.batch, channels, size)
    }
}

/// A sampled latent with the mask of the one it came from.
pub(super) fn resumed(from: &Latents, latent: Latent) -> Value {
    Value::from(Latents {
        latent,
        empty_scale: None,
        ..from.clone()
    })
}
