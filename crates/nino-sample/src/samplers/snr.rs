//! Half log-SNR, lambda = ln(alpha / sigma): the time of exponential integrators. alpha is 1 in the
//! sigma family and 1 - sigma in rectified flow.

use crate::exact::Exact;
use crate::model::ModelSampling;

pub(super) fn lambda(model: &ModelSampling, sigma: f32) -> f32 {
    if model.prediction.is_flow() {
        -(sigma / (1.0 - sigma)).exact_ln()
    } else {
        -sigma.exact_ln()
    }
}

pub(super) fn sigma(model: &ModelSampling, lambda: f32) -> f32 {
    if model.prediction.is_flow() {
        1.0 / (1.0 + lambda.exact_exp())
    } else {
        (-lambda).exact_exp()
    }
}

/// Gives the levels with a first one whose lambda is finite: a flow's 1 becomes the level just
/// below.
pub(super) fn finite(model: &ModelSampling, sigmas: &[f32]) -> Vec<f32> {
    let mut sigmas = sigmas.to_vec();
    if model.prediction.is_flow() && sigmas.len() > 1 && sigmas[0] >= 1.0 {
        sigmas[0] = model.percent_to_sigma(1e-4) as f32;
    }
    sigmas
}
