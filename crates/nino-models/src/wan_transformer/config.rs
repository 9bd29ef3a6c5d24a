//! Hyperparameters of Wan's transformers.

use super::PATCH;
use crate::Find;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Channels of the latent and of what is concatenated to it: 16 or 48 for text to video, 36
    /// with a mask and an image, 48 or 52 with a control video.
    pub in_channels: usize,
    /// Channels of the latent.
    pub out_channels: usize,
    /// Width of a token.
    pub hidden: usize,
    pub heads: usize,
    pub mlp: usize,
    pub n_layers: usize,
    /// Width of the text embeddings.
    pub context_dim: usize,
    /// Width of the sinusoidal embedding of a timestep.
    pub freq_dim: usize,
    /// `img_emb`, the projection of CLIP vision hidden states (Wan 2.1 image to video).
    pub image: Option<ImageEmbedding>,
    pub vace: Option<Vace>,
    /// Channels of the reference latent, whose tokens precede those of the video (Wan 2.2 Fun
    /// control).
    pub reference: Option<usize>,
    /// Channels of the camera embeddings per latent pixel (Fun camera).
    pub camera: Option<usize>,
    /// The audio encoder and its cross-attentions (Wan 2.2 S2V), with which a model also takes a
    /// reference latent, a control latent and motion latents.
    pub audio: Option<Audio>,
    /// Scale and shift of the RoPE positions, an option of the user that no file contains.
    pub rope_scale: Option<RopeScale>,
}

/// Scale and shift of RoPE positions along frames, rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RopeScale {
    // Bits of f32, so that configs can be compared and hashed.
    scale: [u32; 3],
    shift: [u32; 3],
}

impl RopeScale {
    pub fn new(scale: [f32; 3], shift: [f32; 3]) -> RopeScale {
        RopeScale {
            scale: scale.map(f32::to_bits),
            shift: shift.map(f32::to_bits),
        }
    }

    /// Distance of neighbors along an axis.
    pub(super) fn scale(self, axis: usize) -> f64 {
        f64::from(f32::from_bits(self.scale[axis]))
    }

    /// The first position along an axis.
    pub(super) fn shift(self, axis: usize) -> f64 {
        f64::from(f32::from_bits(self.shift[axis]))
    }
}

/// `img_emb`, which projects CLIP vision hidden states to tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageEmbedding {
    /// Width of CLIP's hidden states.
    pub width: usize,
    /// Length of the position embeddings `emb_pos` (first-and-last-frame models).
    pub emb_pos: Option<usize>,
}

/// VACE's second sequence of blocks, for control videos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vace {
    pub in_channels: usize,
    pub n_layers: usize,
}

/// The input of a sound-to-video model: features of the audio, and what becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Audio {
    /// Width of the audio encoder's hidden states.
    pub width: usize,
    /// How many hidden states of the audio encoder there are for each frame.
    pub states: usize,
    /// Tokens of a latent frame's audio.
    pub tokens: usize,
}

/// Head dimension of every published model.
const HEAD: usize = 128;
/// Width of CLIP-H's vision hidden states.
const CLIP: usize = 1280;
/// Channels of the camera embeddings: six Plücker coordinates for each of 8×8 pixels in four
/// frames.
const CAMERA: usize = 6 * 4 * 64;
/// Channels of VACE's control video: inactive and reactive frames, and a mask of 8×8 pixels.
const VACE_CHANNELS: usize = 96;

