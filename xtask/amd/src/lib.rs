//! AMD cards without an AMD card: nino's kernels compiled by AMD's Vulkan driver for hardware that
//! is not there, what the compiler says of them, and what that predicts. `cargo xtask amd` runs it.

pub mod card;
pub mod chip;
pub mod family;
pub mod isa;
pub mod matrices;
pub mod mesa;
pub mod packages;
pub mod predict;
pub mod print;
pub mod radv;
pub mod shares;
pub mod table;
pub mod tiles;
