//! The sizes of Wan's transformers.

use super::PATCH;
use crate::Find;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Channels of the latent and of what stands beside it: 16 or 48 for text to video, 36 with a
    /// mask and a picture, 48 or 52 with frames to follow.
    pub in_channels: usize,
    /// Channels of the latent.
    pub out_channels: usize,
    /// Width of a token.
    pub hidden: usize,
    pub heads: usize,
    pub mlp: usize,
    pub n_layers: usize,
    /// Width of the text's tokens.
    pub context_dim: usize,
    /// Numbers that describe a timestep.
    pub freq_dim: usize,
    /// How CLIP's view of a picture is taken (Wan 2.1 image to video).
    pub image: Option<ImageEmbedding>,
    pub vace: Option<Vace>,
    /// Channels of a frame to look at, whose tokens stand before the clip's (Wan 2.2 Fun control).
    pub reference: Option<usize>,
    /// Channels that say how a camera sees the pixels under a latent pixel (Fun camera).
    pub camera: Option<usize>,
    /// How places are told where they are not counted as usual; no file says it.
    pub stretch: Option<Stretch>,
}

/// Places that are multiplied and moved: of frames, rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stretch {
    // Bits, so that what is recorded can be compared.
    scale: [u32; 3],
    shift: [u32; 3],
}

impl Stretch {
    pub fn new(scale: [f32; 3], shift: [f32; 3]) -> Stretch {
        Stretch {
            scale: scale.map(f32::to_bits),
            shift: shift.map(f32::to_bits),
        }
    }

    /// Where something at `place` along an axis is told to be.
    pub(super) fn at(self, axis: usize, place: usize) -> f64 {
        let [scale, shift] = [self.scale[axis], self.shift[axis]].map(f32::from_bits);
        place as f64 * f64::from(scale) + f64::from(shift)
    }
}

/// The layers that take CLIP's view of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageEmbedding {
    /// Width of CLIP's tokens.
    pub width: usize,
    /// Places of the tokens of two pictures, where they are told apart.
    pub places: Option<usize>,
}

/// A second row of blocks for frames to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vace {
    pub in_channels: usize,
    pub n_layers: usize,
}

/// Width of one head of every published model.
const HEAD: usize = 128;
/// Width of the tokens of CLIP-H's view of a picture.
const CLIP: usize = 1280;
/// Channels that say how a camera sees: six for each of 8×8 pixels in four frames.
const CAMERA: usize = 6 * 4 * 64;
/// Channels that VACE follows: frames to keep, frames to change, and a mask of 8×8 pixels.
const VACE_CHANNELS: usize = 96;

impl Config {
    /// Wan 2.1 text to video 1.3B.
    pub fn small() -> Config {
        Config {
            in_channels: 16,
            out_channels: 16,
            hidden: 1536,
            heads: 12,
            mlp: 8960,
            n_layers: 30,
            context_dim: 4096,
            freq_dim: 256,
            image: None,
            vace: None,
            reference: None,
            camera: None,
            stretch: None,
        }
    }

    /// Wan 2.2 text and image to video 5B.
    pub fn medium() -> Config {
        Config {
            in_channels: 48,
            out_channels: 48,
            hidden: 3072,
            heads: 24,
            mlp: 14336,
            ..Config::small()
        }
    }

    /// Wan 2.1 text to video 14B, and both experts of 2.2.
    pub fn large() -> Config {
        Config {
            hidden: 5120,
            heads: 40,
            mlp: 13824,
            n_layers: 40,
            ..Config::small()
        }
    }

    /// The same with other channels beside the latent's.
    #[must_use]
    pub fn with_inputs(self, in_channels: usize) -> Config {
        Config {
            in_channels,
            ..self
        }
    }

    /// The same with CLIP's view of a picture, or of two that are told apart.
    #[must_use]
    pub fn with_image(self, places: Option<usize>) -> Config {
        let image = Some(ImageEmbedding {
            width: CLIP,
            places,
        });
        Config { image, ..self }
    }

