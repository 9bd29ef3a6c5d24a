//! AutoencoderKL: the VAE of Stable Diffusion 1.x/2.x/XL/3 and Flux.1/2.
//! Behavior: CompVis latent-diffusion, `ldm/modules/diffusionmodules/model.py`.

mod block;
mod config;
mod decoder;
mod encoder;

pub use block::Scale;
pub use config::{Config, QuantConv};
pub use decoder::decoder;
pub use encoder::encoder;
