//! A decode plan with its weights on the device: latents in, frames out, again and again; and how
//! far a decode has come, so that it can go on on another device.

use super::carry::{Mark, carry};
use super::output::{Made, OnBand, Output};
use super::{DecodePlan, Part};
use crate::profile::Profile;
use crate::store::{Lease, Network};
use crate::{Control, EngineError, Latent, Stage, Store, VaeFile};
use nino_graph::{Backup, RunOptions, Session};
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

/// How far a decode has come. Pictures and tiles that are done are not computed again, nor are a
/// clip's frames before its last mark.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// What was taken out; its batch element is the one being decoded.
    pub(super) output: Output,
    /// Tile of that element.
    tile: usize,
    /// The last mark of that tile.
    pub(super) mark: Option<Mark>,
    /// How to make marks, where they are of use.
    backup: Option<Backup>,
}

/// Frames of a tile that are behind.
#[derive(Clone, Copy, Debug)]
struct Behind {
    latent_frames: usize,
    frames: usize,
}

impl Cursor {
    /// A cursor that makes marks on the way, so that this can go on on another device.
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

    /// Marks this place, if it is long enough `since` the last mark or the start; then that is now.
    fn remember(
        &mut self,
        session: &mut dyn Session,
        part: &Part,
        behind: Behind,
        since: &mut Instant,
    ) -> Result<(), EngineError> {
        let wait = self.backup.and_then(|backup| Mark::after(part, backup));
        if wait.is_some_and(|wait| since.elapsed() >= wait) {
            let begun = Instant::now();
            self.mark = Some(Mark {
                latent_frames: behind.latent_frames,
                frames: behind.frames,
                caches: Mark::copy(session, part)?,
            });
            tracing::debug!(took = ?begun.elapsed(), ?behind, "marked");
            *since = Instant::now();
        }
        Ok(())
    }

    fn next_tile(&mut self) {
        self.tile += 1;
        self.output.next_tile();
        self.mark = None;
    }

    fn next_item(
        &mut self,
        plan: &DecodePlan,
        on_band: &mut OnBand<'_>,
    ) -> Result<(), EngineError> {
        self.tile = 0;
        self.output.next_item(plan, on_band)
    }
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
            beside: plan.beside,
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

    /// Runs every part as often as [`Decoder::run`] would for so many latents, without values: for
    /// a device that computes nothing.
    pub(super) fn rehearse(
        &mut self,
        batch: usize,
        control: &Control<'_>,
    ) -> Result<(), EngineError> {
        let rounds = batch * self.plan.tile_starts().len();
        let parts = self.plan.parts.iter().zip(self.lease.sessions());
        for (part, session) in parts {
            for _ in 0..rounds * part.runs {
                session.run(RunOptions {
                    cancel: Some(control.cancel),
                    ..RunOptions::default()
                })?;
            }
        }
        Ok(())
    }

    /// [`Decoder::run`] from where an earlier one, on this device or another, ended, as far as the
    /// plan goes.
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
        while at.output.item < latent.batch {
            while at.tile < tiles.len() {
                if at.latent_frames_behind() != self.plan.behind {
                    // The plan was for the rest of a clip, which is done.
                    return Ok(started.elapsed());
                }
                let done = (at.output.item * tiles.len() + at.tile) * chunks + behind;
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
        tile: (usize, usize),
        at: &mut Cursor,
        (mut done, total): (usize, usize),
        control: &mut Control<'_>,
        on_band: &mut OnBand<'_>,
    ) -> Result<(), EngineError> {
        let (parts, sessions) = (&self.plan.parts, self.lease.sessions());
        let mut behind = Behind {
            latent_frames: self.plan.behind,
            frames: at.mark.as_ref().map_or(0, |mark| mark.frames),
        };
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
            let input = crop(latent, at.output.item, behind.latent_frames, part, tile);
            let session = &mut *sessions[i];
            part.run(session, &input, self.profile.as_mut(), control)?;
            let ran = begun.elapsed();
            let made = Made {
                part,
                first: behind.frames,
                tile,
            };
            behind = Behind {
                latent_frames: behind.latent_frames + part.frames,
                frames: at.output.take(session, &self.plan, made, on_band)?,
            };
            let all = begun.elapsed();
            tracing::debug!(part = i, ?carried, took = ?ran, with_pictures = ?all, "decoded");
            done += 1;
            control.progress(done, total)?;
            if behind.latent_frames < latent.frames {
                at.remember(session, part, behind, &mut since)?;
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
