//! One problem per op with a plain f64 reference: run as tests on every device, as `nino bench ops`
//! and as `nino doctor --verify`.
//!
//! The suite knows devices only by the [`nino_graph::Device`] trait; who opens them passes them in.

mod case;
pub mod reference;
mod rng;
mod tensor;
mod tolerance;

pub use case::{Case, CaseBuilder, MapSource};
pub use rng::Rng;
pub use tensor::Tensor;
pub use tolerance::{Class, Difference};
