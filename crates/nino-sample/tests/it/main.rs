//! Against what torch, torchsde and ComfyUI computed (`goldens/sample/make.py`), and properties of
//! any run.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "tests fail loudly and compare exactly"
)]

mod golden;
mod noise;
mod paths;
mod properties;
mod restart;
mod sigmas;
