//! Which dispatches must wait for earlier ones: byte ranges read and written since the last
//! barrier. Ranges are widened to whole 16-byte words, the least that kernels move: values of two
//! bytes share words with their neighbours.

use std::ops::Range;

/// A range of a buffer as one dispatch uses it; `buffer` is any number that tells buffers apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    buffer: u64,
    bytes: Range<u64>,
    writes: bool,
}

const WORD: u64 = 16;

impl Touch {
    pub(crate) fn new(buffer: u64, bytes: Range<u64>, writes: bool) -> Touch {
        let bytes = bytes.start / WORD * WORD..bytes.end.next_multiple_of(WORD);
        Touch {
            buffer,
            bytes,
            writes,
        }
    }

    fn collides(&self, other: &Touch) -> bool {
        (self.writes || other.writes)
            && self.buffer == other.buffer
            && self.bytes.start < other.bytes.end
            && other.bytes.start < self.bytes.end
    }
}

/// What has been touched since the last barrier.
#[derive(Debug, Default)]
pub(crate) struct Hazards {
    pending: Vec<Touch>,
}

impl Hazards {
    /// Takes note of the next dispatch and says whether a barrier has to come before it.
    pub(crate) fn barrier_before(&mut self, next: &[Touch]) -> bool {
        let wait = next
            .iter()
            .any(|t| self.pending.iter().any(|earlier| earlier.collides(t)));
        if wait {
            self.pending.clear();
        }
        for touch in next {
            if !self.pending.contains(touch) {
                self.pending.push(touch.clone());
            }
        }
        wait
    }
}

#[cfg(test)]
mod tests;
