//! Several prompts for one picture: each counts in its region, with its weight, during its part of
//! the sampling, and what they predict is averaged. Behaviour: ComfyUI's `calc_cond_batch`, which
//! averages finished latents; they are weighted sums of the input and the network's outputs, so
//! averages of outputs are the same.

use super::areas::{Placed, place};
use super::denoise::{Prompt, Prompted, Rect};
use super::planned::{self, DenoiserPlan, PlanSpec};
use super::{LatentShape, SampleRequest, open};
use crate::model::skip::SkipLayers;
use crate::model::unet::Shrinks;
use crate::store::Lease;
use crate::{Conditioning, Control, DiffusionModel, EngineError, Store};
use nino_models::KvCache;
use nino_models::unet::Shrink;
use nino_sample::{Beside, ModelSampling, Network, Stop};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The weight of a place that no prompt counts at.
const NOTHING: f32 = 1e-37;

/// One prompt of one side, and where it counts.
struct Part {
    /// Which of the networks sees it, and which of that network's prompts it is.
    network: usize,
    prompt: usize,
    rect: Rect,
    /// `[height, width]` of the rectangle.
    weights: Vec<f32>,
    /// Noise levels between which it counts: from the first down to the second.
    sigmas: (f32, f32),
    side: Side,
    skipping: Option<bool>,
    phase: usize,
}

/// What a prediction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Positive,
    Negative,
    /// The positive prompt as a network without some of its layers sees it.
    Weaker,
    /// The third prompt; see [`super::Third`].
    Third,
}

impl Side {
    pub(super) fn of(what: Beside) -> Side {
        match what {
            Beside::Weaker => Side::Weaker,
            Beside::Again => Side::Negative,
            Beside::Third => Side::Third,
        }
    }
}

/// The networks of all prompts: one for each size and length, which run by turns in one arena.
pub(super) struct Regions<'a> {
    lease: Lease,
    /// The prompts of each session.
    networks: Vec<Prompted<'a>>,
    parts: Vec<Part>,
    shape: LatentShape,
    sampling: ModelSampling,
    skip: Option<SkipLayers>,
    shrinks: Shrinks,
    /// What is made smaller in each of the phases.
    phases: Vec<Vec<Shrink>>,
    /// The noise level of the call that runs.
    sigma: Rc<Cell<f32>>,
    crop: Vec<f32>,
    out: Vec<f32>,
    counts: Vec<f32>,
    /// How much each place was looked at in the last prediction of the negative prompt.
    attended: Vec<f32>,
    error: Option<EngineError>,
}

