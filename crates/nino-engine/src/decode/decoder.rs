//! A decode plan with its weights on the device: latents in, frames out, again and again.

use super::carry::carry;
use super::frames::{Cursor, OnBand};
use super::{DecodePlan, Part};
use crate::profile::Profile;
use crate::store::{Lease, Network};
use crate::{Control, EngineError, Latent, Stage, Store, VaeFile};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A loaded plan.
pub struct Decoder {
    pub plan: DecodePlan,
    /// A session for each part, in one arena.
    lease: Lease,
    pub load_time: Duration,
    /// Times every op of the runs that follow, when there.
    pub profile: Option<Profile>,
}

impl Decoder {
    /// Brings the plan's weights to the device, unless the store has them there.
    pub fn open(
        store: &Store,
        vae: &VaeFile,
        plan: DecodePlan,
        control: &mut Control<'_>,
    ) -> Result<Decoder, EngineError> {
        control.stage(Stage::Load)?;
        Decoder::open_for(Stage::Decode, store, vae, plan)
    }

    /// The same for a stage that is not a decode of its own.
    pub(crate) fn open_for(
        stage: Stage,
        store: &Store,
        vae: &VaeFile,
        plan: DecodePlan,
    ) -> Result<Decoder, EngineError> {
        let plans: Vec<_> = plan.parts.iter().map(|p| Arc::clone(&p.plan)).collect();
        let lease = store.open(&Network {
            stage,
            net: vae.id(),
            plans: &plans,
            source: &|| vae.params(),
        })?;
        Ok(Decoder {
            load_time: lease.load_time,
            plan,
            lease,
            profile: None,
        })
    }

    /// Gives the weights and sessions back for the next decode of the same plan.
    pub fn finish(self) {
        self.lease.finish();
    }

    /// Bytes for weights and activations, as allocated.
    pub fn measured_peak(&self) -> usize {
        self.plan.weight_bytes() + self.lease.arena_bytes()
    }

    /// Decodes every latent of the batch, which has the size of the plan and the decoder's own
    /// units; rows go out as they are ready, in order. Gives the time it took.
    pub fn run(
        &mut self,
        latent: &Latent,
        control: &mut Control<'_>,
        on_band: &mut OnBand<'_>,
    ) -> Result<Duration, EngineError> {
        self.resume(latent, &mut Cursor::default(), control, on_band)
    }

    /// [`Decoder::run`] from where an earlier one, on this device or another, ended, as far as the plan
    /// goes.
    pub(super) fn resume(
        &mut self,
        latent: &Latent,
        at: &mut Cursor,
        control: &mut Control<'_>,
        on_band: &mut OnBand<'_>,
    ) -> Result<Duration, EngineError> {
        control.stage(Stage::Decode)?;
        let started = Instant::now();
        let behind = self.plan.behind.div_ceil(self.plan.chunk.unwrap_or(1));
        let chunks = behind + self.plan.parts.iter().map(|p| p.runs).sum::<usize>();
        let tiles = self.plan.tile_starts();
        let total = latent.batch * tiles.len() * chunks;
        while at.item < latent.batch {
            while at.tile < tiles.len() {
                if at.latent_frames_behind() != self.plan.behind {
                    // The plan was for the rest of a clip, which is done.
                    return Ok(started.elapsed());
                }
                let done = (at.item * tiles.len() + at.tile) * chunks + behind;
                self.tile(latent, tiles[at.tile], at, (done, total), control, on_band)?;
                at.next_tile();
            }
            at.next_item(&self.plan, on_band)?;
        }
        Ok(started.elapsed())
    }

    /// Every chunk of one tile.
    fn tile(
        &mut self,
        latent: &Latent,
        start: (usize, usize),
        at: &mut Cursor,
        (mut done, total): (usize, usize),
        control: &mut Control<'_>,
        on_band: &mut OnBand<'_>,
    ) -> Result<(), EngineError> {
        let (parts, sessions) = (&self.plan.parts, self.lease.sessions());
        let (mut latent_frame, mut frame) = (self.plan.behind, at.frames_behind());
        let mut since = Instant::now();
        let runs = parts.iter().enumerate();
        let runs = runs.flat_map(|(i, part)| std::iter::repeat_n((i, part), part.runs));
        let mut before = None;
        for (i, part) in runs {
            let begun = Instant::now();
            match (before.replace(i), &at.mark) {
                (Some(before), _) => carry(sessions, parts, (before, i))?,
                (None, Some(mark)) => mark.restore(&mut *sessions[i], part)?,
                (None, None) => {}
            }
            let carried = begun.elapsed();
            let tile = crop(latent, at.item, latent_frame, part, start);
            let session = &mut *sessions[i];
            part.run(session, &tile, self.profile.as_mut(), control)?;
            let ran = begun.elapsed();
            latent_frame += part.frames;
            frame = at.take(session, part, &self.plan, (start, frame), on_band)?;
            let all = begun.elapsed();
            tracing::debug!(part = i, ?carried, took = ?ran, with_pictures = ?all, "decoded");
            done += 1;
            control.progress(done, total)?;
            if latent_frame < latent.frames {
                at.remember(session, part, (latent_frame, frame), &mut since)?;
            }
        }
        Ok(())
    }
}

/// Latent values of one tile and chunk, `[t, h, w, c]`.
fn crop(latent: &Latent, b: usize, frame: usize, part: &Part, (x, y): (usize, usize)) -> Vec<f32> {
    let shape = part.plan.graph().shape(part.input);
    let (h, w) = (shape[shape.rank() - 3], shape[shape.rank() - 2]);
    let (item, c) = (latent.item(b), latent.channels);
    let rows = (frame..frame + part.frames)
        .flat_map(|t| (y..y + h).map(move |row| t * latent.height + row));
    rows.flat_map(|row| &item[(row * latent.width + x) * c..(row * latent.width + x + w) * c])
        .copied()
        .collect()
}
