//! Takes pictures out of a session by rows, puts tiles together, and remembers how far a decode has
//! come.

use super::tiles::{At, Blend};
use super::{DecodePlan, Part};
use crate::EngineError;
use nino_graph::Session;

/// Rows of a decoded picture or frame, from the top down: values in 0..1 where the network keeps to
/// it, `[rows, width, 3]`. Large pictures are never whole in memory as floats.
#[derive(Clone, Copy, Debug)]
pub struct Band<'a> {
    /// Batch element.
    pub item: usize,
    pub frame: usize,
    /// Of the whole frame.
    pub width: usize,
    pub height: usize,
    /// The first row.
    pub y: usize,
    pub values: &'a [f32],
}

/// Takes the rows of each picture or frame as they are ready, in order.
pub type OnBand<'a> = dyn FnMut(Band<'_>) -> Result<(), EngineError> + 'a;

/// Bytes of rows taken out at a time, about.
const BAND_BYTES: usize = 2 << 20;

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
    pub(super) fn take(
        &mut self,
        session: &mut dyn Session,
        part: &Part,
        plan: &DecodePlan,
        (start, first): ((usize, usize), usize),
        on_band: &mut OnBand<'_>,
    ) -> Result<usize, EngineError> {
        let graph = part.plan.graph();
        let shape = graph.shape(part.output);
        let (height, width) = (shape[shape.rank() - 3], shape[shape.rank() - 2]);
        let next = first + shape.numel() / (height * width * 3);
        let dtype = graph.dtype(part.output);
        let row = width * 3 * dtype.block_bytes();
        // Sixteen rows of anything end at a multiple of 16 bytes.
        let n_rows = (BAND_BYTES / row).next_multiple_of(16).min(height);
        let mut bytes = vec![0; n_rows * row];
        let mut values = vec![0.0; n_rows * width * 3];
        for frame in first.max(self.frames)..next {
            for y in (0..height).step_by(n_rows) {
                let rows = n_rows.min(height - y);
                let at = ((frame - first) * height + y) * row;
                let bytes = &mut bytes[..rows * row];
                session.read_part(part.output, at, bytes)?;
                let values = &mut values[..rows * width * 3];
                nino_dtype::decode(dtype, bytes, values)?;
                match self.blend(plan, frame) {
                    None => on_band(Band {
                        item: self.item,
                        frame,
                        width,
                        height,
                        y,
                        values,
                    })?,
                    Some((blend, overlap)) => {
                        let scale = plan.scale();
                        let at = At {
                            x: start.0 * scale,
                            y: start.1 * scale,
                            width,
                            height,
                        };
                        blend.add(at, overlap, y, values);
                    }
                }
            }
            self.frames = frame + 1;
        }
        Ok(next)
    }

    fn blend(&mut self, plan: &DecodePlan, frame: usize) -> Option<(&mut Blend, usize)> {
        let tiling = plan.tiling?;
        if self.blends.is_empty() {
            let blend = |_| Blend::new(plan.width, plan.height);
            self.blends = (0..plan.n_frames).map(blend).collect();
        }
        Some((&mut self.blends[frame], tiling.overlap))
    }

    pub(super) fn next_tile(&mut self) {
        self.tile += 1;
        self.frames = 0;
    }

    /// Gives out what tiles have made and goes on to the next batch element.
    pub(super) fn next_item(
        &mut self,
        plan: &DecodePlan,
        on_band: &mut OnBand<'_>,
    ) -> Result<(), EngineError> {
        for (frame, blend) in std::mem::take(&mut self.blends).into_iter().enumerate() {
            on_band(Band {
                item: self.item,
                frame,
                width: plan.width,
                height: plan.height,
                y: 0,
                values: &blend.finish(),
            })?;
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
            .map_or(1, |p| width(p, p.output) / width(p, p.input))
    }
}
