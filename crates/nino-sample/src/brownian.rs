//! Brownian motion over noise levels, for the SDE samplers: equal to torchsde's `BrownianTree` as
//! k-diffusion wraps it. Every increment follows from (seed, interval) alone, whatever was asked
//! before.
//!
//! The tree halves [t0, t1], rounding every time to 6 decimals. A node's increment splits between
//! its halves by a Brownian bridge whose normal draw is seeded by the node's place in the tree
//! (Kidger et al., "Efficient and accurate gradients for neural SDEs", 2021).

use std::collections::HashMap;

use crate::parallel;
use crate::rng::{Rng, seed_sequence};

const POOL: usize = 24;
/// Paths longer than this keep no draws: a query's 50 nodes or so would fill memory.
const MAX_CACHED: usize = 1 << 17;
/// Nodes that a query splits, at most: two paths down the tree to steps of a millionth.
const NODES: usize = 56;
/// The number of values from which on drawing is shared among threads.
const PARALLEL: usize = 1 << 16;

/// Bytes that a path of vectors of so many bytes keeps: its draws, where they are kept, and a
/// vector for each level of the tree.
pub(crate) fn path_bytes(vector: usize) -> usize {
    let cached = vector <= MAX_CACHED * size_of::<f32>();
    vector * if cached { 2 * NODES } else { NODES / 2 }
}

pub struct BrownianTree {
    seed: u64,
    rng: Rng,
    root: Node,
    len: usize,
    /// The increment over the whole of [t0, t1].
    total: Vec<f32>,
    /// Normals of the nodes the last query split; the next one, which begins where it ended, needs
    /// half of them.
    draws: HashMap<(u64, u64), Vec<f32>>,
    spare: Vec<Vec<f32>>,
}

#[derive(Clone, Copy)]
struct Node {
    start: f64,
    end: f64,
    key: u64,
    depth: u64,
}

impl BrownianTree {
    /// A path of `n` independent components between noise levels `t0` < `t1`.
    pub fn new(seed: u64, rng: Rng, t0: f32, t1: f32, n: usize) -> Self {
        let (t0, t1) = (f64::from(t0), f64::from(t1));
        let [w_seed, ..] = seed_sequence::<POOL, 3>(seed, &[]);
        let mut total = vec![0.0; n];
        rng.generator(u64::from(w_seed)).randn(&mut total);
        let scale = (t1 - t0).sqrt() as f32;
        total.iter_mut().for_each(|w| *w *= scale);
        let root = Node {
            start: round6(t0),
            end: round6(t1),
            key: 0,
            depth: 0,
        };
        Self {
            seed,
            rng,
            root,
            len: n,
            total,
            draws: HashMap::new(),
            spare: Vec::new(),
        }
    }

    /// The unit-variance noise of stepping from level `from` to level `to`: the increment over the
    /// interval, negated when the level falls, divided by the root of its length.
    pub fn noise(&mut self, from: f32, to: f32, out: &mut [f32]) {
        let clamp = |t: f32| round6(f64::from(t).clamp(self.root.start, self.root.end));
        let (ta, tb, sign) = if from < to {
            (from, to, 1.0)
        } else {
            (to, from, -1.0)
        };
        out.fill(0.0);
        let (lo, hi) = (clamp(ta), clamp(tb));
        if lo < hi {
            self.draw_ahead(lo, hi);
            let total = std::mem::take(&mut self.total);
            self.add(self.root, &total, lo, hi, out);
            self.total = total;
        }
        let scale = (to - from).abs().sqrt();
        out.iter_mut().for_each(|w| *w = *w * sign / scale);
    }

