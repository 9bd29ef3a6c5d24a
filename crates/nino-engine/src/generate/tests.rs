//! Whole requests with small made-up checkpoints.

mod adapter;
mod anima;
pub(crate) mod comfy;
mod control;
mod encoders;
mod flux;
mod flux2;
mod flux_lora;
mod guidance;
mod image;
mod klein;
mod krea2;
mod paint;
mod patches;
mod promised;
mod qwen_image;
mod step_cache;
mod style;
mod unet;
mod union;
mod wide_encoders;
mod z_control;
mod z_image;
