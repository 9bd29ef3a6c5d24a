//! Puts what the runs give together into whole frames, and remembers how far a decode has come.

use super::tiles::{At, Blend};
use super::{DecodePlan, Part};
use crate::EngineError;

/// A decoded picture or frame: values in 0..1 where the network keeps to it, `[h, w, 3]`.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub width: usize,
    pub height: usize,
    pub values: &'a [f32],
}

/// Takes each picture or frame as it is ready: batch element, frame, values.
pub type OnFrame<'a> = dyn FnMut(usize, usize, Frame<'_>) -> Result<(), EngineError> + 'a;

/// How far a decode has come: what is behind it is not done again, whatever happens to the device.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// Batch element.
    pub(super) item: usize,
    /// Tile of that element.
    pub(super) tile: usize,
    /// Frames of that tile.
    pub(super) frames: usize,
    /// One per frame, only with tiles.
    blends: Vec<Blend>,
}

impl Cursor {
    /// Takes the frames of one run, the first of them `first`; gives the number of the next one.
    /// Frames that were taken before are passed over.
    pub(super) fn add(
        &mut self,
        plan: &DecodePlan,
        (x, y): (usize, usize),
        first: usize,
        values: &[f32],
        on_frame: &mut OnFrame<'_>,
    ) -> Result<usize, EngineError> {
        let scale = plan.scale();
        let (width, height) = plan.tile_pixels();
        if plan.tiling.is_some() && self.blends.is_empty() {
            let blend = |_| Blend::new(plan.width, plan.height);
            self.blends = (0..plan.n_frames).map(blend).collect();
        }
        let frames = values.chunks_exact(width * height * 3);
        let next = first + frames.len();
        for (i, values) in frames.enumerate().skip(self.frames.saturating_sub(first)) {
            match plan.tiling {
                None => {
                    let frame = Frame {
                        width,
                        height,
                        values,
                    };
                    on_frame(self.item, first + i, frame)?;
                }
                Some(t) => {
                    let at = At {
                        x: x * scale,
                        y: y * scale,
                        width,
                        height,
                    };
                    self.blends[first + i].add(at, t.overlap, values);
                }
            }
            self.frames = first + i + 1;
        }
        Ok(next)
    }

    pub(super) fn next_tile(&mut self) {
        self.tile += 1;
        self.frames = 0;
    }

    /// Gives out what tiles have made and goes on to the next batch element.
    pub(super) fn next_item(
        &mut self,
        plan: &DecodePlan,
        on_frame: &mut OnFrame<'_>,
    ) -> Result<(), EngineError> {
        for (i, blend) in std::mem::take(&mut self.blends).into_iter().enumerate() {
            let values = blend.finish();
            let frame = Frame {
                width: plan.width,
                height: plan.height,
                values: &values,
            };
            on_frame(self.item, i, frame)?;
        }
        self.item += 1;
        self.tile = 0;
        self.frames = 0;
        Ok(())
    }
}

impl DecodePlan {
    /// Latent x and y of every tile.
    pub(super) fn tile_starts(&self) -> Vec<(usize, usize)> {
        let Some(t) = self.tiling else {
            return vec![(0, 0)];
        };
        let scale = self.scale();
        let xs = t.starts(self.width / scale, scale);
        t.starts(self.height / scale, scale)
            .into_iter()
            .flat_map(|y| xs.iter().map(move |&x| (x, y)).collect::<Vec<_>>())
            .collect()
    }

    /// Pixels per latent pixel.
    fn scale(&self) -> usize {
        let width = |p: &Part, node| {
            let shape = p.plan.graph().shape(node);
            shape[shape.rank() - 2]
        };
        self.parts
            .first()
            .map_or(1, |p| width(p, p.pictures) / width(p, p.latent))
    }

    fn tile_pixels(&self) -> (usize, usize) {
        let part = &self.parts[0];
        let shape = part.plan.graph().shape(part.pictures);
        (shape[shape.rank() - 2], shape[shape.rank() - 3])
    }
}
