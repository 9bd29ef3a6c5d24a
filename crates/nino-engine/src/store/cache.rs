//! A few values by key; the one used longest ago makes room for a new one.

use std::collections::HashMap;
use std::hash::Hash;

pub(super) struct Cache<K, V> {
    most: usize,
    clock: u64,
    values: HashMap<K, (V, u64)>,
}

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    /// A cache of at most so many values.
    pub(super) fn new(most: usize) -> Cache<K, V> {
        Cache {
            most,
            clock: 0,
            values: HashMap::new(),
        }
    }

    pub(super) fn get(&mut self, key: &K) -> Option<V> {
        self.clock += 1;
        let (value, used) = self.values.get_mut(key)?;
        *used = self.clock;
        Some(value.clone())
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.clock += 1;
        self.values.insert(key, (value, self.clock));
        if self.values.len() > self.most {
            let oldest = self.values.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                self.values.remove(&key);
            }
        }
    }

    /// All values with their keys, from the one used longest ago to the latest.
    pub(super) fn to_vec(&self) -> Vec<(K, V)> {
        let mut all: Vec<_> = self.values.iter().collect();
        all.sort_by_key(|(_, (_, used))| *used);
        let pair = |(key, (value, _)): (&K, &(V, u64))| (key.clone(), value.clone());
        all.into_iter().map(pair).collect()
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
    }
}
