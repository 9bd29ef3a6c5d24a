//! Parity of the models with their references, on the goldens of `goldens/models`.

// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod detect;
mod diffusion;
mod golden;
mod image;
mod lists;
mod memory;
mod open;
mod real;
mod scaled;
mod sound;
mod upscaler;
mod video;
mod wan_transformer;
