//! Cached frames on their way from one run of a clip to the next, of the same graph or another one,
//! and copies of them for when the device is lost.
//!
//! A clip's graphs have one arena, and plans put the frames of a layer at one place of it: they
//! stay where they are.

use super::Part;
use crate::EngineError;
use nino_graph::{Backup, Session, Shared};
use nino_models::Recording;
use std::cmp::Reverse;
use std::time::Duration;

/// Bytes moved at a time.
const PIECE: usize = 4 << 20;

/// Lets graphs that run by turns agree on where each layer's frames are.
pub(crate) fn share(recordings: &mut [Recording]) {
    let mut layers: Vec<(String, usize)> = Vec::new();
    // The first chunk's graph lacks some layers.
    for recording in recordings.iter().rev() {
        for cache in &recording.caches {
            if layers.iter().all(|(name, _)| *name != cache.name) {
                let bytes = recording.graph.bytes(cache.output);
                layers.push((cache.name.clone(), bytes));
            }
        }
    }
    // Large ones first, the layers of one size in their order: what comes and goes is mostly of
    // these sizes and finds room where frames are not yet made.
    layers.sort_by_key(|(_, bytes)| Reverse(*bytes));
    for recording in recordings {
        let shared = layers.iter().map(|(name, bytes)| {
            let cache = recording.caches.iter().find(|c| c.name == *name);
            Shared {
                bytes: *bytes,
                value: cache.map(|c| c.input.unwrap_or(c.output)),
            }
        });
        let shared = shared.collect();
        recording.graph.share(shared);
    }
}

/// Gives the next run, of part `to`, the frames that the last one, of part `from`, has kept; zeros
/// where it kept none.
pub(crate) fn carry(
    sessions: &mut [Box<dyn Session>],
    parts: &[Part],
    (from, to): (usize, usize),
) -> Result<(), EngineError> {
    for cache in &parts[to].caches {
        let Some(input) = cache.input else { continue };
        let before = parts[from].caches.iter().find(|c| c.name == cache.name);
        let Some(output) = before.map(|c| c.output) else {
            sessions[to].clear(input)?;
            continue;
        };
        if parts[from].plan.place(output) == parts[to].plan.place(input) {
            continue;
        }
        // The graph reads the old frames after it has made the new ones.
        let bytes = parts[to].plan.graph().bytes(input);
        let mut piece = vec![0; PIECE.min(bytes)];
        for at in (0..bytes).step_by(PIECE) {
            let piece = &mut piece[..PIECE.min(bytes - at)];
            sessions[from].read_part(output, at, piece)?;
            sessions[to].write_part(input, at, piece)?;
        }
    }
    Ok(())
}

/// A copy takes this part of a clip's time at most, about.
const SHARE: f64 = 0.05;

/// A place in a clip between two runs, with a copy in host memory of what its next frames need of
/// those before: where a decode goes on when its device was lost.
#[derive(Debug)]
pub(super) struct Mark {
    /// Latent frames before it, and the frames they gave.
    pub(super) latent_frames: usize,
    pub(super) frames: usize,
    /// What layers have kept, by name.
    pub(super) caches: Vec<(String, Vec<u8>)>,
}

impl Mark {
    /// The time of work after which a mark of what `part` keeps is worth making; `None` where it is
    /// more than should be copied.
    pub(super) fn after(part: &Part, backup: Backup) -> Option<Duration> {
        let graph = part.plan.graph();
        let bytes: usize = part.caches.iter().map(|c| graph.bytes(c.output)).sum();
        let copying = bytes as f64 / backup.bytes_per_second;
        let pays = Duration::from_secs_f64(copying / SHARE);
        // The mark before is there until this one is whole.
        (2 * bytes <= backup.most_bytes).then_some(pays.max(backup.every))
    }

    /// What `part` has kept in its last run.
    pub(super) fn copy(
        session: &mut dyn Session,
        part: &Part,
    ) -> Result<Vec<(String, Vec<u8>)>, EngineError> {
        let graph = part.plan.graph();
        let mut caches = Vec::with_capacity(part.caches.len());
        for cache in &part.caches {
            let mut bytes = vec![0; graph.bytes(cache.output)];
            for (i, piece) in bytes.chunks_mut(PIECE).enumerate() {
                session.read_part(cache.output, i * PIECE, piece)?;
            }
            caches.push((cache.name.clone(), bytes));
        }
        Ok(caches)
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

#[cfg(test)]
mod tests;
