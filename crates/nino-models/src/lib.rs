//! Model definitions: each records its graph from a configuration.
//!
//! A model file does not depend on a device, a file or a weight format. Parameters have the names
//! of the original authors' single files; `Config::detect` reads sizes from tensor names and
//! shapes. [`describe`] lists the tensors of a recorded model, [`detect`] identifies a file by such
//! lists, and [`open()`] opens a file and checks that its weights fit.

pub mod anima;
pub mod clip;
pub mod clip_vision;
mod control;
mod denoiser;
pub mod describe;
pub mod detect;
mod difference;
mod family;
pub mod flux;
pub mod flux2;
pub mod kl;
pub mod krea2;
pub mod latent;
pub mod llm;
mod mods;
mod open;
mod params;
pub mod qwen3_vision;
pub mod qwen_image;
pub mod qwen_vision;
pub mod redux;
mod residual;
mod stream;
pub mod t2i_adapter;
pub mod t5;
pub mod taehv;
pub mod taesd;
pub mod unet;
pub mod upscaler;
pub mod uso;
mod vae;
pub mod wan;
pub mod wan_transformer;
pub mod wav2vec2;
mod weights;
pub mod workload;
pub mod z_image;

pub use control::{ControlInputs, ControlNet, ControlSpec, HINT_SCALE, HintKind};
pub use denoiser::{
    CONTROL, Denoiser, DenoiserGraph, DenoiserShape, Guidance, KvCache, SoundShape, Wants,
};
pub use describe::Network;
pub use difference::{Difference, Misshaped};
pub use family::{Encoder, Family, VectorCond};
pub use open::{Misfits, Opened, OpenedVae, open, open_vae};
pub use params::{Branch, ConvShape, Find, Params};
pub use stream::{Cache, Stream};
pub use upscaler::Upscaler;
pub use vae::{Chunk, Frames, Recording, SPECS, Storage, Taesd, Vae, VaeError};
pub use weights::{FileParams, Layout, Scaled, is_table, layout, storage};
