//! Takes pictures out of a session by rows, and puts tiles together.

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
    /// The width of the whole frame.
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

/// Host memory for pictures of so many pixels; `tiled` is how many frames wait for their last tile.
pub(super) fn picture_bytes(pixels: usize, tiled: Option<usize>) -> usize {
    // The picture and what its file is compressed to, then rows as read and as f32, or what it is
    // compressed with.
    let rows = (3 * BAND_BYTES).min(pixels * 24);
    let whole = pixels * 6 + rows.max(crate::media::png_work_bytes().min(pixels * 24));
    whole + tiled.map_or(0, |n_frames| Blend::bytes(pixels, n_frames))
}

/// The frames that one run made.
#[derive(Clone, Copy)]
pub(super) struct Made<'a> {
    pub(super) part: &'a Part,
    /// Number of the first frame in the clip.
    pub(super) first: usize,
    /// Latent x and y of its tile.
    pub(super) tile: (usize, usize),
}

/// How much of a tile was taken out: what was is not given out again, whatever happens to the
/// device.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Batch element.
    pub(super) item: usize,
    /// Frames of the tile.
    frames: usize,
    /// Rows of the frame after those.
    rows: usize,
    /// Only with tiles.
    blend: Option<Blend>,
}

impl Output {
    /// Takes the frames of one run; gives the number of the next one. Frames that were taken before
    /// are passed over.
    pub(super) fn take(
        &mut self,
        session: &mut dyn Session,
        plan: &DecodePlan,
        made: Made<'_>,
        on_band: &mut OnBand<'_>,
    ) -> Result<usize, EngineError> {
        let graph = made.part.plan.graph();
        let shape = graph.shape(made.part.output);
        let (height, width) = (shape[shape.rank() - 3], shape[shape.rank() - 2]);
        let next = made.first + shape.numel() / (height * width * 3);
        let dtype = graph.dtype(made.part.output);
        let row = width * 3 * dtype.block_bytes();
        // Sixteen rows of anything end at a multiple of 16 bytes.
        let n_rows = (BAND_BYTES / row).next_multiple_of(16).min(height);
        let mut bytes = vec![0; n_rows * row];
        let mut values = vec![0.0; n_rows * width * 3];
        for frame in made.first.max(self.frames)..next {
            let rows_before = if frame == self.frames { self.rows } else { 0 };
            for y in (rows_before..height).step_by(n_rows) {
                let rows = n_rows.min(height - y);
                let at = ((frame - made.first) * height + y) * row;
                let bytes = &mut bytes[..rows * row];
                session.read_part(made.part.output, at, bytes)?;
                let values = &mut values[..rows * width * 3];
                nino_dtype::decode(dtype, bytes, values)?;
                let band = Band {
                    item: self.item,
                    frame,
                    width,
                    height,
                    y,
                    values,
                };
                self.give(band, plan, made.tile, on_band)?;
                self.rows = y + rows;
            }
            self.frames = frame + 1;
            self.rows = 0;
        }
        Ok(next)
    }

    /// Gives out rows of a picture, or adds rows of a tile to those of the others.
    fn give(
        &mut self,
        band: Band<'_>,
        plan: &DecodePlan,
        tile: (usize, usize),
        on_band: &mut OnBand<'_>,
    ) -> Result<(), EngineError> {
        let Some(tiling) = plan.tiling else {
            return on_band(band);
        };
        let new = || Blend::new((plan.width, plan.height), plan.n_frames);
        let at = At {
            x: tile.0 * plan.scale,
            y: tile.1 * plan.scale,
            width: band.width,
            height: band.height,
            frame: band.frame,
        };
        let blend = self.blend.get_or_insert_with(new);
        blend.add(at, tiling.overlap, band.y, band.values);
        Ok(())
    }

    pub(super) fn next_tile(&mut self) {
        self.frames = 0;
    }

    /// Gives out what tiles have made and goes on to the next batch element.
    pub(super) fn next_item(
        &mut self,
        plan: &DecodePlan,
        on_band: &mut OnBand<'_>,
    ) -> Result<(), EngineError> {
        let blend = self.blend.take().into_iter();
        for (frame, values) in blend.flat_map(Blend::frames).enumerate() {
            on_band(Band {
                item: self.item,
                frame,
                width: plan.width,
                height: plan.height,
                y: 0,
                values: &values,
            })?;
        }
        self.item += 1;
        self.frames = 0;
        Ok(())
    }
}
