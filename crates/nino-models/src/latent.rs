//! Latent formats as data: the conversion between a model's latents and the VAE's, and the linear
//! map to RGB for previews.
//!
//! Latent files are in the VAE's units, the input of the full VAE's decoder. Diffusion models and
//! TAESD use the model's units, with about unit variance.

mod tables;

use tables::{
    FLUX_RGB, FLUX2_RGB, NINO_RGB, PLAYGROUND_MEAN, PLAYGROUND_RGB, PLAYGROUND_STD, SD3_RGB,
    SD15_RGB, SDXL_RGB, WAN21_MEAN, WAN21_RGB, WAN21_STD, WAN22_MEAN, WAN22_RGB, WAN22_STD,
};

/// A latent format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatentFormat {
    /// Its name, a value of `--latent-format`.
    pub name: &'static str,
    pub channels: usize,
    /// Pixels per latent pixel along one side.
    pub scale_down: usize,
    /// Frames per latent frame after the first; 1 for images.
    pub time_down: usize,
    factor: f32,
    shift: f32,
    /// Mean and standard deviation per channel; the mean replaces `shift`.
    mean_std: Option<(&'static [f32], &'static [f32])>,
    /// Latent pixels along one side that are packed into the channels of one (Flux.2).
    pub pack: usize,
    /// Preview: RGB in −1..1 per unit of each unpacked channel, in the model's units.
    pub rgb: &'static [[f32; 3]],
    pub rgb_bias: [f32; 3],
}

const BASE: LatentFormat = LatentFormat {
    name: "",
    channels: 4,
    scale_down: 8,
    time_down: 1,
    factor: 1.0,
    shift: 0.0,
    mean_std: None,
    pack: 1,
    rgb: &[],
    rgb_bias: [0.0; 3],
};

/// Every known format.
pub const FORMATS: [LatentFormat; 9] = [
    LatentFormat {
        name: "sd15",
        factor: 0.18215,
        rgb: &SD15_RGB,
        ..BASE
    },
    LatentFormat {
        name: "sdxl",
        factor: 0.13025,
        rgb: &SDXL_RGB,
        rgb_bias: [0.1084, -0.0175, -0.0011],
        ..BASE
    },
    // SDXL's VAE, with the statistics of Playground 2.5.
    LatentFormat {
        name: "playground",
        factor: 0.5,
        mean_std: Some((&PLAYGROUND_MEAN, &PLAYGROUND_STD)),
        rgb: &PLAYGROUND_RGB,
        ..BASE
    },
    LatentFormat {
        name: "sd3",
        channels: 16,
        factor: 1.5305,
        shift: 0.0609,
        rgb: &SD3_RGB,
        rgb_bias: [0.2394, 0.2135, 0.1925],
        ..BASE
    },
    LatentFormat {
        name: "flux",
        channels: 16,
        factor: 0.3611,
        shift: 0.1159,
        rgb: &FLUX_RGB,
        rgb_bias: [-0.0329, -0.0718, -0.0851],
        ..BASE
    },
    // The VAE normalizes by statistics of its own file.
    LatentFormat {
        name: "flux2",
        channels: 128,
        scale_down: 16,
        pack: 2,
        rgb: &FLUX2_RGB,
        rgb_bias: [-0.0329, -0.0718, -0.0851],
        ..BASE
    },
    LatentFormat {
        name: "wan21",
        channels: 16,
        time_down: 4,
        mean_std: Some((&WAN21_MEAN, &WAN21_STD)),
        rgb: &WAN21_RGB,
        rgb_bias: [-0.1835, -0.0868, -0.3360],
        ..BASE
    },
    LatentFormat {
        name: "wan22",
        channels: 48,
        scale_down: 16,
        time_down: 4,
        mean_std: Some((&WAN22_MEAN, &WAN22_STD)),
        rgb: &WAN22_RGB,
        rgb_bias: [0.0317, -0.0878, -0.1388],
        ..BASE
    },
    // The built-in model: its VAE was trained to unit variance.
    LatentFormat {
        name: "nino",
        rgb: &NINO_RGB,
        rgb_bias: [0.5558, 0.3880, 0.3920],
        ..BASE
    },
];

impl LatentFormat {
    /// The format of that name.
    pub fn by_name(name: &str) -> Option<&'static LatentFormat> {
        FORMATS.iter().find(|f| f.name == name)
    }

    /// Channels of the VAE's latent, before packing.
    pub fn unpacked_channels(&self) -> usize {
        self.channels / (self.pack * self.pack)
    }

    /// `(mul, add)` that convert a channel from the VAE's units to the model's: `v · mul + add`.
    pub fn to_model(&self, channel: usize) -> (f32, f32) {
        let (mean, std) = self.mean_std_of(channel);
        let mul = self.factor / std;
        (mul, -mean * mul)
    }

    /// `(mul, add)` that convert a channel from the model's units to the VAE's.
    pub fn to_vae(&self, channel: usize) -> (f32, f32) {
        let (mean, std) = self.mean_std_of(channel);
        (std / self.factor, mean)
    }

    fn mean_std_of(&self, channel: usize) -> (f32, f32) {
        match self.mean_std {
            Some((mean, std)) => (mean[channel], std[channel]),
            None => (self.shift, 1.0),
        }
    }
}

#[cfg(test)]
mod tests;
