//! Whole graphs with small made-up checkpoints.

mod cache;
mod host;
#[path = "../../../nino-engine/src/generate/tests/made.rs"]
mod made;
mod regions;
mod same;
mod workflows;
