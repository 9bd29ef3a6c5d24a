//! Whole requests with small made-up checkpoints.

pub(crate) mod comfy;
mod flux;
mod image;
mod promised;
