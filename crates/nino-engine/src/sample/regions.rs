//! Several prompts for one picture: each counts in its region, with its weight, during its part of
//! the sampling, and what they predict is averaged. Behaviour: ComfyUI's `calc_cond_batch`.

use super::denoise::{DenoiserPlan, PlanSpec, Prompt, Prompted, Rect};
use super::{LatentShape, SampleRequest, open, plan_for};
use crate::conditioning::{Area, Conditioning, Region};
use crate::{Control, DiffusionModel, EngineError, Store};
use nino_sample::{Network, Stop};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Latent pixels over which the border of an area fades.
const FADE: usize = 8;

/// One prompt of one side, and where it counts.
struct Part {
    /// Which of the networks sees it, and which of that network's prompts it is.
    network: usize,
    prompt: usize,
    rect: Rect,
    /// `[height, width]` of the rectangle.
    weights: Vec<f32>,
    /// Noise levels between which it counts: from the first down to the second.
    sigmas: (f64, f64),
    negative: bool,
}

/// The networks of all prompts: one for each size and length.
pub(super) struct Regions<'a> {
    networks: Vec<Prompted<'a>>,
    parts: Vec<Part>,
    shape: LatentShape,
    /// The noise level of the call that runs.
    sigma: Rc<Cell<f32>>,
    crop: Vec<f32>,
    out: Vec<f32>,
    counts: Vec<f32>,
    error: Option<EngineError>,
}

/// A prompt with its region resolved for one latent.
struct Placed<'p> {
    prompt: &'p Conditioning,
    region: &'p Region,
    area: Option<Rect>,
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
        let mut plans: Vec<Arc<DenoiserPlan>> = Vec::new();
        let mut prompts: Vec<Vec<Prompt<'_>>> = Vec::new();
        let mut parts = Vec::new();
        for (placed, negative) in sides(model, request, shape) {
            let rect = placed.area.unwrap_or(Rect::whole(shape));
            let plan = plan_for(store, model, spec(store, request, &placed, rect))?;
            let network = plans.iter().position(|p| Arc::ptr_eq(p, &plan));
            let network = network.unwrap_or_else(|| {
                plans.push(plan);
                prompts.push(Vec::new());
                plans.len() - 1
            });
            prompts[network].push(Prompt {
                conditioning: placed.prompt,
                negative,
                rect,
            });
            let (start, end) = placed.region.percent;
            parts.push(Part {
                network,
                prompt: prompts[network].len() - 1,
                rect,
                weights: weights(&placed, rect, shape),
                sigmas: (
                    model.sampling.percent_to_sigma(start),
                    model.sampling.percent_to_sigma(end),
                ),
                negative,
            });
        }
        let mut networks = Vec::new();
        for (plan, prompts) in plans.into_iter().zip(prompts) {
            let lease = open(store, model, &plan)?;
            let sets: Vec<_> = prompts.chunks(1).collect();
            networks.push(Prompted::new(
                lease,
                plan,
                model,
                &sets,
                request,
                control.cancel,
            )?);
        }
        Ok(Regions {
            networks,
            parts,
            shape,
            sigma: Rc::default(),
            crop: Vec::new(),
            out: Vec::new(),
            counts: Vec::new(),
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
        self.networks.into_iter().for_each(Prompted::finish);
    }

    /// The average of what the prompts of one side predict.
    fn side(
        &mut self,
        negative: bool,
        input: &[f32],
        timestep: f32,
        out: &mut [f32],
    ) -> Result<(), EngineError> {
        out.fill(0.0);
        self.counts.clear();
        self.counts
            .resize(self.shape.height * self.shape.width, 1e-37);
        let sigma = f64::from(self.sigma.get());
        let counts_now = |p: &Part| sigma <= p.sigmas.0 && sigma >= p.sigmas.1;
        for i in 0..self.parts.len() {
            let part = &self.parts[i];
            if part.negative != negative || !counts_now(part) {
                continue;
            }
            let (network, prompt) = (part.network, part.prompt);
            self.rows(i, |regions, from, to, _| {
                regions.crop[to].copy_from_slice(&input[from]);
            });
            let mut predicted = std::mem::take(&mut self.out);
            predicted.resize(self.crop.len(), 0.0);
            self.networks[network].run(prompt, &self.crop, timestep, &mut [&mut predicted])?;
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
        for plane in out.chunks_exact_mut(self.counts.len()) {
            plane
                .iter_mut()
                .zip(&self.counts)
                .for_each(|(o, c)| *o /= c);
        }
        Ok(())
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
        let planes = shape.batch * shape.channels;
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
        let mut ran = self.side(false, input, timestep, positive);
        if let (Ok(()), Some(negative)) = (&ran, negative) {
            ran = self.side(true, input, timestep, negative);
        }
        ran.map_err(|error| {
            self.error = Some(error);
            Stop
        })
    }
}

impl Rect {
    /// An area on a latent of that shape, cut at its borders.
    fn of(area: Area, shape: LatentShape) -> Rect {
        let (w, h) = (shape.width as f64, shape.height as f64);
        let round = |v: f64| v.round_ties_even().max(0.0) as usize;
        let rect = match area {
            Area::Latent {
                x,
                y,
                width,
                height,
            } => Rect {
                x,
                y,
                width,
                height,
            },
            Area::Share {
                x,
                y,
                width,
                height,
            } => Rect {
                x: round(x * w),
                y: round(y * h),
                width: round(width * w).max(1),
                height: round(height * h).max(1),
            },
        };
        let (x, y) = (rect.x.min(shape.width - 1), rect.y.min(shape.height - 1));
        Rect {
            x,
            y,
            width: rect.width.clamp(1, shape.width - x),
            height: rect.height.clamp(1, shape.height - y),
        }
    }

    /// Whether this lies within another one.
    fn is_inside(self, other: Rect) -> bool {
        self.x >= other.x
            && self.y >= other.y
            && self.x + self.width <= other.x + other.width
            && self.y + self.height <= other.y + other.height
    }
}

fn spec(store: &Store, request: &SampleRequest<'_>, placed: &Placed<'_>, rect: Rect) -> PlanSpec {
    PlanSpec {
        shape: LatentShape {
            height: rect.height,
            width: rect.width,
            ..LatentShape::of(request.latent)
        },
        tokens: placed.prompt.tokens(),
        guided: false,
        turns: true,
        dtype: request.precision.dtype(store.device()),
        preview_bytes: 0,
    }
}

/// The prompts of both sides with their places; true for negative ones. An area that only one side
/// has is given to the other side, too, with that side's prompt for the smallest area around it.
fn sides<'p>(
    model: &DiffusionModel,
    request: &SampleRequest<'p>,
    shape: LatentShape,
) -> Vec<(Placed<'p>, bool)> {
    let place = |prompt: &'p Conditioning| Placed {
        prompt,
        region: &prompt.region,
        area: prompt.region.area.map(|a| Rect::of(a, shape)),
    };
    let mut positive: Vec<Placed<'p>> = request.positive.iter().map(place).collect();
    let negative = request.negative(model).iter().map(place);
    let mut negative: Vec<Placed<'p>> = negative.collect();
    if !negative.is_empty() {
        give_areas(&positive, &mut negative);
        give_areas(&negative, &mut positive);
    }
    let positive = positive.into_iter().map(|p| (p, false));
    positive
        .chain(negative.into_iter().map(|p| (p, true)))
        .collect()
}

