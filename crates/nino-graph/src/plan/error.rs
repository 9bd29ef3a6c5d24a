//! Why there is no plan, with numbers. Sizes are told in MiB: what is needed rounded up, what there
//! is rounded down.

use std::fmt;

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(
        "{op} must bind {} at once and cannot be split further; the device binds at most {}",
        Mib::up(*bytes), Mib::down(*limit)
    )]
    BindingTooLarge {
        op: String,
        bytes: usize,
        limit: usize,
    },
    #[error(
        "{op} makes a value of {}; one buffer of the device holds at most {}",
        Mib::up(*bytes), Mib::down(*page)
    )]
    ValueTooLarge {
        op: String,
        bytes: usize,
        page: usize,
    },
    #[error(
        "the plan needs {} ({} of weights, {} of activations, most of them at {op}{}), the budget is {}",
        Mib::up(*need), Mib::up(*weights), Mib::up(*arena), besides(*outside_plans), Mib::down(*budget)
    )]
    OverBudget {
        /// The least budget for which there is a plan: all of the terms below.
        need: usize,
        /// Weights and ring on the device.
        weights: usize,
        arena: usize,
        /// The op during which most bytes are alive.
        op: String,
        /// Bytes of the budget that are in no plan: the program, and what a request holds beside.
        outside_plans: usize,
        budget: usize,
    },
    #[error("the plan would have {steps} steps or more; the limit is {most}")]
    TooManySteps { steps: usize, most: usize },
}

fn besides(bytes: usize) -> String {
    match bytes {
        0 => String::new(),
        bytes => format!(", and {} for the program itself", Mib::up(bytes)),
    }
}

/// A size as error texts tell it, in whole MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mib(usize);

impl Mib {
    const BYTES: usize = 1 << 20;

    /// Writes bytes that are needed, rounded up: so many MiB are enough.
    pub fn up(bytes: usize) -> Mib {
        Mib(bytes.div_ceil(Mib::BYTES))
    }

    /// Writes bytes that there are, rounded down.
    pub fn down(bytes: usize) -> Mib {
        Mib(bytes / Mib::BYTES)
    }
}

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB", self.0)
    }
}
