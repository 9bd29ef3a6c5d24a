//! Whole requests with small made-up checkpoints.

mod comfy;
mod control;
mod flux;
mod image;
