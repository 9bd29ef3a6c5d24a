//! What a network's output means, and how noise and latent are mixed for it: epsilon (Ho et al.
//! 2020), v (Salimans and Ho 2022), x0, EDM (Karras et al. 2022), consistency (Luo et al. 2023) and
//! rectified flow. All but flow keep the signal at its own scale, x = x0 + sigma * noise; flow has
//! x = (1 - sigma) x0 + sigma * noise.

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Prediction {
    Eps,
    V,
    X0,
    /// X0 over an input that is not scaled: a picture becomes another one (Lotus).
    Translated,
    Edm,
    /// Epsilon with the boundary conditions of latent consistency models.
    Lcm,
    /// V over an input that is not scaled (CogVideoX).
    VUnscaled,
    /// Rectified flow; `noise_scale` is the deviation of the noise the model was trained with.
    Flow {
        noise_scale: f32,
    },
}

impl Prediction {
    pub const FLOW: Self = Self::Flow { noise_scale: 1.0 };

    pub fn is_flow(self) -> bool {
        matches!(self, Self::Flow { .. })
    }

    pub fn noise_scale(self) -> f32 {
        match self {
            Self::Flow { noise_scale } => noise_scale,
            _ => 1.0,
        }
    }

    /// What to multiply the noisy latent by before the network sees it.
    pub fn input_scale(self, sigma: f32, sigma_data: f32) -> f32 {
        match self {
            Self::Flow { .. } | Self::VUnscaled | Self::Translated => 1.0,
            _ => 1.0 / (sigma * sigma + sigma_data * sigma_data).sqrt(),
        }
    }

    /// `(a, b)` such that x0 = a * x + b * output, for the noisy latent `x` and the network's
    /// `output`. `timestep` matters only to consistency models.
    pub fn denoised_scales(self, sigma: f32, sigma_data: f32, timestep: f32) -> (f32, f32) {
        let square = sigma * sigma + sigma_data * sigma_data;
        let skip = sigma_data * sigma_data / square;
        let out = sigma * sigma_data / square.sqrt();
        match self {
            Self::Eps | Self::Flow { .. } => (1.0, -sigma),
            Self::V => (skip, -out),
            Self::Edm => (skip, out),
            Self::X0 | Self::Translated => (0.0, 1.0),
            Self::VUnscaled => {
                let root = (sigma * sigma + 1.0).sqrt();
                (1.0 / root, -sigma / root)
            }
            Self::Lcm => {
                let t = timestep * 10.0;
                let (c_skip, c_out) = (0.25 / (t * t + 0.25), t / (t * t + 0.25).sqrt());
                (c_skip + c_out, -c_out * sigma)
            }
        }
    }

    /// Writes the network's input for the noisy latent `x`.
    pub fn input(self, sigma: f32, sigma_data: f32, x: &[f32], out: &mut [f32]) {
        let scale = self.input_scale(sigma, sigma_data);
        out.iter_mut().zip(x).for_each(|(o, x)| *o = x * scale);
    }

    /// Turns the network's `output` into x0 in place.
    pub fn denoised(
        self,
        sigma: f32,
        sigma_data: f32,
        timestep: f32,
        x: &[f32],
        output: &mut [f32],
    ) {
        let (a, b) = self.denoised_scales(sigma, sigma_data, timestep);
        output
            .iter_mut()
            .zip(x)
            .for_each(|(o, x)| *o = a * x + b * *o);
    }

    /// `(noise, latent)` weights of the latent a run starts from. `full` means the run starts at
    /// the model's highest level, where the models of the sigma family saw noise of deviation
    /// sqrt(1 + sigma^2).
    pub fn noise_scales(self, sigma: f32, full: bool) -> (f32, f32) {
        match self {
            Self::Flow { noise_scale } => (sigma * noise_scale, 1.0 - sigma),
            _ if full => ((1.0 + sigma * sigma).sqrt(), 1.0),
            _ => (sigma, 1.0),
        }
    }

    /// What a finished latent is divided by: a flow that stops at `sigma` still has its signal
    /// scaled down.
    pub fn finish_scale(self, sigma: f32) -> f32 {
        if self.is_flow() { 1.0 - sigma } else { 1.0 }
    }
}
