//! Prompts that are steered by `ControlNet`s: which networks a run needs, pictures encoded for
//! those that see them so, and when each counts.

use super::{LatentShape, SampleRequest, Third};
use crate::encode::encode_image;
use crate::model::Steering;
use crate::{
    Conditioning, Control, DiffusionModel, EncodeOptions, EngineError, Hint, HintImage, Image,
    Latent, Store,
};
use std::sync::Arc;

/// A request whose prompts are steered: the model beside the networks that do it, and the negative
/// prompts with the pictures that count for both sides.
pub(super) struct Steered {
    model: DiffusionModel,
    positive: Vec<Conditioning>,
    negative: Vec<Conditioning>,
    third: Vec<Conditioning>,
}

impl Steered {
    /// `None` where nothing is steered.
    pub(super) fn of(
        model: &DiffusionModel,
        request: &SampleRequest<'_>,
    ) -> Result<Option<Steered>, EngineError> {
        let all = request.positive.iter().chain(request.negative);
        let mut all = all.chain(request.third_prompts());
        if model.hints().is_empty() && all.all(|prompt| prompt.hints.is_empty()) {
            return Ok(None);
        }
        let (mut positive, mut negative) = (request.positive.to_vec(), request.negative.to_vec());
        let mut third = request.third_prompts().to_vec();
        let is_own = request.third.is_some_and(|third| third.is_patch());
        let shared = positive.iter().flat_map(|prompt| &prompt.hints);
        let shared: Vec<Arc<Hint>> = shared.filter(|hint| hint.both_sides).cloned().collect();
        let others = third.iter_mut().filter(|_| !is_own).chain(&mut negative);
        for prompt in others.filter(|prompt| prompt.hints.is_empty()) {
            prompt.hints.clone_from(&shared);
        }
        // What steers the model steers every prompt.
        let all = positive.iter_mut().chain(&mut negative);
        for prompt in all.chain(&mut third) {
            prompt.hints.extend_from_slice(model.hints());
            for hint in prompt.hints.iter_mut().filter(|h| h.net.is_lora()) {
                let net = hint.net.for_model(model)?;
                Arc::make_mut(hint).net = net;
            }
        }
        let looked_at = if request.is_guided(model) {
            &negative[..]
        } else {
            &[]
        };
        let all = positive.iter().chain(looked_at).chain(&third);
        let steering = Steering::of(all.map(|prompt| &prompt.hints[..]));
        if steering.nets().is_empty() {
            return Ok(None);
        }
        for net in steering.nets() {
            net.check(model)?;
        }
        Ok(Some(Steered {
            model: model.steered(steering),
            positive,
            negative,
            third,
        }))
    }

    /// The model and the request to go on with.
    pub(super) fn run<'a>(
        &'a self,
        request: &SampleRequest<'a>,
    ) -> (&'a DiffusionModel, SampleRequest<'a>) {
        let request = SampleRequest {
            positive: &self.positive,
            negative: &self.negative,
            third: request.third.map(|third| Third {
                prompts: &self.third,
                ..third
            }),
            ..*request
        };
        (&self.model, request)
    }

    /// Encodes the pictures that networks see so.
    pub(super) fn encode(
        &mut self,
        store: &Store,
        request: &SampleRequest<'_>,
        control: &mut Control<'_>,
    ) -> Result<(), EngineError> {
        let mut made: Vec<(Arc<Hint>, Arc<Hint>)> = Vec::new();
        let prompts = self.positive.iter_mut().chain(&mut self.negative);
        let prompts = prompts.chain(&mut self.third);
        for hint in prompts.flat_map(|prompt| &mut prompt.hints) {
            let known = made.iter().find(|(given, _)| Arc::ptr_eq(given, hint));
            let encoded = match known {
                Some((_, encoded)) => Arc::clone(encoded),
                None => Arc::new(encode(store, &self.model, request, hint, control)?),
            };
            made.push((Arc::clone(hint), Arc::clone(&encoded)));
            *hint = encoded;
        }
        Ok(())
    }
}

fn encode(
    store: &Store,
    model: &DiffusionModel,
    request: &SampleRequest<'_>,
    hint: &Hint,
    control: &mut Control<'_>,
) -> Result<Hint, EngineError> {
    let shape = LatentShape::of(request.latent);
    let Some((pictures, vae)) = hint.to_encode(shape.height, shape.width)? else {
        return Ok(hint.clone());
    };
    let options = EncodeOptions {
        precision: request.precision,
        ..EncodeOptions::default()
    };
    let mut encoded = |image: &Image| -> Result<Latent, EngineError> {
        let mut latent = encode_image(store, vae, image, &options, control)?.latent;
        if let Some(format) = model.latent_format() {
            latent.scale_to_model(format);
        }
        Ok(latent)
    };
    let latent = encoded(&pictures.image)?;
    let rest = pictures.rest.as_ref().map(&mut encoded).transpose()?;
    let latent = pictures.joined(&latent, rest.as_ref());
    Ok(Hint {
        seen: HintImage::Encoded(Arc::new(latent)),
        ..hint.clone()
    })
}

/// When a prompt is steered by each of a model's networks, and how strongly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pull {
    strength: f32,
    /// Noise levels between which it counts: from the first down to the second.
    sigmas: (f32, f32),
}

impl Pull {
    /// Those of a prompt, for each of the model's networks.
    pub(super) fn of(model: &DiffusionModel, prompt: &Conditioning) -> Vec<Pull> {
        let placed = model.steering().placed(&prompt.hints).into_iter();
        let level = |percent: f64| model.sampling.percent_to_sigma(percent) as f32;
        let pull = |hint: Option<&Hint>| match hint {
            None => Pull {
                strength: 0.0,
                sigmas: (0.0, 0.0),
            },
            Some(hint) => Pull {
                strength: hint.strength,
                sigmas: (level(hint.percent.0), level(hint.percent.1)),
            },
        };
        placed.map(pull).collect()
    }

    /// What the network's outputs are multiplied by at a noise level.
    pub(super) fn at(self, sigma: f32) -> f32 {
        let counts = sigma <= self.sigmas.0 && sigma >= self.sigmas.1;
        if counts { self.strength } else { 0.0 }
    }
}
