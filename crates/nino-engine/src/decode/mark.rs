//! A copy in host memory of what a clip's next frames need of those before: where a decode goes on when
//! its device was lost.

use super::Part;
use super::carry::PIECE;
use crate::EngineError;
use nino_graph::{Backup, Session};
use std::time::{Duration, Instant};

/// A copy takes this part of a clip's time at most, about.
const SHARE: u32 = 20;

/// A place in a clip between two runs.
#[derive(Debug)]
pub(super) struct Mark {
    /// Latent frames before it, and the frames they gave.
    pub(super) latent_frames: usize,
    pub(super) frames: usize,
    /// What layers have kept, by name.
    caches: Vec<(String, Vec<u8>)>,
    took: Duration,
}

impl Mark {
    /// Of what `part` has kept in its last run; `None` where it is more than should be copied.
    pub(super) fn new(
        session: &mut dyn Session,
        part: &Part,
        (latent_frames, frames): (usize, usize),
        backup: Backup,
    ) -> Result<Option<Mark>, EngineError> {
        let begun = Instant::now();
        let graph = part.plan.graph();
        let bytes: usize = part.caches.iter().map(|c| graph.bytes(c.output)).sum();
        // The mark before is there until this one is whole.
        if 2 * bytes > backup.most_bytes {
            return Ok(None);
        }
        let mut caches = Vec::with_capacity(part.caches.len());
        for cache in &part.caches {
            let mut bytes = vec![0; graph.bytes(cache.output)];
            for (i, piece) in bytes.chunks_mut(PIECE).enumerate() {
                session.read_part(cache.output, i * PIECE, piece)?;
            }
            caches.push((cache.name.clone(), bytes));
        }
        let took = begun.elapsed();
        tracing::debug!(bytes, ?took, latent_frames, "frames copied");
        Ok(Some(Mark {
            latent_frames,
            frames,
            caches,
            took,
        }))
    }

    /// How long after this mark another one is worth its time.
    pub(super) fn lasts(&self, backup: Backup) -> Duration {
        backup.every.max(self.took * SHARE)
    }

    /// Gives a run of `part`, the next one, the frames from before; zeros where none were kept.
    pub(super) fn restore(
        &self,
        session: &mut dyn Session,
        part: &Part,
    ) -> Result<(), EngineError> {
        for cache in &part.caches {
            let Some(input) = cache.input else { continue };
            let Some((_, bytes)) = self.caches.iter().find(|(name, _)| *name == cache.name) else {
                session.clear(input)?;
                continue;
            };
            for (i, piece) in bytes.chunks(PIECE).enumerate() {
                session.write_part(input, i * PIECE, piece)?;
            }
        }
        Ok(())
    }
}
