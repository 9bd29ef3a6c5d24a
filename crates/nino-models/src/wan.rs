//! The causal video VAEs of Wan 2.1 (16 channels, 8×8×4) and Wan 2.2 (48 channels, 16×16×4).
//! Behavior: <https://github.com/Wan-Video/Wan2.2>, `wan/modules/vae2_1.py` and `vae2_2.py`.
//!
//! Each call records one chunk of frames; [`crate::Stream`] holds the frames cached between chunks.
//! With `by_frame`, the layers run on one frame after the other instead of all frames of the chunk:
//! the same values with a fraction of the memory.

mod block;
mod config;
mod decoder;
mod encoder;
mod shortcut;

pub use config::Config;
pub use decoder::decoder;
pub use encoder::encoder;
