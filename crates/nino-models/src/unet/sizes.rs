//! Hyperparameters of the published UNets, for plans without a file and for detection.

use super::{Block, Config, Heads, Middle, Resample};

/// The configuration of LDM's `UNetModel`: levels with the same blocks in the down path and in the
/// up path.
struct Levels {
    model_channels: usize,
    /// Channels of each level as a multiple of `model_channels`.
    mult: &'static [usize],
    /// Transformer blocks per spatial transformer, by level; 0 for a level without attention.
    depth: &'static [usize],
    /// Residual blocks per level in the down path; the up path has one more.
    n_res: usize,
    /// Transformer blocks of the middle block; `None` without a middle block.
    middle: Option<usize>,
}

const SD: Levels = Levels {
    model_channels: 320,
    mult: &[1, 2, 4, 4],
    depth: &[1, 1, 1, 0],
    n_res: 2,
    middle: Some(1),
};

impl Config {
    /// Stable Diffusion 1.x.
    pub fn sd15() -> Config {
        Config {
            in_channels: 4,
            out_channels: 4,
            model_channels: SD.model_channels,
            context_dim: 768,
            adm_in: None,
            guidance: None,
            heads: Heads::Count(8),
            input_blocks: SD.input_blocks(),
            middle: SD.middle(),
            output_blocks: SD.output_blocks(),
            groups: 32,
            freeu: Vec::new(),
            hypertile: None,
            shrinks: Vec::new(),
            watched: false,
        }
    }

    /// Stable Diffusion 2.x.
    pub fn sd21() -> Config {
        Config::sd15().like_sd2()
    }

    /// Lotus-D, which predicts depth maps.
    pub fn lotus() -> Config {
        Config {
            adm_in: Some(4),
            ..Config::sd21()
        }
    }

    /// Stable Diffusion XL base.
    pub fn sdxl() -> Config {
        let levels = Levels {
            mult: &[1, 2, 4],
            depth: &[0, 2, 10],
            middle: Some(10),
            ..SD
        };
        Config {
            context_dim: 2048,
            adm_in: Some(2816),
            heads: Heads::Width(64),
            ..Config::sd15().with_levels(&levels)
        }
    }

    /// Stable Diffusion XL refiner.
    pub fn sdxl_refiner() -> Config {
        let levels = Levels {
            model_channels: 384,
            depth: &[0, 4, 4, 0],
            middle: Some(4),
            ..SD
        };
        Config {
            context_dim: 1280,
            adm_in: Some(2560),
            heads: Heads::Width(64),
            ..Config::sd15().with_levels(&levels)
        }
    }

    /// BK-SDM base: Stable Diffusion 1.x with one residual block less in each level.
    pub fn bk_sdm_base() -> Config {
        Config::sd15().with_levels(&Levels { n_res: 1, ..SD })
    }

    /// BK-SDM small: the base one without a middle block.
    pub fn bk_sdm_small() -> Config {
        Config {
            middle: None,
            ..Config::bk_sdm_base()
        }
    }

    /// BK-SDM tiny: the small one without its innermost level.
    pub fn bk_sdm_tiny() -> Config {
        Config::sd15().with_levels(&Levels {
            mult: &[1, 2, 4],
            depth: &[1, 1, 1],
            n_res: 1,
            middle: None,
            ..SD
        })
    }

    /// nino-emoji, the built-in model.
    pub fn nino_emoji() -> Config {
        let levels = Levels {
            model_channels: 96,
            mult: &[1, 2, 2],
            depth: &[0, 1, 1],
            n_res: 1,
            middle: Some(1),
        };
        Config {
            context_dim: 256,
            heads: Heads::Width(32),
            ..Config::sd15().with_levels(&levels)
        }
    }

    /// The same blocks with the text conditioning of Stable Diffusion 2.x.
    #[must_use]
    pub fn like_sd2(self) -> Config {
        Config {
            context_dim: 1024,
            heads: Heads::Width(64),
            ..self
        }
    }

    /// The same with another number of input channels: 9 for inpainting, 8 for InstructPix2Pix,
    /// 5 for depth.
    #[must_use]
    pub fn with_in_channels(self, in_channels: usize) -> Config {
        Config {
            in_channels,
            ..self
        }
    }

    fn with_levels(self, levels: &Levels) -> Config {
        Config {
            model_channels: levels.model_channels,
            input_blocks: levels.input_blocks(),
            middle: levels.middle(),
            output_blocks: levels.output_blocks(),
            ..self
        }
    }
}

impl Levels {
    fn input_blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        for level in 0..self.mult.len() {
            blocks.extend(vec![self.block(level); self.n_res]);
            if level + 1 < self.mult.len() {
                blocks.push(Block {
                    res: None,
                    depth: 0,
                    resample: Some(Resample::Down),
                });
            }
        }
        blocks
    }

    fn middle(&self) -> Option<Middle> {
        let second = true;
        self.middle.map(|depth| Middle { depth, second })
    }

    fn output_blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        for level in (0..self.mult.len()).rev() {
            let block = self.block(level);
            blocks.extend(vec![block; self.n_res]);
            blocks.push(Block {
                resample: (level > 0).then_some(Resample::Up),
                ..block
            });
        }
        blocks
    }

    fn block(&self, level: usize) -> Block {
        Block {
            res: Some(self.model_channels * self.mult[level]),
            depth: self.depth[level],
            resample: None,
        }
    }
}
