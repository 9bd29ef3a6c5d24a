//! Pictures in the place of SDXL's pooled text: a vector that CLIP makes of each, with a little
//! noise. ComfyUI's `unCLIPConditioning`.

use super::ImageStates;
use nino_sample::{Rng, Seed};
use std::f64::consts::FRAC_PI_2;
use std::sync::Arc;

/// A picture that says what SDXL is to make, beside the prompt's tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Unclip {
    /// What CLIP made of it.
    pub image: Arc<ImageStates>,
    pub strength: f32,
    /// How much noise its vector gets: from 0, hardly any, to 1.
    pub noise: f64,
}

/// Noise levels that vectors can have.
const LEVELS: usize = 1000;
/// What ComfyUI takes from the sampler's seed.
const SEED_OFFSET: u64 = 10;

/// All pictures as one vector; `None` where there are none.
pub(super) fn vector(pictures: &[Unclip], seed: Seed) -> Option<Vec<f32>> {
    // Each vector gets the same noise, whatever the stream of the latent's noise is.
    let seed = Seed {
        value: seed.value.wrapping_sub(SEED_OFFSET),
        ..seed
    };
    let mut all: Option<Vec<f32>> = None;
    let mut n = 0;
    for picture in pictures {
        let level = ((LEVELS - 1) as f64 * picture.noise).round_ties_even() as usize;
        for whole in &picture.image.whole {
            let mut noise = vec![0.0; whole.len()];
            Rng::Torch.generator(seed.value).randn(&mut noise);
            let mut noisy = augmented(whole, &noise, level);
            noisy.iter_mut().for_each(|v| *v *= picture.strength);
            n += 1;
            match &mut all {
                None => all = Some(noisy),
                Some(sum) => sum.iter_mut().zip(&noisy).for_each(|(s, v)| *s += v),
            }
        }
    }
    let all = all?;
    if n == 1 {
        return Some(all);
    }
    // The sum of several gets noise of its own, which goes on where theirs ended; that of a CUDA
    // device is another stream of the same seed.
    let mut noise = vec![0.0; all.len()];
    match seed.rng {
        Rng::Torch => {
            let mut generator = Rng::Torch.generator(seed.value);
            generator.randn(&mut noise);
            generator.randn(&mut noise);
        }
        Rng::Philox => Rng::Philox.generator(seed.value).randn(&mut noise),
    }
    Some(augmented(&all, &noise, 0))
}

/// A vector with noise of a level.
fn augmented(vector: &[f32], noise: &[f32], level: usize) -> Vec<f32> {
    let kept: f64 = (0..=level.min(LEVELS - 1)).map(|i| 1.0 - beta(i)).product();
    let (of_vector, of_noise) = (kept.sqrt() as f32, (1.0 - kept).sqrt() as f32);
    let both = vector.iter().zip(noise);
    both.map(|(v, n)| of_vector * v + of_noise * n).collect()
}

/// The share of a vector that a level takes away: Karlo's levels, after squares of cosines.
fn beta(level: usize) -> f64 {
    let left = |i: usize| {
        let t = i as f64 / LEVELS as f64;
        ((t + 0.008) / 1.008 * FRAC_PI_2).cos().powi(2)
    };
    (1.0 - left(level + 1) / left(level)).min(0.999)
}
