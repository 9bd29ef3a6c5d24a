//! Model definitions: each records its graph from a configuration.
//!
//! A model file names no device, file or weight format. Parameters carry the names of the original
//! authors' single files; `Config::detect` reads sizes from tensor names and shapes.

pub mod clip;
pub mod kl;
pub mod latent;
mod params;
mod stream;
pub mod taehv;
pub mod taesd;
pub mod unet;
mod vae;
pub mod wan;
mod weights;

pub use params::{Branch, ConvShape, Find, Params};
pub use stream::{Cache, Stream};
pub use vae::{Chunk, Frames, Recording, SPECS, Storage, Taesd, Vae, VaeError};
pub use weights::{FileParams, Layout, layout, storage};
