//! Splitting a step into a longer deterministic one and fresh noise, so that the noise level still ends where
//! the schedule says.

/// `(down, up)` with down^2 + up^2 = to^2: step to level `down`, then add noise of deviation `up`.
pub(super) fn split(from: f32, to: f32, eta: f32) -> (f32, f32) {
    if eta == 0.0 {
        return (to, 0.0);
    }
    let up = to.min(eta * (to * to * (from * from - to * to) / (from * from)).sqrt());
    ((to * to - up * up).sqrt(), up)
}

/// The same for rectified flow, whose signal also shrinks with noise.
pub(super) struct FlowSplit {
    /// The level the deterministic step goes to.
    pub down: f32,
    /// Factor of the latent after that step.
    pub rescale: f32,
    /// Deviation of the noise then added.
    pub up: f32,
}

pub(super) fn split_flow(from: f32, to: f32, eta: f32) -> FlowSplit {
    let down = to * (1.0 + (to / from - 1.0) * eta);
    let (alpha, alpha_down) = (1.0 - to, 1.0 - down);
    let up = (to * to - down * down * (alpha * alpha) / (alpha_down * alpha_down)).sqrt();
    FlowSplit {
        down,
        rescale: alpha / alpha_down,
        up,
    }
}
