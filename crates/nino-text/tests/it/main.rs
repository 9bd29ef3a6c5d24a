//! Against what transformers and ComfyUI make of a thousand texts (`goldens/text/make.py`), and
//! properties of any text.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "tests fail loudly and compare exactly"
)]

mod golden;
mod prompts;
mod properties;
mod qwen;
mod t5;
mod tekken;
mod tokens;
