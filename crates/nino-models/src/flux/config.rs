//! Hyperparameters of Flux.1 and Chroma.

use super::PATCH;
use crate::Find;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Channels of the latent and of what is concatenated to it: 16, 32 with a control image
    /// (Canny, Depth), 96 for inpainting (Fill).
    pub in_channels: usize,
    /// Channels of the latent.
    pub out_channels: usize,
    /// Width of a token.
    pub hidden: usize,
    /// Head dimension.
    pub head: usize,
    pub mlp: usize,
    /// Width of the text embeddings.
    pub context_dim: usize,
    /// Number of double stream blocks.
    pub depth: usize,
    /// Number of single stream blocks.
    pub depth_single: usize,
    pub modulation: Modulation,
}

/// How shift, scale and gate of the blocks are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Modulation {
    /// By a linear layer in each block, from timestep and pooled text (Flux).
    PerBlock {
        /// Width of the pooled text embedding.
        vec_in: usize,
        /// Whether there is a guidance embedding.
        guidance: bool,
    },
    /// By one small network for all blocks (the approximator), from the timestep and an index of
    /// the modulation vector (Chroma).
    Approximated { hidden: usize, n_layers: usize },
}

impl Config {
    pub fn dev() -> Config {
        Config {
            in_channels: 16,
            out_channels: 16,
            hidden: 3072,
            head: 128,
            mlp: 12288,
            context_dim: 4096,
            depth: 19,
            depth_single: 38,
            modulation: Modulation::PerBlock {
                vec_in: 768,
                guidance: true,
            },
        }
    }

    pub fn schnell() -> Config {
        Config {
            modulation: Modulation::PerBlock {
                vec_in: 768,
                guidance: false,
            },
            ..Config::dev()
        }
    }

    pub fn chroma() -> Config {
        Config {
            modulation: Modulation::Approximated {
                hidden: 5120,
                n_layers: 5,
            },
            ..Config::dev()
        }
    }

    /// The same with another number of input channels.
    #[must_use]
    pub fn with_in_channels(self, in_channels: usize) -> Config {
        Config {
            in_channels,
            ..self
        }
    }

    pub fn heads(&self) -> usize {
        self.hidden / self.head.max(1)
    }

    /// Whether it has a guidance embedding.
    pub fn takes_guidance(&self) -> bool {
        match self.modulation {
            Modulation::PerBlock { guidance, .. } => guidance,
            Modulation::Approximated { .. } => true,
        }
    }

    /// Width of the pooled text embedding that it takes.
    pub fn vec_in(&self) -> Option<usize> {
        match self.modulation {
            Modulation::PerBlock { vec_in, .. } => Some(vec_in),
            Modulation::Approximated { .. } => None,
        }
    }

    /// Dimensions of a head per RoPE axis: image index, row and column.
    pub(super) fn axes_dim(&self) -> [usize; 3] {
        let index = self.head / 8;
        let side = (self.head - index) / 2;
        [index, side, side]
    }

    /// Reads sizes from tensor shapes alone; `None` when this is neither Flux.1 nor Chroma.
    pub fn detect(find: &Find) -> Option<Config> {
        let (last, _) = find("final_layer.linear.weight")?;
        Config::blocks(find, last[0] / (PATCH * PATCH))
    }

    /// As [`Config::detect`], for a network that may have no final layer (`ControlNet`s).
    pub(super) fn blocks(find: &Find, out_channels: usize) -> Option<Config> {
        let dim = |name: &str, axis: usize| find(name).and_then(|(s, _)| s.get(axis).copied());
        let count = |name: &dyn Fn(usize) -> String| {
            let exists = |&i: &usize| find(&name(i)).is_some();
            (0..256).take_while(exists).count()
        };
        let modulation = match dim("vector_in.in_layer.weight", 1) {
            Some(vec_in) => Modulation::PerBlock {
                vec_in,
                guidance: find("guidance_in.in_layer.weight").is_some(),
            },
            None => Modulation::Approximated {
                hidden: dim("distilled_guidance_layer.in_proj.weight", 0)?,
                n_layers: count(&|i| format!("distilled_guidance_layer.norms.{i}.scale")),
            },
        };
        let patch = PATCH * PATCH;
        let config = Config {
            in_channels: dim("img_in.weight", 1)? / patch,
            out_channels,
            hidden: dim("img_in.weight", 0)?,
            head: dim("double_blocks.0.img_attn.norm.query_norm.scale", 0)?,
            mlp: dim("double_blocks.0.img_mlp.0.weight", 0)?,
            context_dim: dim("txt_in.weight", 1)?,
            depth: count(&|i| format!("double_blocks.{i}.img_attn.qkv.weight")),
            depth_single: count(&|i| format!("single_blocks.{i}.linear1.weight")),
            modulation,
        };
        // Flux.2 shares names; it has no biases, and one modulation for all blocks.
        let is_flux1 = find("img_in.bias").is_some();
        let sizes = config.hidden.is_multiple_of(config.head)
            && config.axes_dim().iter().all(|a| a.is_multiple_of(2))
            && config.in_channels >= config.out_channels
            && config.out_channels > 0;
        (is_flux1 && sizes).then_some(config)
    }
}
