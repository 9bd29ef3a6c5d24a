//! The memory of sessions that run by turns: values in the arena and outside it. One call of one
//! session is at work in it at a time ([`nino_graph::taking_turns`]).

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use nino_graph::{ArenaSize, ExecError, Place};

use crate::memory::Buffer;
use crate::spill::Spill;
use crate::threads::Threads;

#[derive(Clone)]
pub(super) struct Arena(Arc<Memory>);

struct Memory {
    inside: Buffer,
    outside: Option<Spill>,
}

impl Arena {
    pub(super) fn new(
        size: ArenaSize,
        threads: &Threads,
        temp_dir: Option<&Path>,
    ) -> Result<Arena, ExecError> {
        let outside = match size.host {
            0 => None,
            bytes => Some(Spill::new(temp_dir, bytes as u64)?),
        };
        let inside = Buffer::zeroed_by(threads, size.bytes(), "the arena")?;
        Ok(Arena(Arc::new(Memory { inside, outside })))
    }

    /// Whether another session uses it, too.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub(super) fn len(&self) -> usize {
        self.0.inside.len()
    }

    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.0.inside.as_ptr()
    }

    pub(super) fn outside(&self) -> Option<&Spill> {
        self.0.outside.as_ref()
    }

    /// Writes to a value from byte `at` on. A value without a place is not written.
    pub(super) fn write(&self, place: Place, at: usize, bytes: &[u8]) -> Result<(), ExecError> {
        match (place, self.outside()) {
            (Place::Arena(span), _) => {
                let value = self.bytes(span.offset..span.offset + span.bytes);
                value[at..at + bytes.len()].copy_from_slice(bytes);
            }
            (Place::Host(span), Some(outside)) => {
                outside.write((span.offset + at) as u64, bytes)?;
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn fill(&self, byte: u8) {
        self.bytes(0..self.len()).fill(byte);
    }

    /// Gives bytes of the arena for one copy. Callers drop the slice before they ask for another.
    #[allow(clippy::mut_from_ref)] // the arena is a cell
    pub(super) fn bytes(&self, range: Range<usize>) -> &mut [u8] {
        assert!(range.end <= self.len(), "{range:?} of {}", self.len());
        // SAFETY: inside the buffer, by the check above; no kernel runs and no other slice of it is
        // alive, since one call of one session is at work at a time and lets go of it in one
        // statement.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr().add(range.start), range.len()) }
    }
}