impl<'a> Regions<'a> {
    /// Opens a network for every size of region and length of prompt.
    pub(super) fn open(
        store: &Store,
        model: &DiffusionModel,
        request: &SampleRequest<'_>,
        control: &Control<'a>,
    ) -> Result<Regions<'a>, EngineError> {
        let shape = LatentShape::of(request.latent);
        let turns = Turns::plan(store, model, request)?;
        let mut prompts: Vec<Vec<Prompt<'_>>> = vec![Vec::new(); turns.plans.len()];
        let mut parts = Vec::new();
        for turn in &turns.all {
            let Turn {
                placed,
                rect,
                network,
                ..
            } = turn;
            let (rect, network) = (*rect, *network);
            prompts[network].push(Prompt {
                conditioning: placed.prompt,
                negative: placed.side != Side::Positive,
                rect,
            });
            let (start, end) = placed.region.percent;
            let level = |percent: f64| model.sampling.percent_to_sigma(percent) as f32;
            parts.push(Part {
                network,
                prompt: prompts[network].len() - 1,
                rect,
                weights: placed.weights(rect, shape),
                sigmas: (level(start), level(end)),
                side: turn.side,
                skipping: turn.skipping,
                phase: turn.phase,
            });
        }
        let sigma = Rc::default();
        let lease = open(store, model, &turns.plans)?;
        let networks = turns.plans.iter().zip(prompts).map(|(plan, prompts)| {
            let sets: Vec<_> = prompts.chunks(1).collect();
            let cancel = control.cancel;
            let mut network = Prompted::new(plan.clone(), model, &sets, request, cancel)?;
            network.hear(&sigma);
            Ok::<_, EngineError>(network)
        });
        Ok(Regions {
            networks: networks.collect::<Result<_, _>>()?,
            lease,
            parts,
            shape,
            sampling: model.sampling.clone(),
            skip: model.skipped_layers().cloned(),
            shrinks: model.shrinks().clone(),
            phases: model.shrinks().phases(),
            sigma,
            crop: Vec::new(),
            out: Vec::new(),
            counts: Vec::new(),
            attended: Vec::new(),
            error: None,
        })
    }

    /// Where the noise level of a call is put before it.
    pub(super) fn sigma(&self) -> Rc<Cell<f32>> {
        Rc::clone(&self.sigma)
    }

    /// Why the last call stopped, if it did.
    pub(super) fn error(&mut self) -> Option<EngineError> {
        self.error.take()
    }

    /// Gives the sessions back for the next run.
    pub(super) fn finish(self) {
        self.lease.finish();
    }

    /// The average of what the prompts of one side predict.
    fn side(
        &mut self,
        side: Side,
        input: &[f32],
        timestep: f32,
        out: &mut [f32],
    ) -> Result<(), EngineError> {
        out.fill(0.0);
        self.counts.clear();
        self.counts
            .resize(self.shape.height * self.shape.width, NOTHING);
        let sigma = self.sigma.get();
        let skips_now = self.skip.as_ref().is_some_and(|s| s.counts_at(sigma));
        let shrinks = self.shrinks.at(f64::from(sigma));
        let phase = self.phases.iter().position(|phase| *phase == shrinks);
        let counts_now = |p: &Part| {
            phase == Some(p.phase)
                && sigma <= p.sigmas.0
                && sigma >= p.sigmas.1
                && p.skipping.is_none_or(|skipping| skipping == skips_now)
        };
        for i in 0..self.parts.len() {
            let part = &self.parts[i];
            if part.side != side || !counts_now(part) {
                continue;
            }
            let (network, prompt) = (part.network, part.prompt);
            self.rows(i, |regions, from, to, _| {
                regions.crop[to].copy_from_slice(&input[from]);
            });
            let mut predicted = std::mem::take(&mut self.out);
            predicted.resize(self.crop.len(), 0.0);
            let session = &mut *self.lease.sessions()[network];
            let outs = &mut [&mut predicted[..]];
            let prompted = &mut self.networks[network];
            prompted.run(session, prompt, &self.crop, timestep, outs)?;
            if side == Side::Negative {
                self.attended.clone_from(&prompted.attended);
            }
            self.rows(i, |regions, to, from, weights| {
                let part = &regions.parts[i];
                let weighted = predicted[from].iter().zip(&part.weights[weights]);
                for (o, (p, w)) in out[to].iter_mut().zip(weighted) {
                    *o += p * w;
                }
            });
            self.out = predicted;
            let part = &self.parts[i];
            for y in 0..part.rect.height {
                let at = (part.rect.y + y) * self.shape.width + part.rect.x;
                let row = &part.weights[y * part.rect.width..][..part.rect.width];
                for (c, w) in self.counts[at..].iter_mut().zip(row) {
                    *c += w;
                }
            }
        }
        let nothing = self.nothing(timestep);
        let planes = out.chunks_exact_mut(self.counts.len());
        for (plane, input) in planes.zip(input.chunks_exact(self.counts.len())) {
            for ((o, count), x) in plane.iter_mut().zip(&self.counts).zip(input) {
                *o = if *count > NOTHING {
                    *o / count
                } else {
                    nothing * x
                };
            }
        }
        Ok(())
    }

    /// What the network's input is multiplied by to be the output that means a finished latent of
    /// 0, which is what ComfyUI has where no prompt counts.
    fn nothing(&self, timestep: f32) -> f32 {
        let ModelSampling {
            prediction,
            sigma_data,
            ..
        } = self.sampling;
        let sigma = self.sigma.get();
        let (of_x, of_output) = prediction.denoised_scales(sigma, sigma_data, timestep);
        let scale = prediction.input_scale(sigma, sigma_data);
        -of_x / (of_output * scale)
    }

    /// Calls `f` for every row of a part's rectangle in every plane: its range in the whole latent,
    /// in the rectangle's own planes, and in its weights.
    fn rows(
        &mut self,
        part: usize,
        mut f: impl FnMut(
            &mut Regions<'a>,
            std::ops::Range<usize>,
            std::ops::Range<usize>,
            std::ops::Range<usize>,
        ),
    ) {
        let (shape, rect) = (self.shape, self.parts[part].rect);
        let planes = shape.batch * shape.channels * shape.frames;
        let area = rect.width * rect.height;
        self.crop.resize(planes * area, 0.0);
        for plane in 0..planes {
            for y in 0..rect.height {
                let at = (plane * shape.height + rect.y + y) * shape.width + rect.x;
                let own = y * rect.width;
                let inside = plane * area + own;
                f(
                    self,
                    at..at + rect.width,
                    inside..inside + rect.width,
                    own..own + rect.width,
                );
            }
        }
    }
}

