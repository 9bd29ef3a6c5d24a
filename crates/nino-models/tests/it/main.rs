//! Parity of the models with their references, on the goldens of `goldens/models`.

// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod diffusion;
mod golden;
mod image;
mod memory;
mod names;
mod real;
mod video;
