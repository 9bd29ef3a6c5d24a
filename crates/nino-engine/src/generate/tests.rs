//! Whole requests with small made-up checkpoints.

mod comfy;
mod flux;
mod image;
mod promised;
