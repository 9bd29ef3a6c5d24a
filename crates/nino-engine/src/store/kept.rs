//! What is on the device: weights, sessions that wait, sessions that are lent, and their bytes.

use super::lease::Sessions;
use super::{StoreUse, WeightsKey};
use crate::model::identity::NetId;
use nino_graph::{Memory, Plan, Weights};
use std::sync::Arc;

/// A number for each loan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaseId(u64);

/// Sessions that may wait at a time.
const IDLE: usize = 8;

#[derive(Default)]
pub(super) struct Kept {
    clock: u64,
    weights: Vec<KeptWeights>,
    idle: Vec<Idle>,
    lent: Vec<Lent>,
    /// Loans up to this one are of a device that was lost.
    lost: u64,
    peak: usize,
    peak_with_host: usize,
    loads: usize,
}

struct KeptWeights {
    key: WeightsKey,
    weights: Weights,
    bytes: usize,
    used: u64,
}

/// Sessions that wait for the next request.
struct Idle {
    key: WeightsKey,
    plans: Vec<Arc<Plan>>,
    sessions: Sessions,
    arena: usize,
    used: u64,
}

/// Sessions that a request is using, or will in a moment.
struct Lent {
    id: LeaseId,
    key: WeightsKey,
    /// Bytes of the arena, of constants, and of the ring that streamed weights pass through.
    arena: usize,
    /// Bytes of weights that are on their way.
    loading: usize,
    /// Bytes of host memory that the request holds beside.
    beside: usize,
}

/// What is busy leaves too little room.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoRoom {
    pub(super) need: usize,
    pub(super) busy: usize,
}

impl Kept {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Bytes on the device, what is on its way included.
    fn bytes(&self) -> usize {
        let StoreUse {
            weight_bytes,
            arena_bytes,
            ..
        } = self.usage();
        weight_bytes + arena_bytes + self.lent.iter().map(|l| l.loading).sum::<usize>()
    }

    pub(super) fn usage(&self) -> StoreUse {
        let busy_weights = self.weights.iter().filter(|w| self.is_busy(&w.key));
        let lent: usize = self.lent.iter().map(|l| l.arena + l.loading).sum();
        let idle: usize = self.idle.iter().map(|s| s.arena).sum();
        StoreUse {
            weight_bytes: self.weights.iter().map(|w| w.bytes).sum(),
            arena_bytes: idle + self.lent.iter().map(|l| l.arena).sum::<usize>(),
            busy_bytes: lent + busy_weights.map(|w| w.bytes).sum::<usize>(),
            peak_bytes: self.peak,
            peak_bytes_with_host: self.peak_with_host,
            loads: self.loads,
        }
    }

    pub(super) fn holds(&self, net: &NetId) -> bool {
        self.weights.iter().any(|w| w.key.0 == *net)
    }

    pub(super) fn reset_peak(&mut self) {
        (self.peak, self.peak_with_host) = (0, 0);
        self.note_peak();
    }

    fn note_peak(&mut self) {
        let bytes = self.bytes();
        let beside: usize = self.lent.iter().map(|l| l.beside).sum();
        self.peak = self.peak.max(bytes);
        self.peak_with_host = self.peak_with_host.max(bytes + beside);
    }

    fn is_busy(&self, key: &WeightsKey) -> bool {
        self.lent.iter().any(|l| l.key == *key)
    }

