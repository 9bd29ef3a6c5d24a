//! Noise levels that were searched for, model by model: "Align Your Steps" (Sabour et al. 2024) and
//! "Optimal Stepsize" (Pei et al. 2025). Other numbers of steps are interpolated between the
//! logarithms of the levels. Tables and rounding are those of ComfyUI's nodes.

/// A model whose levels were searched for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoundLevels {
    pub name: &'static str,
    levels: &'static [f64],
}

/// By "Align Your Steps".
pub const ALIGNED: [FoundLevels; 3] = [
    FoundLevels {
        name: "SD1",
        levels: &[
            14.614_641_229_3,
            6.474_576_095_6,
            3.863_674_598_5,
            2.694_615_152_0,
            1.884_192_117_7,
            1.394_380_509_2,
            0.964_258_390_4,
            0.652_368_601_6,
            0.397_745_627_2,
            0.151_523_266_2,
            0.029_167_158_2,
        ],
    },
    FoundLevels {
        name: "SDXL",
        levels: &[
            14.614_641_229_3,
            6.318_448_528_7,
            3.768_179_031_5,
            2.181_148_076_9,
            1.340_524_494_5,
            0.862_072_114_1,
            0.555_069_328_9,
            0.379_854_070_8,
            0.233_236_413_4,
            0.111_418_817_7,
            0.029_167_158_2,
        ],
    },
    FoundLevels {
        name: "SVD",
        levels: &[
            700.0, 54.5, 15.886, 7.977, 4.248, 1.789, 0.981, 0.403, 0.173, 0.034, 0.002,
        ],
    },
];

/// By "Optimal Stepsize".
pub const OPTIMAL: [FoundLevels; 3] = [
    FoundLevels {
        name: "FLUX",
        levels: &[
            0.9968, 0.9886, 0.9819, 0.975, 0.966, 0.9471, 0.9158, 0.8287, 0.5512, 0.2808, 0.001,
        ],
    },
    FoundLevels {
        name: "Wan",
        levels: &[
            1.0, 0.997, 0.995, 0.993, 0.991, 0.989, 0.987, 0.985, 0.98, 0.975, 0.973, 0.968, 0.96,
            0.946, 0.927, 0.902, 0.864, 0.776, 0.539, 0.208, 0.001,
        ],
    },
    FoundLevels {
        name: "Chroma",
        levels: &[
            0.992, 0.99, 0.988, 0.985, 0.982, 0.978, 0.973, 0.968, 0.961, 0.953, 0.943, 0.931,
            0.917, 0.9, 0.881, 0.858, 0.832, 0.802, 0.769, 0.731, 0.69, 0.646, 0.599, 0.55, 0.501,
            0.451, 0.402, 0.355, 0.311, 0.27, 0.232, 0.199, 0.169, 0.143, 0.12, 0.101, 0.084, 0.07,
            0.058, 0.048, 0.001,
        ],
    },
];

impl FoundLevels {
    /// The levels of a run of `steps` steps that begins where `denoise` of it is left; the last is
    /// 0. Nothing where nothing is left.
    pub fn sigmas(&self, steps: usize, denoise: f64) -> Vec<f32> {
        if denoise <= 0.0 {
            return Vec::new();
        }
        let left = (steps as f64 * denoise.min(1.0)).round_ties_even() as usize;
        let levels = self.resampled(steps + 1);
        let mut tail: Vec<f32> = levels[levels.len().saturating_sub(left + 1)..]
            .iter()
            .map(|level| *level as f32)
            .collect();
        if let Some(last) = tail.last_mut() {
            *last = 0.0;
        }
        tail
    }

    /// So many levels, the logarithms between those of the table in between.
    fn resampled(&self, count: usize) -> Vec<f64> {
        let known = self.levels;
        if count == known.len() {
            return known.to_vec();
        }
        let at = |i: usize| {
            let place = i as f64 * (known.len() - 1) as f64 / (count - 1).max(1) as f64;
            let before = (place as usize).min(known.len() - 2);
            let (low, high) = (known[before].ln(), known[before + 1].ln());
            (low + (high - low) * (place - before as f64)).exp()
        };
        (0..count).map(at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written with ComfyUI 0.30's `OptimalStepsScheduler` and `AlignYourStepsScheduler`.
    #[test]
    fn levels_are_comfyuis() {
        let [flux, wan, chroma] = OPTIMAL;
        let [sd1, sdxl, svd] = ALIGNED;
        let cases: [(FoundLevels, usize, f64, &[f32]); 8] = [
            (
                flux,
                10,
                1.0,
                &[
                    0.9968, 0.9886, 0.9819, 0.975, 0.966, 0.9471, 0.9158, 0.8287, 0.5512, 0.2808,
                    0.0,
                ],
            ),
            (
                flux,
                7,
                1.0,
                &[
                    0.9968,
                    0.985_723,
                    0.975_982_7,
                    0.960_561_8,
                    0.924_635_8,
                    0.781_806,
                    0.374_913_3,
                    0.0,
                ],
            ),
            (
                wan,
                25,
                0.5,
                &[
                    0.970_996_9,
                    0.966_394_7,
                    0.96,
                    0.948_783_6,
                    0.934_553_8,
                    0.916_917_9,
                    0.894_268_6,
                    0.864,
                    0.792_852,
                    0.623_588_3,
                    0.368_280_4,
                    0.071_523_8,
                    0.0,
                ],
            ),
            (chroma, 12, 0.0, &[]),
            (
                chroma,
                6,
                0.75,
                &[0.893_621_6, 0.69, 0.370_022, 0.134_881_1, 0.0],
            ),
            (
                sd1,
                10,
                1.0,
                &[
                    14.614_641,
                    6.474_576,
                    3.863_674_6,
                    2.694_615,
                    1.884_192_1,
                    1.394_380_5,
                    0.964_258_4,
                    0.652_368_6,
                    0.397_745_6,
                    0.151_523_3,
                    0.0,
                ],
            ),
            (
                sdxl,
                4,
                1.0,
                &[14.614_641, 2.866_872_3, 0.862_072_1, 0.297_650_5, 0.0],
            ),
            (
                svd,
                15,
                0.3,
                &[0.304_008_3, 0.173, 0.058_479_2, 0.013_223, 0.0],
            ),
        ];
        for (table, steps, denoise, expected) in cases {
            let found = table.sigmas(steps, denoise);
            let near = found.len() == expected.len()
                && found
                    .iter()
                    .zip(expected)
                    .all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs().max(0.1));
            assert!(near, "{} {steps} {denoise}: {found:?}", table.name);
        }
    }
}
