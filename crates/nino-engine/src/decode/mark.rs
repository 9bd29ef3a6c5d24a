//! A copy in host memory of what a clip's next frames need of those before: where a decode goes on when
//! its device was lost.

use super::Part;
use super::carry::PIECE;
use crate::EngineError;
use nino_graph::{Backup, Session};
use std::time::Duration;

/// A copy takes this part of a clip's time at most, about.
const SHARE: f64 = 0.05;

/// A place in a clip between two runs.
#[derive(Debug)]
pub(super) struct Mark {
    /// Latent frames before it, and the frames they gave.
    pub(super) latent_frames: usize,
    pub(super) frames: usize,
    /// What layers have kept, by name.
    caches: Vec<(String, Vec<u8>)>,
}

impl Mark {
    /// The time of work after which a mark of what `part` keeps is worth making; `None` where it is more than
    /// should be copied.
    pub(super) fn after(part: &Part, backup: Backup) -> Option<Duration> {
        let graph = part.plan.graph();
        let bytes: usize = part.caches.iter().map(|c| graph.bytes(c.output)).sum();
        let copying = bytes as f64 / backup.bytes_per_second;
        let pays = Duration::from_secs_f64(copying / SHARE);
        // The mark before is there until this one is whole.
        (2 * bytes <= backup.most_bytes).then_some(pays.max(backup.every))
    }

    /// Of what `part` has kept in its last run.
    pub(super) fn new(
        session: &mut dyn Session,
        part: &Part,
        (latent_frames, frames): (usize, usize),
    ) -> Result<Mark, EngineError> {
        let graph = part.plan.graph();
        let mut caches = Vec::with_capacity(part.caches.len());
        for cache in &part.caches {
            let mut bytes = vec![0; graph.bytes(cache.output)];
            for (i, piece) in bytes.chunks_mut(PIECE).enumerate() {
                session.read_part(cache.output, i * PIECE, piece)?;
            }
            caches.push((cache.name.clone(), bytes));
        }
        Ok(Mark {
            latent_frames,
            frames,
            caches,
        })
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
