//! Takes pictures out of a session by rows, puts tiles together, and remembers how far a decode has
//! come.

use super::mark::Mark;
use super::tiles::{At, Blend};
use super::{DecodePlan, Part};
use crate::EngineError;
use nino_graph::{Backup, Session};
use std::time::Instant;

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

/// Host memory for pictures of so many pixels; `tiled` is how many frames wait for their last tile.
pub(super) fn picture_bytes(pixels: usize, tiled: Option<usize>) -> usize {
    // The picture and what its file is compressed to, then rows as read and as f32, or what it is
    // compressed with.
    let rows = (3 * BAND_BYTES).min(pixels * 24);
    let whole = pixels * 6 + rows.max(crate::media::png_work_bytes().min(pixels * 24));
    whole + tiled.map_or(0, |n_frames| Blend::bytes(pixels, n_frames))
}

/// How far a decode has come: what is behind it is not given out again, whatever happens to the device.
/// Pictures and tiles that are done are not computed again either, nor are a clip's frames before its last
/// mark.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// Batch element.
    pub(super) item: usize,
    /// Tile of that element.
    pub(super) tile: usize,
    /// Frames of that tile.
    frames: usize,
    /// Rows of the frame after those.
    rows: usize,
    /// Only with tiles.
    blend: Option<Blend>,
    /// How to keep copies, where they are of use.
    backup: Option<Backup>,
    /// Of that tile.
    pub(super) mark: Option<Mark>,
}

impl Cursor {
    /// With marks on the way, so that this can go on on another device.
    pub(super) fn with_marks(backup: Option<Backup>) -> Cursor {
        Cursor {
            backup,
            ..Cursor::default()
        }
    }

    /// Latent frames of the tile that need not be computed.
    pub(super) fn latent_frames_behind(&self) -> usize {
        self.mark.as_ref().map_or(0, |mark| mark.latent_frames)
    }

    /// Frames of the tile that need not be computed.
    pub(super) fn frames_behind(&self) -> usize {
        self.mark.as_ref().map_or(0, |mark| mark.frames)
    }

    /// Marks this place, where so many frames were computed and taken, if it is long enough `since` the last
    /// mark or the start; then that is now.
    pub(super) fn remember(
        &mut self,
        session: &mut dyn Session,
        part: &Part,
        place: (usize, usize),
        since: &mut Instant,
    ) -> Result<(), EngineError> {
        let wait = self.backup.and_then(|backup| Mark::after(part, backup));
        if wait.is_some_and(|wait| since.elapsed() >= wait) {
            let begun = Instant::now();
            self.mark = Some(Mark::new(session, part, place)?);
            tracing::debug!(took = ?begun.elapsed(), ?place, "marked");
            *since = Instant::now();
        }
        Ok(())
    }

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
            let rows_before = if frame == self.frames { self.rows } else { 0 };
            for y in (rows_before..height).step_by(n_rows) {
                let rows = n_rows.min(height - y);
                let at = ((frame - first) * height + y) * row;
                let bytes = &mut bytes[..rows * row];
                session.read_part(part.output, at, bytes)?;
                let values = &mut values[..rows * width * 3];
                nino_dtype::decode(dtype, bytes, values)?;
                if let Some(tiling) = plan.tiling {
                    let blend = self.blend.get_or_insert_with(|| {
                        Blend::new((plan.width, plan.height), plan.n_frames)
                    });
                    let scale = plan.scale();
                    let at = At {
                        x: start.0 * scale,
                        y: start.1 * scale,
                        width,
                        height,
                        frame,
                    };
                    blend.add(at, tiling.overlap, y, values);
                } else {
                    on_band(Band {
                        item: self.item,
                        frame,
                        width,
                        height,
                        y,
                        values,
                    })?;
                }
                self.rows = y + rows;
            }
            self.frames = frame + 1;
            self.rows = 0;
        }
        Ok(next)
    }

    pub(super) fn next_tile(&mut self) {
        self.tile += 1;
        self.frames = 0;
        self.mark = None;
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
