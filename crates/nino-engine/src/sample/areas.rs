//! Where prompts count in a latent: areas, masks and weights, resolved for its size. Behaviour:
//! ComfyUI's `resolve_areas_and_cond_masks`, `create_cond_with_same_area_if_none` and
//! `get_area_and_mult`.

use super::denoise::Rect;
use super::regions::Side;
use super::{LatentShape, SampleRequest};
use crate::conditioning::{Area, Conditioning, Region};
use crate::{EngineError, Mask};

/// Latent pixels over which the border of an area fades.
const FADE: usize = 8;
/// The least side of the area around a mask, in latent pixels.
const LEAST_SIDE: usize = 8;

/// A prompt with its region resolved for one latent.
#[derive(Clone)]
pub(super) struct Placed<'p> {
    pub(super) prompt: &'p Conditioning,
    pub(super) region: &'p Region,
    pub(super) side: Side,
    /// The mask at the latent's size.
    mask: Option<Mask>,
    /// The area as it was asked for: it may reach beyond the latent.
    area: Option<Rect>,
}

/// The prompts of all sides with their places. An area that only one side has is given to the
/// others, too, with that side's prompt for the smallest area around it.
pub(super) fn place<'p>(request: &SampleRequest<'p>) -> Vec<Placed<'p>> {
    let shape = LatentShape::of(request.latent);
    let of = |prompts: &'p [Conditioning], side: Side| -> Vec<Placed<'p>> {
        let placed = prompts.iter().map(|p| Placed::new(p, shape, side));
        placed.collect()
    };
    let mut sides = [
        of(request.positive, Side::Positive),
        of(request.third_prompts(), Side::Third),
        of(request.negative, Side::Negative),
    ];
    // What a model brings along has no area, and is given none.
    let is_own = request.third.is_some_and(|third| third.is_patch());
    let is_placed = |side: usize| side != 1 || !is_own;
    for from in 0..sides.len() {
        let given = sides[from].clone();
        let others = sides.iter_mut().enumerate();
        for (_, to) in others.filter(|(to, _)| *to != from && is_placed(*to)) {
            give_areas(&given, to);
        }
    }
    sides.into_iter().flatten().collect()
}

impl<'p> Placed<'p> {
    fn new(prompt: &'p Conditioning, shape: LatentShape, side: Side) -> Placed<'p> {
        let region = &prompt.region;
        let mask = region.mask.as_ref();
        let mask = mask.map(|m| m.resized(shape.width, shape.height));
        let area = match &mask {
            Some(mask) if region.mask_bounds => Some(bounds(mask)),
            _ => region.area.map(|area| rect(area, shape)),
        };
        Placed {
            prompt,
            region,
            side,
            mask,
            area,
        }
    }

    /// The part of a latent that the model sees for it: its area, cut at the latent's borders.
    pub(super) fn rect(&self, shape: LatentShape) -> Result<Rect, EngineError> {
        let Some(Rect {
            x,
            y,
            width,
            height,
        }) = self.area
        else {
            return Ok(Rect::whole(shape));
        };
        if x >= shape.width || y >= shape.height || width == 0 || height == 0 {
            return Err(EngineError::AreaOutside {
                x,
                y,
                width: shape.width,
                height: shape.height,
            });
        }
        Ok(Rect {
            x,
            y,
            width: width.min(shape.width - x),
            height: height.min(shape.height - y),
        })
    }

    /// How much the prompt counts at every place of its rectangle, `[height, width]`: its mask, or
    /// a border that fades where the rectangle does not end with the picture.
    pub(super) fn weights(&self, rect: Rect, shape: LatentShape) -> Vec<f32> {
        let mut weights = vec![self.region.strength; rect.width * rect.height];
        if let Some(mask) = &self.mask {
            for (i, w) in weights.iter_mut().enumerate() {
                let (x, y) = (rect.x + i % rect.width, rect.y + i / rect.width);
                *w *= mask.values[y * shape.width + x] * self.region.mask_strength;
            }
        } else if self.area.is_some() {
            fade(&mut weights, rect, shape);
        }
        weights
    }
}

/// The smallest rectangle around everything that is not 0. One of nothing is as small as can be: it
/// counts nowhere.
fn bounds(mask: &Mask) -> Rect {
    let painted = mask.values.iter().enumerate().filter(|(_, v)| **v != 0.0);
    let places = painted.map(|(i, _)| (i % mask.width, i / mask.width));
    let ends = places.fold(None, |ends: Option<[usize; 4]>, (x, y)| {
        let [left, top, right, bottom] = ends.unwrap_or([x, y, x, y]);
        Some([left.min(x), top.min(y), right.max(x), bottom.max(y)])
    });
    let [x, y, right, bottom] = ends.unwrap_or([0, 0, 0, 0]);
    Rect {
        x,
        y,
        width: (right - x + 1).max(LEAST_SIDE),
        height: (bottom - y + 1).max(LEAST_SIDE),
    }
}

/// An area in latent pixels.
fn rect(area: Area, shape: LatentShape) -> Rect {
    let (w, h) = (shape.width as f64, shape.height as f64);
    let round = |v: f64| v.round_ties_even().max(0.0) as usize;
    match area {
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
    }
}

/// Whether a rectangle lies within another one.
fn is_inside(inner: Rect, outer: Rect) -> bool {
    inner.x >= outer.x
        && inner.y >= outer.y
        && inner.x + inner.width <= outer.x + outer.width
        && inner.y + inner.height <= outer.y + outer.height
}

fn give_areas<'p>(from: &[Placed<'p>], to: &mut Vec<Placed<'p>>) {
    for given in from {
        let Some(area) = given.area else { continue };
        let mut smallest: Option<&Placed<'p>> = None;
        for own in to.iter() {
            let better = match (own.area, smallest.map(|s| s.area)) {
                (None, known) => known.is_none(),
                (Some(own), known) => {
                    let size = |r: Rect| r.width * r.height;
                    let known = known.flatten();
                    is_inside(area, own) && known.is_none_or(|known| size(known) > size(own))
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
            side: smallest.side,
            ..given.clone()
        };
        to.push(added);
    }
}

/// Fades the sides of a rectangle that are not the latent's.
fn fade(weights: &mut [f32], rect: Rect, shape: LatentShape) {
    // What is left at a distance from a side, of a rectangle so long that way.
    let left = |distance: usize, length: usize| {
        let steps = FADE.min(length / 4);
        if distance < steps {
            1.0 / steps as f32 * (distance + 1) as f32
        } else {
            1.0
        }
    };
    let (w, h) = (rect.width, rect.height);
    let ends_right = rect.x + w >= shape.width;
    let ends_below = rect.y + h >= shape.height;
    for (i, weight) in weights.iter_mut().enumerate() {
        let (x, y) = (i % w, i / w);
        let sides = [
            (rect.y > 0, y, h),
            (!ends_below, h - 1 - y, h),
            (rect.x > 0, x, w),
            (!ends_right, w - 1 - x, w),
        ];
        for (fades, distance, length) in sides {
            if fades {
                *weight *= left(distance, length);
            }
        }
    }
}
