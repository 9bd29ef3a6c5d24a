//! Whole requests with small made-up checkpoints.

pub(crate) mod comfy;
mod control;
mod flux;
mod image;
mod klein;
mod promised;
mod z_image;
