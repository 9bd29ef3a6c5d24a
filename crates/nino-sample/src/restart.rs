//! What comes of a run that was stopped and goes on from the latent of its last step.

use crate::registry::Sampler;

/// A run from step `i` on, from the latent [`crate::Step`] told for it, beside the run that was not stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The same result: the sampler draws no noise and remembers nothing.
    Same,
    /// Another result of the same noise levels: what it remembered, or its place in a stream of noise, is lost.
    Like,
    /// Its steps are not the schedule's, so it cannot start at one of them.
    Never,
}

impl Sampler {
    pub fn restart(&self) -> Restart {
        match self.name {
            "dpm_fast" | "dpm_adaptive" | "uni_pc" | "uni_pc_bh2" => Restart::Never,
            "euler" | "euler_cfg_pp" | "heun" | "exp_heun_2_x0" | "dpm_2" | "ddim" => Restart::Same,
            _ => Restart::Like,
        }
    }
}