fn give_areas<'p>(from: &[Placed<'p>], to: &mut Vec<Placed<'p>>) {
    for given in from {
        let Some(area) = given.area else { continue };
        let mut smallest: Option<&Placed<'p>> = None;
        for own in to.iter() {
            let better = match (own.area, smallest.map(|s| s.area)) {
                (None, None) => true,
                (None, Some(_)) => false,
                (Some(a), known) => {
                    let size = |r: Rect| r.width * r.height;
                    let known = known.flatten();
                    area.is_inside(a) && known.is_none_or(|k| size(k) > size(a))
                }
            };
            if better {
                smallest = Some(own);
            }
        }
        let Some(smallest) = smallest.filter(|s| s.area != Some(area)) else {
            continue;
        };
        let added = Placed {
            prompt: smallest.prompt,
            region: given.region,
            area: Some(area),
        };
        to.push(added);
    }
}

/// How much a prompt counts at every place of its rectangle: its mask, or a border that fades where
/// the rectangle does not end with the picture.
fn weights(placed: &Placed<'_>, rect: Rect, shape: LatentShape) -> Vec<f32> {
    let Region {
        strength,
        mask,
        mask_strength,
        ..
    } = placed.region;
    let mut weights = vec![*strength; rect.width * rect.height];
    if let Some(mask) = mask {
        let mask = mask.resized(shape.width, shape.height);
        for (i, w) in weights.iter_mut().enumerate() {
            let (x, y) = (rect.x + i % rect.width, rect.y + i / rect.width);
            *w = mask.values[y * shape.width + x] * mask_strength * strength;
        }
        return weights;
    }
    if placed.area.is_none() {
        return weights;
    }
    let fade = |side: usize| FADE.min(side / 4);
    let ends = [
        (rect.y > 0, rect.y + rect.height < shape.height, true),
        (rect.x > 0, rect.x + rect.width < shape.width, false),
    ];
    for (at_start, at_end, is_row) in ends {
        let side = if is_row { rect.height } else { rect.width };
        let steps = fade(side);
        for t in 0..steps {
            let factor = 1.0 / steps as f32 * (t + 1) as f32;
            let mut line = |at: usize| {
                for (i, w) in weights.iter_mut().enumerate() {
                    let here = if is_row {
                        i / rect.width
                    } else {
                        i % rect.width
                    };
                    if here == at {
                        *w *= factor;
                    }
                }
            };
            if at_start {
                line(t);
            }
            if at_end {
                line(side - 1 - t);
            }
        }
    }
    weights
}
