//! Whole graphs with small made-up checkpoints.
// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod cache;
mod examples;
mod host;
mod limits;
mod lists;
mod logic;
#[path = "../../../nino-engine/src/tests/made.rs"]
mod made;
mod pictures;
mod regions;
mod rocm;
mod same;
mod sound;
mod steered;
mod texts;
mod upscale;
mod workflows;
