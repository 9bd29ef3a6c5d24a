//! One problem per op with a plain f64 reference: run as tests on every device, as `nino bench ops`
//! and as `nino doctor --verify`.
//!
//! The suite knows devices only by the [`nino_graph::Device`] trait; who opens them passes them in.

pub mod bench;
mod case;
mod long;
mod problems;
pub mod reference;
mod rng;
mod run;
mod tensor;
mod tolerance;

pub use case::{Case, CaseBuilder, MapSource};
pub use long::Long;
pub use problems::{LONG, PROBLEMS, Problem};
pub use rng::Rng;
pub use run::{Report, RunError, Variant, compare, variants, verify, verify_problem};
pub use tensor::Tensor;
pub use tolerance::{Class, Difference};