    /// Lends sessions that wait for exactly these plans. What else waits stays as far as it fits
    /// `capacity`, which is without `beside`.
    pub(super) fn lend_idle(
        &mut self,
        plans: &[Arc<Plan>],
        beside: usize,
        capacity: usize,
    ) -> Option<(LeaseId, Sessions)> {
        let same = |idle: &Idle| {
            idle.plans.len() == plans.len()
                && idle.plans.iter().zip(plans).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        let at = self.idle.iter().position(same)?;
        let idle = self.idle.remove(at);
        let id = LeaseId(self.tick());
        self.touch(&idle.key);
        let key = idle.key.clone();
        self.lent.push(Lent {
            id,
            key: idle.key,
            arena: idle.arena,
            loading: 0,
            beside,
        });
        while self.bytes() > capacity
            && (self.drop_oldest_sessions() || self.drop_oldest_weights(&key))
        {}
        self.note_peak();
        Some((id, idle.sessions))
    }

    /// Sets room aside for a network: for its arena, and for its weights unless they are there;
    /// `beside` is only remembered, because `capacity` is without it.
    /// Sessions that wait go first, then weights; of each, what was used longest ago.
    pub(super) fn make_room(
        &mut self,
        key: &WeightsKey,
        (needs, beside): (Memory, usize),
        capacity: usize,
    ) -> Result<LeaseId, NoRoom> {
        let there = self.weights.iter().any(|w| w.key == *key);
        let loading = if there { 0 } else { needs.weights };
        let arena = needs.arena.bytes() + needs.ring + needs.constants;
        let need = loading + arena;
        while self.bytes().saturating_add(need) > capacity {
            if self.drop_oldest_sessions() || self.drop_oldest_weights(key) {
                continue;
            }
            let busy = self.usage().busy_bytes;
            if busy > 0 {
                return Err(NoRoom { need, busy });
            }
            // Its own plan is larger than the budget: whoever made it knows why.
            break;
        }
        let id = LeaseId(self.tick());
        self.lent.push(Lent {
            id,
            key: key.clone(),
            arena,
            loading,
            beside,
        });
        self.note_peak();
        Ok(id)
    }

    fn drop_oldest_sessions(&mut self) -> bool {
        let oldest = (0..self.idle.len()).min_by_key(|&i| self.idle[i].used);
        oldest.map(|i| self.idle.remove(i)).is_some()
    }

    /// Drops the sessions of a network that wait.
    pub(super) fn drop_sessions_of(&mut self, net: &NetId) {
        self.idle.retain(|idle| idle.key.0 != *net);
    }

    /// Drops weights that nobody uses, but not those of `wanted`.
    fn drop_oldest_weights(&mut self, wanted: &WeightsKey) -> bool {
        let free = |w: &KeptWeights| w.key != *wanted && !self.is_busy(&w.key);
        let free = (0..self.weights.len()).filter(|&i| free(&self.weights[i]));
        let oldest = free.min_by_key(|&i| self.weights[i].used);
        oldest.map(|i| self.weights.remove(i)).is_some()
    }

    /// Weights that are there.
    pub(super) fn weights(&mut self, key: &WeightsKey) -> Option<Weights> {
        self.touch(key);
        let found = self.weights.iter().find(|w| w.key == *key)?;
        Some(Arc::clone(&found.weights))
    }

    fn touch(&mut self, key: &WeightsKey) {
        let now = self.tick();
        let found = self.weights.iter_mut().find(|w| w.key == *key);
        found.into_iter().for_each(|w| w.used = now);
    }

    /// The weights of a loan have arrived; those of a device that was lost meanwhile are of no use.
    pub(super) fn loaded(&mut self, id: LeaseId, weights: &Weights) {
        let (used, lost) = (self.tick(), self.lost);
        let mut lent = self.lent.iter_mut();
        let Some(lent) = lent.find(|l| l.id == id && l.id.0 > lost) else {
            return;
        };
        self.loads += 1;
        let bytes = std::mem::take(&mut lent.loading);
        self.weights.push(KeptWeights {
            key: lent.key.clone(),
            weights: Arc::clone(weights),
            bytes,
            used,
        });
    }

    /// Sessions come back from a loan, to wait for the next one.
    pub(super) fn give_back(&mut self, id: LeaseId, plans: Vec<Arc<Plan>>, sessions: Sessions) {
        let used = self.tick();
        let known = |l: &Lent| l.id == id && l.id.0 > self.lost;
        let Some(at) = self.lent.iter().position(known) else {
            return;
        };
        let Lent { key, arena, .. } = self.lent.remove(at);
        // Every size of picture has an arena of its own: without an end, a device without a budget
        // would fill up with them.
        while self.idle.len() >= IDLE {
            self.drop_oldest_sessions();
        }
        self.idle.push(Idle {
            key,
            plans,
            sessions,
            arena,
            used,
        });
    }

    /// A loan ends; where nothing is kept, its weights go too.
    pub(super) fn end(&mut self, id: LeaseId, keeps: bool) {
        self.lent.retain(|l| l.id != id);
        if !keeps {
            self.clear();
        }
    }

    /// Drops everything that nobody uses; whether there was anything.
    pub(super) fn clear(&mut self) -> bool {
        let before = self.idle.len() + self.weights.len();
        self.idle.clear();
        let busy: Vec<WeightsKey> = self.lent.iter().map(|l| l.key.clone()).collect();
        self.weights.retain(|w| busy.contains(&w.key));
        before > self.weights.len()
    }

    /// The device was lost: weights are of no use any more, and what comes back from a loan is
    /// dropped.
    pub(super) fn forget_device(&mut self) {
        self.lost = self.tick();
        self.idle.clear();
        self.weights.clear();
    }
}