impl Config {
    /// Wan 2.1 text to video 1.3B.
    pub fn t2v_1_3b() -> Config {
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
            audio: None,
            rope_scale: None,
        }
    }

    /// Wan 2.2 text and image to video 5B.
    pub fn ti2v_5b() -> Config {
        Config {
            in_channels: 48,
            out_channels: 48,
            hidden: 3072,
            heads: 24,
            mlp: 14336,
            ..Config::t2v_1_3b()
        }
    }

    /// Wan 2.1 text to video 14B, and both experts of 2.2.
    pub fn t2v_14b() -> Config {
        Config {
            hidden: 5120,
            heads: 40,
            mlp: 13824,
            n_layers: 40,
            ..Config::t2v_1_3b()
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

    /// The same with CLIP vision embeddings; `emb_pos` is the length of their position embeddings
    /// where there are any.
    #[must_use]
    pub fn with_image(self, emb_pos: Option<usize>) -> Config {
        let image = Some(ImageEmbedding {
            width: CLIP,
            emb_pos,
        });
        Config { image, ..self }
    }

    /// The same with this many VACE blocks.
    #[must_use]
    pub fn with_vace(self, n_layers: usize) -> Config {
        let vace = Some(Vace {
            in_channels: VACE_CHANNELS,
            n_layers,
        });
        Config { vace, ..self }
    }

    /// The same with a reference latent.
    #[must_use]
    pub fn with_reference(self) -> Config {
        Config {
            reference: Some(self.out_channels),
            ..self
        }
    }

    /// The same with a camera control adapter.
    #[must_use]
    pub fn with_camera(self) -> Config {
        Config {
            camera: Some(CAMERA),
            ..self
        }
    }

    /// The same with audio: wav2vec 2.0 large's features.
    #[must_use]
    pub fn with_audio(self) -> Config {
        let audio = Some(Audio {
            width: 1024,
            states: 25,
            tokens: 4,
        });
        Config { audio, ..self }
    }

    pub(super) fn head(&self) -> usize {
        self.hidden / self.heads.max(1)
    }

    /// Dimensions of a head per RoPE axis: frame, row and column.
    pub(super) fn axes_dim(&self) -> [usize; 3] {
        let sixth = self.head() / 6;
        [self.head() - 4 * sixth, 2 * sixth, 2 * sixth]
    }

    /// Whether every latent frame has its own timestep: frames given by the user are at timestep 0
    /// (Wan 2.2 5B).
    pub fn has_frame_timesteps(&self) -> bool {
        self.out_channels == Config::ti2v_5b().out_channels && self.reference.is_none()
    }

    /// Reads sizes from tensor shapes alone; `None` when this is no Wan transformer, or one of a
    /// kind that is not supported: with a face or a pose.
    pub fn detect(find: &Find) -> Option<Config> {
        let dim = |name: &str, axis: usize| find(name).and_then(|(s, _)| s.get(axis).copied());
        let count = |name: &dyn Fn(usize) -> String| {
            let exists = |&i: &usize| find(&name(i)).is_some();
            (0..256).take_while(exists).count()
        };
        if UNSUPPORTED.iter().any(|name| find(name).is_some()) {
            return None;
        }
        // GGUF files may leave out dimensions of size one.
        let hidden = find("head.modulation")?.0.last_dim();
        let image = dim("img_emb.proj.0.weight", 0).map(|width| ImageEmbedding {
            width,
            emb_pos: dim("img_emb.emb_pos", 1),
        });
        let vace = dim("vace_patch_embedding.weight", 1).map(|in_channels| Vace {
            in_channels,
            n_layers: count(&|i| format!("vace_blocks.{i}.after_proj.weight")),
        });
        let audio = dim("casual_audio_encoder.encoder.conv1_local.conv.weight", 1);
        let audio = audio.and_then(|width| {
            let states = find("casual_audio_encoder.weights")?.0.numel();
            let local = dim("casual_audio_encoder.encoder.conv1_local.conv.weight", 0)?;
            let tokens = local / (hidden / 4).max(1);
            Some(Audio {
                width,
                states,
                tokens,
            })
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
            audio,
            rope_scale: None,
        };
        let sizes = config.hidden.is_multiple_of(config.heads)
            && config.axes_dim().iter().all(|a| a.is_multiple_of(2))
            && config.freq_dim.is_multiple_of(2)
            && config.in_channels >= config.out_channels
            && config.out_channels > 0
            && audio.is_none_or(|a| a.tokens > 0 && hidden.is_multiple_of(4))
            && vace.is_none_or(|v| (1..=config.n_layers).contains(&v.n_layers));
        sizes.then_some(config)
    }
}

/// Names of transformers with further inputs: speech in another form, a face, a pose.
const UNSUPPORTED: [&str; 5] = [
    "audio_proj.audio_proj_glob_1.layer.bias",
    "face_adapter.fuser_blocks.0.k_norm.weight",
    "patch_embedding_mask.weight",
    "patch_embedding_pose.weight",
    "patch_embedding_global.weight",
];

impl Vace {
    /// Index of the VACE block that runs after block `i` of `n_layers` main blocks, if one does.
    pub(super) fn block_after(self, i: usize, n_layers: usize) -> Option<usize> {
        let step = (n_layers / self.n_layers.max(1)).max(1);
        let vace_idx = i / step;
        (i.is_multiple_of(step) && vace_idx < self.n_layers).then_some(vace_idx)
    }
}
