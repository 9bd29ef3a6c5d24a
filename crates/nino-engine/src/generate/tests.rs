//! Whole requests with small made-up checkpoints.

pub(crate) mod comfy;
mod control;
mod flux;
mod flux_lora;
mod image;
mod klein;
mod promised;
mod style;
mod union;
mod z_image;