    /// The same with so many blocks that follow frames.
    #[must_use]
    pub fn with_vace(self, n_layers: usize) -> Config {
        let vace = Some(Vace {
            in_channels: VACE_CHANNELS,
            n_layers,
        });
        Config { vace, ..self }
    }

    /// The same with a frame to look at.
    #[must_use]
    pub fn with_reference(self) -> Config {
        Config {
            reference: Some(self.out_channels),
            ..self
        }
    }

    /// The same with a camera's path.
    #[must_use]
    pub fn with_camera(self) -> Config {
        Config {
            camera: Some(CAMERA),
            ..self
        }
    }

    pub(super) fn head(&self) -> usize {
        self.hidden / self.heads.max(1)
    }

    /// Parts of a head that turn with a token's frame, row and column.
    pub(super) fn axes(&self) -> [usize; 3] {
        let sixth = self.head() / 6;
        [self.head() - 4 * sixth, 2 * sixth, 2 * sixth]
    }

    /// Whether every frame of the clip has a timestep of its own: those that are given are told
    /// that they are clean (Wan 2.2 5B).
    pub fn has_frame_times(&self) -> bool {
        self.out_channels == Config::medium().out_channels && self.reference.is_none()
    }

    /// Reads sizes from tensor shapes alone; `None` when this is no Wan transformer, or one of a
    /// kind that is not written: with audio, a face or a pose.
    pub fn detect(find: &Find) -> Option<Config> {
        let dim = |name: &str, axis: usize| find(name).and_then(|(s, _)| s.get(axis).copied());
        let count = |name: &dyn Fn(usize) -> String| {
            let there = |&i: &usize| find(&name(i)).is_some();
            (0..256).take_while(there).count()
        };
        if UNWRITTEN.iter().any(|name| find(name).is_some()) {
            return None;
        }
        // GGUF files may leave out dimensions of size one.
        let hidden = find("head.modulation")?.0.last_dim();
        let image = dim("img_emb.proj.0.weight", 0).map(|width| ImageEmbedding {
            width,
            places: dim("img_emb.emb_pos", 1),
        });
        let vace = dim("vace_patch_embedding.weight", 1).map(|in_channels| Vace {
            in_channels,
            n_layers: count(&|i| format!("vace_blocks.{i}.after_proj.weight")),
        });
        let config = Config {
            in_channels: dim("patch_embedding.weight", 1)?,
            out_channels: dim("head.head.weight", 0)? / (PATCH * PATCH),
            hidden,
            heads: (hidden / HEAD).max(1),
            mlp: dim("blocks.0.ffn.0.weight", 0)?,
            n_layers: count(&|i| format!("blocks.{i}.ffn.0.weight")),
            context_dim: dim("text_embedding.0.weight", 1)?,
            freq_dim: dim("time_embedding.0.weight", 1)?,
            image,
            vace,
            reference: dim("ref_conv.weight", 1),
            camera: dim("control_adapter.conv.weight", 1),
            stretch: None,
        };
        let sizes = config.hidden.is_multiple_of(config.heads)
            && config.axes().iter().all(|a| a.is_multiple_of(2))
            && config.freq_dim.is_multiple_of(2)
            && config.in_channels >= config.out_channels
            && config.out_channels > 0
            && vace.is_none_or(|v| (1..=config.n_layers).contains(&v.n_layers));
        sizes.then_some(config)
    }
}

/// Names that only transformers with further inputs have: speech, a face, a pose.
const UNWRITTEN: [&str; 6] = [
    "casual_audio_encoder.encoder.final_linear.weight",
    "audio_proj.audio_proj_glob_1.layer.bias",
    "face_adapter.fuser_blocks.0.k_norm.weight",
    "patch_embedding_mask.weight",
    "patch_embedding_pose.weight",
    "patch_embedding_global.weight",
];

impl Vace {
    /// The block that follows block `i` of the main row, if one does.
    pub(super) fn block_after(self, i: usize, of: usize) -> Option<usize> {
        let step = (of / self.n_layers.max(1)).max(1);
        let at = i / step;
        (i.is_multiple_of(step) && at < self.n_layers).then_some(at)
    }
}
