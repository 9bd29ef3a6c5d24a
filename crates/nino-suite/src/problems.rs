//! The list of problems: for each op, cases of odd sizes, size 1, sizes no tile divides, and every
//! storage type. Each family's file lists its own.

mod attention;
mod brain;
mod conv;
mod elementwise;
mod fused;
mod graphs;
mod layout;
mod norm;
mod product;

use crate::{Case, Long, Rng};
use nino_dtype::DType;
use std::sync::LazyLock;

/// One op (or one fusion) and the cases that try it.
#[derive(Clone, Copy)]
pub struct Problem {
    pub name: &'static str,
    /// The names of the [`nino_graph::Op`]s it covers.
    pub ops: &'static [&'static str],
    cases: fn(&mut Rng) -> Vec<Case>,
}

impl Problem {
    /// Makes the cases, which are the same on every machine.
    pub fn cases(&self) -> Vec<Case> {
        let seed = self.name.bytes().fold(7, |seed: u64, b| {
            seed.wrapping_mul(31).wrapping_add(b.into())
        });
        (self.cases)(&mut Rng::new(seed))
    }
}

/// Every problem, family by family.
pub static PROBLEMS: LazyLock<Vec<Problem>> = LazyLock::new(|| {
    let families = [
        product::PROBLEMS,
        brain::PROBLEMS,
        conv::PROBLEMS,
        attention::PROBLEMS,
        norm::PROBLEMS,
        elementwise::PROBLEMS,
        layout::PROBLEMS,
        fused::PROBLEMS,
        graphs::PROBLEMS,
    ];
    families.concat()
});

/// Every op with a kernel, over more than 2^32 elements.
pub static LONG: LazyLock<Vec<&Long>> = LazyLock::new(|| {
    let families = [
        product::LONG,
        conv::LONG,
        attention::LONG,
        norm::LONG,
        elementwise::LONG,
        layout::LONG,
    ];
    families.into_iter().flatten().collect()
});

/// The activation types that every op is tried with.
const ACTIVATIONS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
