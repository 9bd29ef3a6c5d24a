//! Where buffers are kept: directly in the arena's pages, over pages of their own, or on the host.

use super::lifetimes::{Buffer, Holds};
use super::limits::{Idle, Strategy};

/// Where values are kept that pass through windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The value lies in the arena, over several pages.
    Pages,
    /// The value lies in the host's memory, or in a file where the device's memory is the host's.
    Host,
}

impl Strategy {
    /// Where a buffer is kept; `None` directly in the arena.
    pub(super) fn home(&self, buffer: &Buffer) -> Option<Home> {
        if matches!(buffer.holds, Holds::Scratch(_) | Holds::Window { .. }) {
            return None;
        }
        let is_idle = |idle: Idle| buffer.bytes >= idle.above && ops(buffer) >= idle.ops;
        if buffer.bytes >= self.host_above || self.host_idle.is_some_and(is_idle) {
            Some(Home::Host)
        } else {
            (buffer.bytes > self.limits.page).then_some(Home::Pages)
        }
    }
}

/// See [`Idle::ops`].
fn ops(buffer: &Buffer) -> usize {
    match buffer.shared() {
        Some(_) => usize::MAX,
        None => buffer.end - buffer.start,
    }
}

/// Buffers by where they are kept.
#[derive(Default)]
pub(super) struct Homes {
    pub(super) direct: Vec<Buffer>,
    pub(super) pages: Vec<Buffer>,
    pub(super) host: Vec<Buffer>,
    /// Which values pass through windows, by node.
    pub(super) windowed: Vec<bool>,
}

impl Homes {
    /// The homes of the buffers of a graph of `len` values.
    pub(super) fn new(buffers: &[Buffer], len: usize, how: &Strategy) -> Homes {
        let mut homes = Homes {
            windowed: vec![false; len],
            ..Homes::default()
        };
        for buffer in buffers {
            let home = how.home(buffer);
            match home {
                None => &mut homes.direct,
                Some(Home::Pages) => &mut homes.pages,
                Some(Home::Host) => &mut homes.host,
            }
            .push(buffer.clone());
            let nodes = buffer.nodes().iter().filter(|_| home.is_some());
            nodes.for_each(|n| homes.windowed[n.index()] = true);
        }
        homes
    }
}
