//! `ninodes._native`: the engine's stages, devices and models as Python classes.
//!
//! This layer is thin. Arrays cross it by DLPack without a copy (`array.rs`), requests as
//! dictionaries with every key present; the package `ninodes` gives them names, defaults and types.
//! Work runs without the GIL on a thread of its own, while the calling thread serves callbacks and
//! signals (`job.rs`).

// Python gives arguments by value, and calls functions of a class as methods.
#![allow(clippy::needless_pass_by_value, clippy::unused_self)]

mod array;
mod conditioning;
mod engine;
mod error;
mod inspect;
mod job;
mod models;
mod options;
mod sample;
mod tensors;

use pyo3::prelude::*;

#[pymodule]
#[pyo3(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("NinoError", module.py().get_type::<error::NinoError>())?;
    module.add_class::<array::Array>()?;
    module.add_class::<conditioning::PyConditioning>()?;
    module.add_class::<engine::Engine>()?;
    module.add_class::<models::Diffusion>()?;
    module.add_class::<models::Text>()?;
    module.add_class::<models::Vae>()?;
    module.add_class::<tensors::Tensors>()?;
    module.add_function(wrap_pyfunction!(engine::devices, module)?)?;
    module.add_function(wrap_pyfunction!(inspect::inspect, module)?)?;
    module.add_function(wrap_pyfunction!(models::builtin, module)?)?;
    module.add_function(wrap_pyfunction!(models::checkpoint, module)?)?;
    module.add_function(wrap_pyfunction!(models::apply_lora, module)?)?;
    module.add_function(wrap_pyfunction!(sample::samplers, module)?)?;
    Ok(())
}