impl Network for &mut Regions<'_> {
    fn forward(
        &mut self,
        input: &[f32],
        timestep: f32,
        positive: &mut [f32],
        negative: Option<&mut [f32]>,
    ) -> Result<(), Stop> {
        let mut ran = self.side(Side::Positive, input, timestep, positive);
        if let (Ok(()), Some(negative)) = (&ran, negative) {
            ran = self.side(Side::Negative, input, timestep, negative);
        }
        ran.map_err(|error| {
            self.error = Some(error);
            Stop
        })
    }

    fn beside(
        &mut self,
        what: Beside,
        input: &[f32],
        timestep: f32,
        out: &mut [f32],
    ) -> Result<(), Stop> {
        self.side(Side::of(what), input, timestep, out)
            .map_err(|error| {
                self.error = Some(error);
                Stop
            })
    }

    fn attended(&self) -> &[f32] {
        &self.attended
    }
}

/// The prompts of a request, and the plans that they take turns with.
pub(super) struct Turns<'r> {
    pub(super) all: Vec<Turn<'r>>,
    /// One for every size of region and length of prompt, all in one arena.
    pub(super) plans: Arc<Vec<Arc<DenoiserPlan>>>,
}

/// A prompt that counts.
pub(super) struct Turn<'r> {
    placed: Placed<'r>,
    /// Its part of the picture.
    rect: Rect,
    /// Which of the plans is for it.
    pub(super) network: usize,
    pub(super) side: Side,
    /// Whether it counts only while layers are left out, or only while none are; always when
    /// `None`.
    pub(super) skipping: Option<bool>,
    /// Which of the phases of [`Shrinks::phases`] it counts in.
    pub(super) phase: usize,
}

impl<'r> Turns<'r> {
    /// The plans, made now or before.
    pub(super) fn plan(
        store: &Store,
        model: &DiffusionModel,
        request: &SampleRequest<'r>,
    ) -> Result<Turns<'r>, EngineError> {
        let is_guided = request.is_guided(model);
        let phases = model.shrinks().phases();
        let (mut specs, mut all) = (Vec::<PlanSpec>::new(), Vec::new());
        for placed in place(request) {
            if placed.side == Side::Negative && !is_guided {
                continue;
            }
            let rect = placed.rect(LatentShape::of(request.latent))?;
            let whole = spec(store, model, request, placed.prompt, rect);
            let sides = sides(model.skipped_layers(), placed.side);
            let phases = phases.iter().enumerate();
            let turns = phases.flat_map(|phase| sides.iter().map(move |side| (phase, *side)));
            for ((phase, shrinks), (side, skipping, skipped)) in turns {
                let spec = PlanSpec {
                    skipped: skipped.to_vec(),
                    shrinks: shrinks.clone(),
                    ..whole.clone()
                };
                let known = specs.iter().position(|s| *s == spec);
                let network = known.unwrap_or_else(|| {
                    specs.push(spec);
                    specs.len() - 1
                });
                all.push(Turn {
                    placed: placed.clone(),
                    rect,
                    network,
                    side,
                    skipping,
                    phase,
                });
            }
        }
        let plans = store.plan(&model.id(), model.plan_key(&specs), || {
            planned::plan_turns(store.device(), model, &specs)
        })?;
        Ok(Turns { all, plans })
    }
}

/// What a prompt is run for: on which side, whether only while layers are left out or only while
/// none are, and which layers are left out.
fn sides(skip: Option<&SkipLayers>, side: Side) -> Vec<(Side, Option<bool>, &[usize])> {
    match (skip, side) {
        (Some(skip), Side::Negative) if skip.is_negative() => vec![
            (Side::Negative, Some(false), &[]),
            (Side::Negative, Some(true), skip.blocks()),
        ],
        (Some(skip), Side::Positive) if !skip.is_negative() => vec![
            (Side::Positive, None, &[]),
            (Side::Weaker, None, skip.blocks()),
        ],
        (_, side) => vec![(side, None, &[])],
    }
}

fn spec(
    store: &Store,
    model: &DiffusionModel,
    request: &SampleRequest<'_>,
    prompt: &Conditioning,
    rect: Rect,
) -> PlanSpec {
    PlanSpec {
        shape: LatentShape {
            height: rect.height,
            width: rect.width,
            ..LatentShape::of(request.latent)
        },
        tokens: prompt.tokens_for(model),
        queries: prompt.queries_for(model),
        guided: false,
        turns: true,
        dtype: model.dtype(request.precision, store.device()),
        preview_bytes: 0,
        references: prompt.reference_sizes(model),
        steering: model.steering().controlled(),
        image_tokens: prompt.clip.image_tokens(model),
        controls: prompt.clip.n_controls(model),
        camera: prompt.clip.sees_camera(model),
        sound: prompt
            .clip
            .sound
            .shape(model, LatentShape::of(request.latent)),
        skipped: Vec::new(),
        shrinks: Vec::new(),
        watched: model.is_watched(),
        biased: prompt.stretches(model),
        unguided: prompt.unguided,
        style: model.style_tokens(),
        kept: KvCache::Off,
        places: prompt.places,
        host_bytes: request.host_bytes(model),
    }
}
