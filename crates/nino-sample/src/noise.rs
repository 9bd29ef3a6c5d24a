//! Where noise comes from: the initial noise of a latent, and the fresh noise of each stochastic
//! step. Latents are flat f32 in torch's order, [b, c, h, w] or [b, c, t, h, w].

use std::collections::BTreeMap;

use crate::Error;
use crate::brownian::BrownianTree;
use crate::rng::{Generator, Rng};

/// Batch indices beyond this would draw for minutes before the first step.
pub const MAX_BATCH_INDEX: usize = 4096;

/// A seed and the stream it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seed {
    pub value: u64,
    pub rng: Rng,
}

impl Seed {
    pub fn new(value: u64) -> Self {
        Self {
            value,
            rng: Rng::Torch,
        }
    }

    /// The stream of an ancestral sampler. On the CPU, ComfyUI seeds it one higher, lest it repeat
    /// the initial noise; a CUDA device's stream differs anyway.
    pub fn step_generator(self) -> Generator {
        match self.rng {
            Rng::Torch => self.rng.generator(self.value.wrapping_add(1)),
            Rng::Philox => self.rng.generator(self.value),
        }
    }
}

/// Initial noise of a whole batch: one stream over all of it, so image `k` depends on its place.
pub fn initial(seed: Seed, len: usize) -> Vec<f32> {
    let mut noise = vec![0.0; len];
    seed.rng.generator(seed.value).randn(&mut noise);
    noise
}

/// Initial noise of chosen members of a batch: image `k` gets what the `k`th of single-image draws
/// gives, so one image of a batch can be made again alone.
pub fn initial_at(seed: Seed, image_len: usize, indices: &[usize]) -> Result<Vec<f32>, Error> {
    if let Some(&index) = indices.iter().find(|&&i| i > MAX_BATCH_INDEX) {
        return Err(Error::BatchIndex {
            index,
            max: MAX_BATCH_INDEX,
        });
    }
    let mut generator = seed.rng.generator(seed.value);
    let mut images: BTreeMap<usize, Vec<f32>> = indices.iter().map(|&i| (i, Vec::new())).collect();
    let mut image = vec![0.0; image_len];
    for i in 0..=indices.iter().copied().max().unwrap_or(0) {
        generator.randn(&mut image);
        if let Some(kept) = images.get_mut(&i) {
            kept.clone_from(&image);
        }
    }
    Ok(indices
        .iter()
        .flat_map(|i| images[i].iter().copied())
        .collect())
}

/// Noise of a stochastic sampler, drawn step by step into a buffer of its own.
pub struct StepNoise {
    source: Source,
    buffer: Vec<f32>,
}

enum Source {
    Stream(Generator),
    Tree(BrownianTree),
}

impl StepNoise {
    /// Independent draws in the order of calls.
    pub fn stream(generator: Generator, len: usize) -> Self {
        Self {
            source: Source::Stream(generator),
            buffer: vec![0.0; len],
        }
    }

    /// Increments of one Brownian path over the levels of `sigmas`, which do not depend on the
    /// steps taken.
    pub fn brownian(seed: Seed, sigmas: &[f32], len: usize) -> Self {
        let positive = sigmas.iter().copied().filter(|&s| s > 0.0);
        let low = positive.clone().fold(f32::INFINITY, f32::min);
        let high = positive.fold(0.0, f32::max);
        let tree = BrownianTree::new(seed.value, seed.rng, low.min(high), high, len);
        Self {
            source: Source::Tree(tree),
            buffer: vec![0.0; len],
        }
    }

    /// Unit noise for the step between two levels.
    pub fn draw(&mut self, from: f32, to: f32) -> &[f32] {
        match &mut self.source {
            Source::Stream(generator) => generator.randn(&mut self.buffer),
            Source::Tree(tree) => tree.noise(from, to, &mut self.buffer),
        }
        &self.buffer
    }
}
