//! Gives buffers their offsets: those alive together must not overlap, the arena should be small.

use super::lifetimes::Buffer;
use super::{Limits, Plan};
use std::cmp::Reverse;
use std::ops::RangeInclusive;

/// The memory for activations of plans that run by turns in one arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaSize {
    /// See [`Plan::direct_bytes`].
    pub direct: usize,
    /// See [`Plan::pages_bytes`].
    pub pages: usize,
    /// See [`Plan::host_bytes`].
    pub host: usize,
}

impl ArenaSize {
    pub fn of<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> ArenaSize {
        let sizes = plans.into_iter().map(|plan| plan.size);
        sizes.fold(ArenaSize::default(), ArenaSize::max)
    }

    /// What is enough for both.
    #[must_use]
    pub(super) fn max(self, other: ArenaSize) -> ArenaSize {
        ArenaSize {
            direct: self.direct.max(other.direct),
            pages: self.pages.max(other.pages),
            host: self.host.max(other.host),
        }
    }

    /// Bytes on the device.
    pub fn bytes(self) -> usize {
        self.direct + self.pages
    }
}

pub(super) struct Packed {
    /// One per buffer.
    pub(super) offsets: Vec<usize>,
    pub(super) bytes: usize,
}

/// Places buffers one after the other at the lowest free offset, in several orders, and keeps the
/// best: largest first is usually close to the lower bound, first come first served sometimes wins.
/// Those that other graphs share come before all, side by side, whatever else there is.
pub(super) fn pack(buffers: &[Buffer], limits: &Limits) -> Packed {
    let lifetime = |b: &Buffer| b.end - b.start + 1;
    let mut orders: Vec<Vec<usize>> = vec![(0..buffers.len()).collect(); 3];
    orders[0].sort_by_key(|&i| (Reverse(buffers[i].bytes), buffers[i].start));
    orders[1].sort_by_key(|&i| {
        (
            Reverse(buffers[i].bytes * lifetime(&buffers[i])),
            buffers[i].start,
        )
    });
    orders[2].sort_by_key(|&i| (buffers[i].start, Reverse(buffers[i].bytes)));
    orders
        .iter()
        .map(|order| first_fit(buffers, order, limits))
        .min_by_key(|packed| packed.bytes)
        .unwrap_or(Packed {
            offsets: Vec::new(),
            bytes: 0,
        })
}

fn first_fit(buffers: &[Buffer], order: &[usize], limits: &Limits) -> Packed {
    let mut offsets = vec![0; buffers.len()];
    let mut shared: Vec<usize> = (0..buffers.len())
        .filter(|&i| buffers[i].shared().is_some())
        .collect();
    shared.sort_by_key(|&i| buffers[i].shared());
    let mut placed = Placed::new(buffers);
    let mut total = 0usize;
    for i in shared {
        let bytes = buffers[i].bytes;
        offsets[i] = on_one_page(total.next_multiple_of(limits.align), bytes, limits.page);
        total = offsets[i] + bytes;
        placed.add(i);
    }
    let mut taken: Vec<(usize, usize)> = Vec::new();
    for &i in order.iter().filter(|&&i| buffers[i].shared().is_none()) {
        let b = &buffers[i];
        taken.clear();
        taken.extend(
            placed
                .meeting(b)
                .map(|p| (offsets[p], offsets[p] + buffers[p].bytes)),
        );
        taken.sort_unstable();
        let mut at = 0;
        for &(start, end) in &taken {
            if at + b.bytes <= start {
                break;
            }
            at = on_one_page(
                at.max(end.next_multiple_of(limits.align)),
                b.bytes,
                limits.page,
            );
        }
        offsets[i] = at;
        placed.add(i);
        total = total.max(at + b.bytes);
    }
    Packed {
        offsets,
        bytes: total.next_multiple_of(limits.align),
    }
}

/// Buffers that have their offset, found by when they are alive. Graphs have thousands of buffers,
/// of which few are alive together.
struct Placed<'b> {
    buffers: &'b [Buffer],
    /// For every stretch of positions, the buffers alive in it.
    stretches: Vec<Vec<usize>>,
}

impl<'b> Placed<'b> {
    /// Positions of a stretch.
    const LEN: usize = 32;

    fn new(buffers: &'b [Buffer]) -> Placed<'b> {
        let last = buffers.iter().map(|b| b.end).max().unwrap_or(0);
        Placed {
            buffers,
            stretches: vec![Vec::new(); last / Self::LEN + 1],
        }
    }

    fn stretches_of(buffer: &Buffer) -> RangeInclusive<usize> {
        buffer.start / Self::LEN..=buffer.end / Self::LEN
    }

    fn add(&mut self, i: usize) {
        for stretch in Self::stretches_of(&self.buffers[i]) {
            self.stretches[stretch].push(i);
        }
    }

    /// The placed buffers that hold something while `buffer` does, each once.
    fn meeting(&self, buffer: &'b Buffer) -> impl Iterator<Item = usize> {
        let all = Self::stretches_of(buffer);
        let first = *all.start();
        all.flat_map(move |stretch| {
            let here = self.stretches[stretch].iter().copied();
            here.filter(move |&p| {
                let other = &self.buffers[p];
                // Told in the first stretch that both are alive in.
                stretch == first.max(other.start / Self::LEN) && other.meets(buffer)
            })
        })
    }
}

/// Moves a buffer that would cross a page's end to the next page.
fn on_one_page(at: usize, bytes: usize, page: usize) -> usize {
    if at / page == (at + bytes.max(1) - 1) / page {
        at
    } else {
        (at / page + 1) * page
    }
}
