//! Weights made up from a seed, so that a model can be timed without its file.
//!
//! Scaled by fan-in, so that activations keep about the size they have in a trained network and
//! stay finite in f16. The values of a tensor depend on its name and the seed alone. Tensors of
//! more than [`PERIOD`] values repeat the first ones: a model of twelve billion weights is made in
//! seconds, in types that take long to encode, too.

use nino_dtype::DType;
use nino_graph::{ParamError, ParamSource, ParamSpec};

/// A source of seeded random weights for any graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticParams {
    pub seed: u64,
}

/// Values made and encoded at a time; a multiple of every block length.
const CHUNK: usize = 4096;

/// Values after which a large tensor repeats. The prime number of chunks keeps the rows of usual
/// widths from beginning at the same place too often, so that neighbours look independent.
const PERIOD: usize = 61 * CHUNK;

impl ParamSource for SyntheticParams {
    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        let period = PERIOD / param.dtype.block_len() * param.dtype.block_bytes();
        if dst.len() <= period {
            return self.make(param, dst);
        }
        // Apart from `dst`, which may be a GPU's memory: slow to read.
        let mut made = vec![0; period];
        self.make(param, &mut made)?;
        for part in dst.chunks_mut(period) {
            part.copy_from_slice(&made[..part.len()]);
        }
        Ok(())
    }
}

impl SyntheticParams {
    /// The first values of a parameter, as many as fill `dst`.
    fn make(self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        let mut values = [0.0; CHUNK];
        let mut random = Random(self.seed ^ hash(&param.name));
        let (center, spread) = distribution(param);
        let n_values = dst.len() / param.dtype.block_bytes() * param.dtype.block_len();
        let chunk_bytes = CHUNK / param.dtype.block_len() * param.dtype.block_bytes();
        for (i, bytes) in dst.chunks_mut(chunk_bytes).enumerate() {
            let values = &mut values[..CHUNK.min(n_values - i * CHUNK)];
            random.fill(values, center, spread);
            // Most graphs of a bench are f32 or f16; the rest goes through the codecs.
            match param.dtype {
                DType::F32 => bytes
                    .chunks_exact_mut(4)
                    .zip(values)
                    .for_each(|(b, v)| b.copy_from_slice(&v.to_le_bytes())),
                dtype => {
                    nino_dtype::encode(dtype, values, bytes).map_err(|e| ParamError {
                        name: param.name.clone(),
                        what: e.to_string(),
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// Mean and half the width of a uniform distribution.
fn distribution(param: &ParamSpec) -> (f32, f32) {
    let shape = param.shape;
    if shape.rank() > 1 && !param.name.ends_with("gamma") {
        let fan_in = shape[1..].iter().product::<usize>().max(1) as f32;
        // Variance 1 / fan-in.
        return (0.0, (3.0 / fan_in).sqrt());
    }
    // A variance is above zero.
    let around_one = ["weight", "gamma", "running_var"];
    let is_gain = around_one.iter().any(|end| param.name.ends_with(end));
    (if is_gain { 1.0 } else { 0.0 }, 0.05)
}

/// FNV-1a.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn fill(&mut self, values: &mut [f32], center: f32, spread: f32) {
        let value = |bits: u32| center + spread * (bits as f32 / (1u32 << 31) as f32 - 1.0);
        for pair in values.chunks_mut(2) {
            let bits = self.next();
            pair[0] = value(bits as u32);
            if let Some(second) = pair.get_mut(1) {
                *second = value((bits >> 32) as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests;
