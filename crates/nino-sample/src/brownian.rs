//! Brownian motion over noise levels, for the SDE samplers: equal to torchsde's `BrownianTree` as k-diffusion
//! wraps it. Every increment follows from (seed, interval) alone, whatever was asked before.
//!
//! The tree halves [t0, t1], rounding every time to 6 decimals. A node's increment splits between its halves by
//! a Brownian bridge whose normal draw is seeded by the node's place in the tree (Kidger et al., "Efficient and
//! accurate gradients for neural SDEs", 2021).

use crate::rng::{Rng, seed_sequence};

const POOL: usize = 24;

pub struct BrownianTree {
    seed: u64,
    rng: Rng,
    root: Node,
    /// The increment over the whole of [t0, t1].
    total: Vec<f32>,
    scratch: Vec<Vec<f32>>,
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
            total,
            scratch: Vec::new(),
        }
    }

    /// The unit-variance noise of stepping from level `from` to level `to`: the increment over the interval,
    /// negated when the level falls, divided by the root of its length.
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
            let total = std::mem::take(&mut self.total);
            self.add(self.root, &total, lo, hi, out);
            self.total = total;
        }
        let scale = (to - from).abs().sqrt();
        out.iter_mut().for_each(|w| *w = *w * sign / scale);
    }

    /// Adds the increment over [`ta`, `tb`], a part of `node` whose own increment is `w`.
    fn add(&mut self, node: Node, w: &[f32], ta: f64, tb: f64, out: &mut [f32]) {
        #[expect(
            clippy::float_cmp,
            reason = "times are rounded to the same decimal grid"
        )]
        if ta == node.start && tb == node.end {
            out.iter_mut().zip(w).for_each(|(o, w)| *o += w);
            return;
        }
        let middle = 0.5 * (node.end + node.start);
        let midway = round6(middle);
        let mut left = self.scratch.pop().unwrap_or_default();
        left.resize(w.len(), 0.0);
        let [w_seed, ..] = seed_sequence::<POOL, 4>(self.seed, &[node.key, node.depth]);
        self.rng.generator(u64::from(w_seed)).randn(&mut left);
        let (before, after) = (midway - node.start, node.end - midway);
        let inverse = 1.0 / (node.end - node.start);
        let deviation = (before * after * inverse).sqrt() as f32;
        let (before, inverse) = (before as f32, inverse as f32);
        left.iter_mut()
            .zip(w)
            .for_each(|(l, w)| *l = before * w * inverse + deviation * *l);

        let depth = node.depth + 1;
        if ta < midway {
            let child = Node {
                start: node.start,
                end: midway,
                key: node.key * 2,
                depth,
            };
            self.add(child, &left, ta, tb.min(midway), out);
        }
        if tb > midway {
            left.iter_mut().zip(w).for_each(|(l, w)| *l = w - *l);
            let child = Node {
                start: midway,
                end: node.end,
                key: node.key * 2 + 1,
                depth,
            };
            self.add(child, &left, ta.max(midway), tb, out);
        }
        self.scratch.push(left);
    }
}

/// Python's `round(t, 6)`: exact decimal rounding, which both languages' float formatting does.
fn round6(t: f64) -> f64 {
    format!("{t:.6}").parse().expect("a formatted float parses")
}
