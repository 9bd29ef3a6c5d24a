//! The causal video VAEs of Wan 2.1 (16 channels, 8×8×4) and Wan 2.2 (48 channels, 16×16×4).
//! Behaviour: <https://github.com/Wan-Video/Wan2.2>, `wan/modules/vae2_1.py` and `vae2_2.py`.
//!
//! Each call records one chunk of frames; see [`crate::Stream`] for what goes from chunk to chunk.
//! `by_frame` runs the layers on one frame after the other instead of all frames of the chunk: the
//! same values from a fraction of the memory.

mod block;
mod config;
mod decoder;
mod encoder;
mod shortcut;

pub use config::Config;
pub use decoder::decoder;
pub use encoder::encoder;
