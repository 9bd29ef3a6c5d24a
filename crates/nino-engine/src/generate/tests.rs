//! Whole requests with small made-up checkpoints.

pub(crate) mod comfy;
mod control;
mod flux;
mod flux2;
mod image;
mod klein;
mod krea2;
mod promised;
mod qwen_image;
mod z_image;
