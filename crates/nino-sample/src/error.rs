//! Errors: unknown names, impossible settings, and a run that was stopped.

/// The denoiser or the step callback asked to end the run; whoever asked knows why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sampling was stopped")]
pub struct Stop;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    #[error("no sampler is called {name:?}; did you mean {}?", nearest.join(" or "))]
    UnknownSampler {
        name: String,
        nearest: Vec<&'static str>,
    },
    #[error("no scheduler is called {name:?}; did you mean {}?", nearest.join(" or "))]
    UnknownScheduler {
        name: String,
        nearest: Vec<&'static str>,
    },
    #[error("{steps} steps requested; the range is 1 to {max}")]
    Steps { steps: usize, max: usize },
    #[error("{what} has {found} values where the latent has {expected}")]
    Length {
        what: &'static str,
        expected: usize,
        found: usize,
    },
    #[error("batch index {index} is over the limit of {max}")]
    BatchIndex { index: usize, max: usize },
    #[error("{what} must be {expected}, found {found}")]
    Setting {
        what: &'static str,
        expected: &'static str,
        found: f64,
    },
    #[error(transparent)]
    Stopped(#[from] Stop),
}
