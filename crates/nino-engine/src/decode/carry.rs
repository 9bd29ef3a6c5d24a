//! Cached frames on their way from one run of a clip to the next, of the same graph or another one.
//!
//! A clip's graphs have one arena, and plans put the frames of a layer at one place of it: they stay where
//! they are.

use super::Part;
use crate::EngineError;
use nino_graph::{Session, Shared};
use nino_models::Recording;
use std::cmp::Reverse;

/// Bytes moved at a time.
pub(super) const PIECE: usize = 4 << 20;

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
    // Large ones first, the layers of one size in their order: what comes and goes is mostly of these sizes
    // and finds room where frames are not yet made.
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

/// Gives the next run, of part `to`, the frames that the last one, of part `from`, has kept; zeros where
/// it kept none.
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

#[cfg(test)]
mod tests;