    /// Draws, on all cores, the normals a query will need; forgets those it will not.
    fn draw_ahead(&mut self, ta: f64, tb: f64) {
        let n = self.len;
        if n > MAX_CACHED {
            return;
        }
        let mut needed = Vec::new();
        self.root.splits(ta, tb, &mut needed);
        let mut known = std::mem::take(&mut self.draws);
        let mut missing = Vec::new();
        for node in needed {
            match known.remove(&node.id()) {
                Some(draw) => {
                    self.draws.insert(node.id(), draw);
                }
                None => missing.push((node, Vec::new())),
            }
        }
        self.spare.extend(known.into_values());
        for (_, buffer) in &mut missing {
            *buffer = self.buffer();
        }
        let threads = if n * missing.len() < PARALLEL {
            1
        } else {
            parallel::cores()
        };
        let this = &*self;
        parallel::for_each(missing.iter_mut(), threads, |(node, buffer)| {
            this.draw(*node, buffer);
        });
        self.draws.extend(
            missing
                .into_iter()
                .map(|(node, buffer)| (node.id(), buffer)),
        );
    }

    /// Adds the increment over [`ta`, `tb`], a part of `node` whose own increment is `w`.
    fn add(&mut self, node: Node, w: &[f32], ta: f64, tb: f64, out: &mut [f32]) {
        if node.is(ta, tb) {
            out.iter_mut().zip(w).for_each(|(o, w)| *o += w);
            return;
        }
        let mut left = self.buffer();
        match self.draws.get(&node.id()) {
            Some(draw) => left.copy_from_slice(draw),
            None => self.draw(node, &mut left),
        }
        let midway = node.midway();
        let (before, after) = (midway - node.start, node.end - midway);
        let inverse = 1.0 / (node.end - node.start);
        let deviation = (before * after * inverse).sqrt() as f32;
        let (before, inverse) = (before as f32, inverse as f32);
        left.iter_mut()
            .zip(w)
            .for_each(|(l, w)| *l = before * w * inverse + deviation * *l);

        let [first, second] = node.halves();
        if ta < midway {
            self.add(first, &left, ta, tb.min(midway), out);
        }
        if tb > midway {
            left.iter_mut().zip(w).for_each(|(l, w)| *l = w - *l);
            self.add(second, &left, ta.max(midway), tb, out);
        }
        self.spare.push(left);
    }

    fn draw(&self, node: Node, out: &mut [f32]) {
        let [w_seed, ..] = seed_sequence::<POOL, 4>(self.seed, &[node.key, node.depth]);
        self.rng.generator(u64::from(w_seed)).randn(out);
    }

    fn buffer(&mut self) -> Vec<f32> {
        self.spare.pop().unwrap_or_else(|| vec![0.0; self.len])
    }
}

impl Node {
    fn id(&self) -> (u64, u64) {
        (self.depth, self.key)
    }

    #[expect(
        clippy::float_cmp,
        reason = "times are rounded to the same decimal grid"
    )]
    fn is(&self, ta: f64, tb: f64) -> bool {
        ta == self.start && tb == self.end
    }

    fn midway(&self) -> f64 {
        round6(0.5 * (self.end + self.start))
    }

    fn halves(&self) -> [Self; 2] {
        let (midway, depth, key) = (self.midway(), self.depth + 1, self.key * 2);
        [
            Self {
                end: midway,
                key,
                depth,
                ..*self
            },
            Self {
                start: midway,
                key: key + 1,
                depth,
                ..*self
            },
        ]
    }

    /// The nodes that must be split to cut [`ta`, `tb`] out of this one.
    fn splits(self, ta: f64, tb: f64, out: &mut Vec<Self>) {
        if self.is(ta, tb) {
            return;
        }
        out.push(self);
        let midway = self.midway();
        let [first, second] = self.halves();
        if ta < midway {
            first.splits(ta, tb.min(midway), out);
        }
        if tb > midway {
            second.splits(ta.max(midway), tb, out);
        }
    }
}

/// Python's `round(t, 6)`: exact decimal rounding, which both languages' float formatting does.
fn round6(t: f64) -> f64 {
    format!("{t:.6}").parse().expect("a formatted float parses")
}
